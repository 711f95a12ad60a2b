// Package search finds records of a chain by who acted, what was done, in whose name, and what
// their payloads say. It keeps nothing itself: a [Reader] gives records and summaries.
//
// # Summary
//
// Of each [Width] records whose first number is a multiple of Width there is a summary, once all of
// them are there: which agents, actions and principals stand in them, and in which records. It
// follows from the records alone, so all who make it make the same bytes. Numbers of more than one
// byte stand with their greatest byte first.
//
//	byte     1, the version of this form
//	agents   their number less one (a byte), and of each 8 bytes: the beginning of the SHA-256 of the agentId
//	actions  their number less one (a byte), and of each actionType
//	           its length (a byte, at most 32) and its bytes, or
//	           255, its first 24 bytes and the first 8 of its SHA-256
//	principals  their number (two bytes), and of each 8 bytes, as of agents
//	combinations  their number less one (a byte), and of each
//	           number of the agent (a byte), number of the action (a byte), how many principals (a byte), their
//	           numbers (two bytes each)
//	records  where there is more than one combination: of each record the number of its own (a byte)
//
// All lists are in the order in which their items first stand in the records; actions that are
// stored alike are one item. The principals of a record are those who had given the power that it
// was done with: the subject of its delegation, and the chain of that but for the last, who acted.
// A record without a delegation has none, and no other has none.
//
// A summary has 37 KB at most, of records that name ten principals each; mostly a few hundred
// bytes. It is not signed: whoever writes the database can hide a record from a search, and only
// verification of the chain, which reads no summary, shows that nothing is missing.
package search

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"attestd/chain"
)

// Width is how many records have a summary in common: as many as a stored subtree of the lowest
// level.
const Width = 1 << 8

// Filter says which records are looked for: those for which all of it holds. The zero Filter holds
// for all.
type Filter struct {
	Agent  string // agentId; "" for any
	Action string // actionType, or its beginning and a *; "" for any
	// a principal of the record, * for any record with a delegation; "" for all records
	DelegatedBy string
	// stands in a string or a name within the payload, letters of ASCII in either case; "" for any
	Text string
	Hash string // of the record as it is stored, its 32 bytes; "" for any
}

// NeedsRecords says whether f asks for what stands in no summary, so that records have to be read
// one by one.
func (f *Filter) NeedsRecords() bool { return f.Text != "" || f.Hash != "" }

// hasTerms says whether a summary can decide something of f.
func (f *Filter) hasTerms() bool { return f.Agent != "" || f.Action != "" || f.DelegatedBy != "" }

// DamageError says that a record is not on disk, or not in the form that records have. Verification
// says what is wrong with it.
type DamageError struct {
	Index int64
	Cause error
}

func (e *DamageError) Error() string { return fmt.Sprintf("search: record %d: %v", e.Index, e.Cause) }
func (e *DamageError) Unwrap() error { return e.Cause }

var errUnreadable = errors.New("not of the form that records have")

// Reader reads chains from disk.
type Reader interface {
	// Records calls yield for the records of [from, to) that exist, in the order of their numbers;
	// RecordsBackward in the other. The record and its slices are only valid during the call. An
	// error of yield ends the read and is returned as it is.
	Records(ctx context.Context, chain, from, to int64, yield func(*chain.Record) error) error
	RecordsBackward(ctx context.Context, chain, from, to int64, yield func(*chain.Record) error) error
	// Summaries calls yield for the summaries that exist of [from, to), which are numbered as
	// stored subtrees are, in the order of their numbers or in the other. The bytes are only valid
	// during the call. An error of yield is as above.
	Summaries(ctx context.Context, chain, from, to int64, backward bool, yield func(index int64, summary []byte) error) error
}

// Matches says whether all of f holds for a record. Of a damaged one nobody can say: *DamageError.
func (f *Filter) Matches(r *chain.Record) (bool, error) {
	var t Terms
	return f.matches(r, &t)
}

func (f *Filter) matches(r *chain.Record, t *Terms) (bool, error) {
	if err := t.Read(r); err != nil {
		return false, err
	}
	if f.Agent != "" && string(t.Agent) != f.Agent || !f.action(string(t.Action)) || !f.delegation(t) || f.Hash != "" && string(r.Hash[:]) != f.Hash {
		return false, nil
	}
	if f.Text == "" {
		return true, nil
	}
	found, err := containsText(t.Value, f.Text, &t.scratch)
	if err != nil {
		err = unreadable(r)
	}
	return found, err
}

func (f *Filter) action(action string) bool {
	if start, isPrefix := strings.CutSuffix(f.Action, "*"); isPrefix {
		return strings.HasPrefix(action, start)
	}
	return f.Action == "" || f.Action == action
}

func (f *Filter) delegation(t *Terms) bool {
	switch f.DelegatedBy {
	case "":
		return true
	case "*":
		return len(t.Principals) > 0
	}
	for _, p := range t.Principals {
		if string(p) == f.DelegatedBy {
			return true
		}
	}
	return false
}

func unreadable(r *chain.Record) error { return &DamageError{r.Index, errUnreadable} }
