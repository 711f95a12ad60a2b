package service

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"strconv"

	"attestd/chain"
	"attestd/crypto/statement"
	"attestd/store"
)

// Session is a run of an agent, as far as it is recorded: statements of one key under one sid, from
// seq 0 on.
type Session struct {
	AgentID string     `json:"agentId"`
	KID     string     `json:"kid"` // thumbprint of the key
	SID     string     `json:"sid"`
	First   int64      `json:"first"` // the least seq, and the greatest
	Last    int64      `json:"last"`
	FirstAt string     `json:"firstAt"` // when their records were made
	LastAt  string     `json:"lastAt"`
	Records int64      `json:"records"`
	State   string     `json:"state"`   // sealed, open or gap
	Missing [][2]int64 `json:"missing"` // ranges of seq, both ends included; at most 100

	Cursor string `json:"-"` // to go on after it
}

// The states of a session.
const (
	SessionSealed = "sealed" // 0…end are all there
	SessionOpen   = "open"
	SessionGap    = "gap" // Missing are not there
)

// maxMissing is how many ranges are listed at most.
const maxMissing = 100

// maxPlaces is of how many records a page of sessions is made: then it ends, whatever was asked.
const maxPlaces = 200_000

// noteSession makes sure that the session of a statement is listed.
func (a *AgentKeys) noteSession(ctx context.Context, by store.Caller, agentID string, s *statement.Statement) error {
	return a.Store.Sessions.Note(ctx, by, store.Session{AgentID: agentID, Key: s.KeyID, ID: s.Session})
}

// Sessions lists a page of at most so many sessions of an agent, or with "" of all agents, the
// newest first, after a cursor. next is the cursor of the next page, "" at the end.
func (a *AgentKeys) Sessions(ctx context.Context, by store.Caller, agentID, cursor string, most int) (page []Session, next string, err error) {
	before := int64(math.MaxInt64)
	if cursor != "" {
		if before, err = strconv.ParseInt(cursor, 10, 64); err != nil || before < 1 {
			return nil, "", refuse(Invalid, "Invalid query parameter: cursor is not one of a page before")
		}
	}
	page = []Session{}
	var read int64
	for named, err := range a.Store.Sessions.List(ctx, by, agentID, before) {
		if err != nil {
			return nil, "", err
		}
		if len(page) == most || read >= maxPlaces {
			return page, next, nil
		}
		next = strconv.FormatInt(named.Number, 10)
		s, err := readSession(ctx, &a.Store.View, by, named)
		if err != nil {
			return nil, "", err
		}
		if read += s.Records; s.Records > 0 { // none of a session whose first record was refused
			page = append(page, s)
		}
	}
	return page, "", nil
}

// places yields the places of a session with their records, in the order of seq.
func places(ctx context.Context, v *store.View, by store.Caller, of store.Session) iter.Seq2[store.Place, error] {
	return func(yield func(store.Place, error) bool) {
		session := sessionHash(of.Key, of.ID)
		ended := false
		err := v.Places(ctx, by, sessionName(session, 0), sessionName(session, math.MaxInt64), func(p store.Place) bool {
			if p.Name != sessionName(session, seqOf(p.Name)) {
				return true // its first half alone is that of the session
			}
			ended = !yield(p, nil)
			return !ended
		})
		if err != nil && !ended {
			yield(store.Place{}, err)
		}
	}
}

// readSession reads how far a session has come.
func readSession(ctx context.Context, v *store.View, by store.Caller, of store.Session) (Session, error) {
	s := Session{AgentID: of.AgentID, KID: of.Key, SID: of.ID, State: SessionOpen, Missing: [][2]int64{}}
	var first, last int64 // records
	for p, err := range places(ctx, v, by, of) {
		if err != nil {
			return s, err
		}
		seq := seqOf(p.Name)
		expected := s.Last + 1
		if s.Records == 0 {
			s.First, first, expected = seq, p.Index, 0
		}
		if seq != expected {
			s.State = SessionGap
			if len(s.Missing) < maxMissing {
				s.Missing = append(s.Missing, [2]int64{expected, seq - 1})
			}
		}
		s.Last, last = seq, p.Index
		s.Records++
	}
	if s.Records == 0 {
		return s, nil
	}
	begun, err := recordAt(ctx, v, by.Company.Actions, first)
	if err != nil {
		return s, err
	}
	ended, err := recordAt(ctx, v, by.Company.Actions, last)
	if err != nil {
		return s, err
	}
	said, err := statementOf(&ended)
	if err != nil {
		return s, err
	}
	if s.State == SessionOpen && said != nil && said.End {
		s.State = SessionSealed
	}
	s.FirstAt, s.LastAt = begun.Timestamp, ended.Timestamp
	return s, nil
}

// statementOf reads the statement of a record; nil where it has none.
func statementOf(r *chain.Record) (said *statement.Statement, err error) {
	var payload struct{ Statement string }
	if err = json.Unmarshal(r.Payload, &payload); err == nil && payload.Statement != "" {
		said, err = statement.Parse(payload.Statement)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: the statement of record %d: %w", store.ErrCorrupt, r.Index, err)
	}
	return said, nil
}
