// Package search finds records of a chain by agent, action, delegating principal, decision, and by
// text or members of the payload. It has no storage: a [Reader] provides records and summaries.
//
// # Summary
//
// Each complete range of [Width] records that starts at a multiple of Width has a summary: it lists
// the agents, actions and principals, and maps records to them. It depends only on the records, so
// every implementation makes the same bytes. Numbers are big-endian.
//
//	byte     the version of this form: 2 if a record of the range has a decision, otherwise 1
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
// and in version 2
//
//	policies   their number (two bytes), and of each 8 bytes, as of agents, of its ID
//	decisions  their number less one (a byte), and of each
//	             its verdict (a byte: 0 of records without a decision, 1 allow, 2 deny, 3 ask),
//	             how many policies made it (a byte), and their numbers (two bytes each), or
//	             255 if more than 8 did
//	records    where there is more than one decision: of each record the number of its own (a byte)
//
// Items of a list are in the order of their first record; actions with equal stored forms are one
// item. The principals of a record are those who delegated: the subject of its delegation, and its
// chain except the last, who acted. Exactly the records without a delegation have no principals.
//
// A summary usually has a few hundred bytes, and at most 59 KB, for records with ten principals and
// eight policies each. It is not signed: anyone who can write the database can hide a record from a
// search. Verification of the chain reads no summaries, and shows that nothing is missing.
package search

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"attestd/chain"
	"attestd/chain/decision"
)

// Width is the number of records of a summary, equal to that of a stored subtree of the lowest
// level.
const Width = 1 << 8

// Filter selects the records that meet all its conditions. The zero Filter selects all.
type Filter struct {
	Agent  string // exact agentId; "" for any
	Action string // exact actionType, or a prefix and *; "" for any
	// an exact actionType of a few characters that matches beside Action; "" for none
	OrAction string
	// a record whose decision does not allow what it requests matches beside Action
	OrRefused bool
	// a principal of the record; * for any record with a delegation; "" for all records
	DelegatedBy string
	// text in a string or member name of the payload, ignoring ASCII case; "" for any
	Text    string
	Members *Members // of the payload; nil for any
	// verdict of the record's decision, and ID of a policy that made it; "" for any, also none
	Decision, Policy string
	Hash             string // the 32 bytes of the record's stored hash; "" for any
}

// NeedsRecords reports whether f has a condition that summaries do not cover, so that records must
// be read.
func (f *Filter) NeedsRecords() bool { return f.Text != "" || f.Members != nil || f.Hash != "" }

// NeedsPayload reports whether f has a condition on payloads. No record matches it whose payload
// was pruned.
func (f *Filter) NeedsPayload() bool {
	return f.Agent != "" || f.Action != "" || f.Text != "" || f.Members != nil || f.needsDecision()
}

func (f *Filter) needsDecision() bool { return f.Decision != "" || f.Policy != "" }

// hasTerms reports whether f has a condition that summaries cover.
func (f *Filter) hasTerms() bool {
	return f.Agent != "" || f.Action != "" || f.DelegatedBy != "" || f.needsDecision()
}

// DamageError means that a record is missing or malformed. Verification gives the details.
type DamageError struct {
	Index int64
	Cause error
}

func (e *DamageError) Error() string { return fmt.Sprintf("search: record %d: %v", e.Index, e.Cause) }
func (e *DamageError) Unwrap() error { return e.Cause }

var errUnreadable = errors.New("malformed record")

// Reader reads stored chains.
type Reader interface {
	// Records calls yield for the existing records in [from, to) in ascending order,
	// RecordsBackward in descending order. The record and its slices are only valid during the
	// call. An error of yield ends the read and is returned unwrapped.
	Records(ctx context.Context, chain, from, to int64, yield func(*chain.Record) error) error
	RecordsBackward(ctx context.Context, chain, from, to int64, yield func(*chain.Record) error) error
	// Summaries calls yield for the existing summaries in [from, to), in ascending or descending
	// order. Their indexes are those of stored subtrees. The bytes are only valid during the call.
	// An error of yield ends the read and is returned unwrapped.
	Summaries(ctx context.Context, chain, from, to int64, backward bool, yield func(index int64, summary []byte) error) error
}

// Matches reports whether a record meets all conditions of f. For a damaged record it returns a
// *DamageError. A record whose payload was pruned meets no condition on payloads.
func (f *Filter) Matches(r *chain.Record) (bool, error) {
	var t Terms
	return f.matches(r, &t)
}

func (f *Filter) matches(r *chain.Record, t *Terms) (bool, error) {
	if err := t.Read(r); err != nil {
		return false, err
	}
	if r.IsPruned() && f.NeedsPayload() {
		return false, nil
	}
	if f.Agent != "" && string(t.Agent) != f.Agent || !f.action(string(t.Action)) && !(f.OrRefused && refuses(string(t.Verdict))) || !f.delegation(t) || !f.decision(t) || f.Hash != "" && string(r.Hash[:]) != f.Hash {
		return false, nil
	}
	found := true
	var err error
	if f.Members != nil {
		found, err = f.Members.in(t.Value, &t.reader)
	}
	if f.Text != "" && found && err == nil {
		found, err = containsText(t.Value, f.Text, &t.scratch)
	}
	if err != nil {
		err = unreadable(r)
	}
	return found && err == nil, err
}

func (f *Filter) action(action string) bool {
	if start, isPrefix := strings.CutSuffix(f.Action, "*"); isPrefix {
		return strings.HasPrefix(action, start) || f.OrAction == action
	}
	return f.Action == "" || f.Action == action || f.OrAction == action
}

// refuses reports whether a verdict does not allow, "" for none.
func refuses(verdict string) bool { return verdict != "" && verdict != decision.Allow }

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

func (f *Filter) decision(t *Terms) bool {
	return (!f.needsDecision() || t.Verdict != nil) && (f.Decision == "" || f.Decision == string(t.Verdict)) &&
		(f.Policy == "" || slices.ContainsFunc(t.Policies, func(id []byte) bool { return string(id) == f.Policy }))
}

func unreadable(r *chain.Record) error { return &DamageError{r.Index, errUnreadable} }
