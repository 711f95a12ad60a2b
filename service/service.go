// Package service is what the doors of attestd share: HTTP, hooks, batches, MCP. A method is a
// function of who asks and what is asked, (ctx, caller, request) to a result or an error. It knows
// no HTTP and no SQL: package server reads requests and writes answers, package store has the rows.
//
// Each kind of thing has a small type of its own: [Attestations], [Delegations], [Agents],
// [Passports], [Evidence], [Checkpoints]. An error is an [*Error] where the request is at fault,
// and otherwise what store and chain say; a [*chain.DraftError] around it names the item of several
// that it is about.
package service

import (
	"errors"
	"iter"

	"attestd/store"
)

// Kind is why a request is refused.
type Kind int

const (
	Invalid     Kind = iota // the request is not what it must be
	Untrusted               // what it presents as a proof is none
	Forbidden               // the caller may not do this
	NotFound                // what it is about is not the company's
	Conflict                // what it is about is in another state
	Exists                  // what must be new is there already
	TooLarge                // the answer would be too large for its form
	Gone                    // it needs a payload that was pruned
	Unavailable             // what it needs from elsewhere cannot be had now
)

// Error is the refusal of a request: a sentence for people, and for programs what they can tell
// apart.
type Error struct {
	Kind    Kind
	Message string
	Code    string // machine-readable; mostly ""
	Pointer string // the place in the request that is at fault (RFC 6901); "" for the whole
	// of a text that is at fault, from 1; 0 where nothing of it is
	Line, Column int
}

func (e *Error) Error() string { return e.Message }

func refuse(kind Kind, message string) *Error { return &Error{Kind: kind, Message: message} }

// at says of a refusal which place in the request is at fault, unless it says so already.
func at(err error, pointer string) error {
	var refused *Error
	if errors.As(err, &refused) && refused.Pointer == "" {
		refused.Pointer = pointer
	}
	return err
}

// Reason is the text that is joined to one of the errors of Tokens, or "".
func Reason(err, kind error) string {
	if joined, is := err.(interface{ Unwrap() []error }); is && joined.Unwrap()[0] == kind {
		return joined.Unwrap()[1].Error()
	}
	return ""
}

// MaxDepth is how deep a caller's value may nest.
const MaxDepth = 128

// MaxItems is how many attestations are appended at once at most.
const MaxItems = 1000

// mayActAs refuses what an agent that has signed in does in the name of another.
func mayActAs(by store.Caller, agentID string) error {
	if by.Agent != "" && by.Agent != agentID {
		return &Error{Kind: Forbidden, Code: "FORBIDDEN_AGENT", Message: "The credential is the agent " + by.Agent + "'s own, and acts for no other"}
	}
	return nil
}

// Map turns what the store yields into what the API shows.
func Map[S, T any](items iter.Seq2[S, error], show func(S) T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for item, err := range items {
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			if !yield(show(item), nil) {
				return
			}
		}
	}
}
