package service

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"attestd/chain"
	"attestd/chain/action"
	"attestd/crypto/statement"
	"attestd/store"
	"attestd/store/names"
)

// Session is a run of an agent, as far as it is recorded: statements of one key under one sid, from
// seq 0 on; or, without statements, the records that name it, of which nothing shows that one is
// missing.
type Session struct {
	AgentID string     `json:"agentId"`
	Kind    string     `json:"kind"`   // see SessionKinds
	Source  string     `json:"source"` // what recorded it, by the payload of its first record
	KID     string     `json:"kid"`    // thumbprint of the key; "" without statements
	SID     string     `json:"sid"`
	First   int64      `json:"first"` // the least seq, and the greatest; 0 without statements
	Last    int64      `json:"last"`
	FirstAt string     `json:"firstAt"` // when their records were made
	LastAt  string     `json:"lastAt"`
	Records int64      `json:"records"`
	State   string     `json:"state"`   // sealed, open, gap, broken, unproven or pruned
	Ended   bool       `json:"ended"`   // its last record says that it is the last
	Missing [][2]int64 `json:"missing"` // ranges of seq, both ends included; at most 100
	// places that are not there and that a later statement names as refused
	Refused   int        `json:"refused"`
	Continues *Continues `json:"continues,omitempty"` // of the first statement
	// The payload of its first record was pruned, so Source is "".
	Pruned bool `json:"pruned,omitempty"`

	// What State would be if no call had disobeyed a refusal, and the first 100 of these calls.
	Completeness string             `json:"completeness,omitempty"`
	Disobeyed    []action.Disobeyed `json:"disobeyed,omitempty"`

	Cursor string `json:"-"` // to go on after it
}

// Continues names the session that another one goes on from.
type Continues struct {
	SID  string `json:"sid"`
	KID  string `json:"kid"`
	Hash string `json:"hash"` // SHA-256 of the compact JWS of its last statement
}

// The states of a session.
const (
	SessionSealed = "sealed" // 0…end are all there, or were refused
	SessionOpen   = "open"
	SessionGap    = "gap" // Missing are not there
	// its statements contradict one another, by prev or by what they name as refused: every checker
	// refuses its file
	SessionBroken   = "broken"
	SessionUnproven = "unproven" // without statements: whether all are there cannot be known
	// 0…Last are all there, and a payload was pruned, so that its statement cannot be checked
	SessionPruned = "pruned"
	// A call of it was refused and ran all the same: Completeness says the rest.
	SessionDisobeyed = "disobeyed"
)

// maxMissing is how many ranges are listed at most.
const maxMissing = 100

const (
	// maxPlaces is of how many records a page of sessions is made: then it ends, whatever was
	// asked.
	maxPlaces = 200_000
	// placesOfEnds is for how many of those it counts to look at the ends of a session alone.
	placesOfEnds = 50
)

// SessionQuery narrows a list of sessions. What is "" narrows nothing.
type SessionQuery struct {
	AgentID, SID, Kind string
	From, To           string // sessions with a record in [From, To), as far as first and last show
	Cursor             string // of the page before
	Limit              int
}

// Sessions lists a page of sessions, the newest first. next is the cursor of the next page, "" at
// the end.
func (a *AgentKeys) Sessions(ctx context.Context, by store.Caller, q SessionQuery) (page []Session, next string, err error) {
	asked := store.SessionQuery{AgentID: q.AgentID, ID: q.SID, Before: math.MaxInt64}
	if q.Cursor != "" {
		if asked.Before, err = strconv.ParseInt(q.Cursor, 10, 64); err != nil || asked.Before < 1 {
			return nil, "", refuse(Invalid, "Invalid query parameter: cursor is not one of a page before")
		}
	}
	if asked.Key, asked.Signed, err = keyOfKind(q.Kind); err != nil {
		return nil, "", err
	}
	for _, at := range []struct{ name, text string }{{"from", q.From}, {"to", q.To}} {
		if at.text != "" && !chain.IsTimestamp(at.text) {
			return nil, "", refuse(Invalid, "Invalid query parameter: "+at.name+" must be a time, as in 2026-03-02T09:05:04.218Z")
		}
	}
	page = []Session{}
	var read int64
	for named, err := range a.Store.Sessions.List(ctx, by, asked) {
		if err != nil {
			return nil, "", err
		}
		if len(page) == q.Limit || read >= maxPlaces {
			return page, next, nil
		}
		next = strconv.FormatInt(named.Number, 10)
		if q.From != "" || q.To != "" {
			read += placesOfEnds
			within, err := a.isWithin(ctx, &a.Store.View, by, named, q.From, q.To)
			if err != nil {
				return nil, "", err
			}
			if !within {
				continue
			}
		}
		s, cost, err := a.readSession(ctx, &a.Store.View, by, named)
		if err != nil {
			return nil, "", err
		}
		if read += cost; s.Records > 0 { // none of a session whose first record was refused
			page = append(page, s)
		}
	}
	return page, "", nil
}

// keyOfKind is how a store knows the sessions of a kind, "" for all.
func keyOfKind(kind string) (key string, signed bool, err error) {
	switch {
	case kind == "":
		return "", false, nil
	case !slices.Contains(SessionKinds, kind):
		return "", false, refuse(Invalid, "Invalid query parameter: kind must be statement, hook, mcp, run or telemetry")
	case kind == SessionOfStatements:
		return "", true, nil
	}
	return kind, false, nil
}

// places yields the places of a session from a number on, in the order of their numbers.
func places(ctx context.Context, v *store.View, by store.Caller, of store.Session, from int64) iter.Seq2[place, error] {
	return func(yield func(place, error) bool) {
		series := of.Series()
		ended := false
		err := v.Places(ctx, by, series.At(from), series.At(math.MaxInt64), func(p store.Place) bool {
			number, ok := series.Number(p.Name)
			if !ok {
				return true // its first half alone is that of the session
			}
			ended = !yield(place{number, p.Index}, nil)
			return !ended
		})
		if err != nil && !ended {
			yield(place{}, err)
		}
	}
}

// isWithin says whether a session has its first record before a time, and its last at or after
// another; "" is none.
func (a *AgentKeys) isWithin(ctx context.Context, v *store.View, by store.Caller, of store.Session, from, to string) (bool, error) {
	series := of.Series()
	ends, err := v.PlaceEnds(ctx, by, series.At(0), series.At(math.MaxInt64))
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for _, end := range ends {
		if _, ok := series.Number(end.Name); !ok { // another name is at the end: all are read
			s, _, err := a.readSession(ctx, v, by, of)
			return s.Records > 0 && (to == "" || s.FirstAt < to) && s.LastAt >= from, err
		}
	}
	begun, err := recordAt(ctx, v, by.Company.Actions, ends[0].Index)
	if err != nil || to != "" && begun.Timestamp >= to {
		return false, err
	}
	ended, err := recordAt(ctx, v, by.Company.Actions, ends[1].Index)
	return ended.Timestamp >= from, err
}

// readSession reads how far a session has come. cost is how many places it counts for.
func (a *AgentKeys) readSession(ctx context.Context, v *store.View, by store.Caller, of store.Session) (s Session, cost int64, err error) {
	if kindOf(of) != SessionOfStatements {
		if s, err = readUnproven(ctx, v, by, of); err == nil && s.Records > 0 {
			err = s.addDisobeyed(ctx, v, by, of)
		}
		return s, s.Records, err
	}
	name := sequenceOf{by.Company.Chain, of}
	name.session.Number = 0
	known := a.sequences.remove(name)
	s, q, count, err := readStatements(ctx, v, by, of, known)
	if err == nil && !q.pruned {
		a.sequences.put(name, q)
	}
	if err == nil && s.Records > 0 {
		err = s.addDisobeyed(ctx, v, by, of)
	}
	return s, s.Records + costOfStatement*count, err
}

// readUnproven reads how far a session without statements has come.
func readUnproven(ctx context.Context, v *store.View, by store.Caller, of store.Session) (Session, error) {
	s := Session{AgentID: of.AgentID, Kind: kindOf(of), SID: of.ID, State: SessionUnproven, Missing: [][2]int64{}}
	var first, last int64 // records
	for p, err := range places(ctx, v, by, of, 0) {
		if err != nil {
			return s, err
		}
		if s.Records == 0 {
			first = p.index
		}
		last = p.index
		s.Records++
	}
	if s.Records == 0 {
		return s, nil
	}
	_, err := s.readEnds(ctx, v, by, first, last)
	return s, err
}

// readStatements reads how far a session of statements has come, from where it was read to before.
// It returns what it has read to now, and how many statements it has read.
func readStatements(ctx context.Context, v *store.View, by store.Caller, of store.Session, q *sequence) (s Session, _ *sequence, count int64, err error) {
	s = Session{AgentID: of.AgentID, Kind: SessionOfStatements, KID: of.Key, SID: of.ID, State: SessionOpen, Missing: [][2]int64{}}
	var first, last, lowest int64 // records
	all, isGrown := newDigest(), q.read.count == 0
	for p, err := range places(ctx, v, by, of, 0) {
		if err != nil {
			return s, q, 0, err
		}
		if s.Records == 0 {
			first, lowest = p.index, p.index
		}
		last, lowest = p.index, min(lowest, p.index)
		s.addPlace(p.number)
		s.Records++
		if all.add(p); all.count == q.read.count {
			isGrown = all.hash.Sum64() == q.read.hash.Sum64()
		}
	}
	if s.Records == 0 {
		return s, q, 0, nil
	}
	if !isGrown { // another statement has come in between
		q = newSequence()
	}
	endPruned, err := s.readEnds(ctx, v, by, first, last)
	if err != nil {
		return s, q, 0, err
	}
	// payloads are pruned from the beginning of the log
	oldest, err := recordAt(ctx, v, by.Company.Actions, lowest)
	if q.pruned = oldest.IsPruned() || endPruned; err == nil && !q.pruned {
		count, err = q.readOn(ctx, v, by, of)
	}
	s.setState(q)
	return s, q, count, err
}

// setState sets the state of a session of statements by what they say.
func (s *Session) setState(q *sequence) {
	switch {
	case q.broken:
		s.State = SessionBroken
		return
	case q.pruned: // by the places alone
		if s.State != SessionGap {
			s.State = SessionPruned
		}
		return
	}
	s.Refused = q.Refused
	if from := q.Continues; from != nil {
		s.Continues = &Continues{from.Session, from.KeyID, from.Hash}
	}
	missing, more := q.Missing()
	switch s.Missing = missing; {
	case more > 0:
		s.State = SessionGap
	case q.Sealed:
		s.State = SessionSealed
	default:
		s.State = SessionOpen
	}
}

// readEnds reads what the first and the last record of a session say of it. isPruned reports that
// the payload of the last was pruned.
func (s *Session) readEnds(ctx context.Context, v *store.View, by store.Caller, first, last int64) (isPruned bool, err error) {
	begun, err := readContent(ctx, v, by, first)
	if err != nil {
		return false, err
	}
	ended, err := readContent(ctx, v, by, last)
	s.FirstAt, s.LastAt, s.Source, s.Ended, s.Pruned = begun.at, ended.at, begun.source, ended.last(s.Kind), begun.pruned
	return ended.pruned, err
}

// addPlace takes the next seq of a session of statements.
func (s *Session) addPlace(seq int64) {
	expected := s.Last + 1
	if s.Records == 0 {
		s.First, expected = seq, 0
	}
	if seq != expected {
		s.State = SessionGap
		if len(s.Missing) < maxMissing {
			s.Missing = append(s.Missing, [2]int64{expected, seq - 1})
		}
	}
	s.Last = seq
}

// content is what a record of a session says of it.
type content struct {
	at, action, source string
	statement          *statement.Statement // nil where it has none
	pruned             bool                 // its payload, so all but at is unknown
}

// last says whether the record says that it is the last of its session.
func (r *content) last(kind string) bool {
	if kind == SessionOfStatements {
		return r.statement != nil && r.statement.End
	}
	return r.action == "session.ended" || r.action == "run.ended"
}

// readSaid reads what a record of the actions says of its session.
func readContent(ctx context.Context, v *store.View, by store.Caller, index int64) (s content, err error) {
	r, err := recordAt(ctx, v, by.Company.Actions, index)
	if err != nil {
		return s, err
	}
	s.at = r.Timestamp
	if s.pruned = r.IsPruned(); s.pruned {
		return s, nil
	}
	if s.statement, err = statementOf(&r); err != nil {
		return s, err
	}
	var payload struct {
		ActionType string         `json:"actionType"`
		Payload    jsontext.Value `json:"payload"`
	}
	if err := json.Unmarshal(r.Payload, &payload); err != nil {
		return s, fmt.Errorf("%w: the payload of record %d: %w", store.ErrCorrupt, r.Index, err)
	}
	s.action = payload.ActionType
	var inner struct {
		Source jsontext.Value `json:"source"` // spelled so, as checkers read it
	}
	if json.Unmarshal(payload.Payload, &inner) == nil && len(inner.Source) <= maxSessionID {
		_ = json.Unmarshal(inner.Source, &s.source) // what is no string is no source
	}
	return s, nil
}

// SessionRecords calls yield for at most limit records of a session in the order of the log, from
// an index on. next is where the next page begins; 0 at the end.
func (e *Evidence) SessionRecords(ctx context.Context, by store.Caller, of store.Session, from int64, limit int, yield func(*chain.Record) error) (next int64, err error) {
	signed, begin := kindOf(of) == SessionOfStatements, from
	if signed {
		begin = 0 // the order of seq may be another
	}
	var indexes []int64
	for p, err := range places(ctx, &e.Store.View, by, of, begin) {
		if err != nil {
			return 0, err
		}
		if p.index >= from {
			indexes = append(indexes, p.index)
		}
		if len(indexes) > limit && !signed {
			break
		}
	}
	slices.Sort(indexes)
	if len(indexes) > limit {
		next, indexes = indexes[limit], indexes[:limit]
	}
	f := &SessionFile{log: by.Company.Actions, store: e.Store}
	for len(indexes) > 0 {
		records, err := f.batch(ctx, indexes)
		if err != nil {
			return 0, err
		}
		for i := range records {
			if err := yield(&records[i]); err != nil {
				return 0, err
			}
		}
		indexes = indexes[len(records):]
	}
	return next, nil
}

// The kinds of sessions. Those of statements can be proven complete; the others are the records in
// whose payload a caller names one session, of which nothing shows that one is missing.
const (
	SessionOfStatements = "statement"
	SessionOfHooks      = names.Hooks
	SessionOfMCP        = names.MCP
	SessionOfRun        = names.Run
	SessionOfTelemetry  = names.Telemetry
)

// SessionKinds are all kinds of sessions.
var SessionKinds = []string{SessionOfStatements, SessionOfHooks, SessionOfMCP, SessionOfRun, SessionOfTelemetry}

// kindOf is the kind of a session in a store, where Key is the kind of those without statements.
func kindOf(of store.Session) string {
	if of.IsSigned() {
		return SessionOfStatements
	}
	return of.Key
}

// maxSessionID is the maximum size in bytes of the source of a session.
const maxSessionID = 256

// SeriesOfNamed names the records of a session without statements. ok is false for one of
// statements, whose places are never free again.
func SeriesOfNamed(of store.Session) (series chain.Series, ok bool) {
	if of.IsSigned() {
		return chain.Series{}, false
	}
	return of.Series(), true
}
