package attestd

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"

	"attestd/crypto/statement"
)

// Errors of a session in which nothing can follow.
var (
	ErrEnded = errors.New("the session has ended")
	ErrTaken = errors.New("the service has other statements of a session of this ID: begin one with another ID")
)

// Session is one run of an agent: its statements are numbered, and each names the one before, so
// that nothing can be taken out unseen. It sends one at a time, and is as long as the process: for
// a session that goes on after a crash, or while the service is away, see package spool. It is safe
// for concurrent use.
type Session struct {
	client   *Client
	identity *Identity

	mu         sync.Mutex
	next       Place
	last       *Continuation  // the newest statement; nil before the first
	refused    []RefusedPlace // that no statement names, but one that was refused itself
	spent      map[string]int // how many statements under an idempotency key were refused
	pending    *signed        // of which it is not known whether it is recorded
	own        bool           // no other session has its ID: it is random, or something is recorded
	idConflict bool           // another session has its ID
}

// signed is an attestation at its place.
type signed struct {
	Attestation
	key   string // under which the caller knows it
	stmt  *statement.Statement
	asked bool // it was sent before, and the answer was lost
}

// Session begins a session. The client's credential MUST be an [Identity], and no two sessions of
// an agent may have one ID, under whichever of its keys: 1 to 128 of A-Z, a-z, 0-9, '.', '_', '~'
// and '-'. With "" it makes one up.
func (c *Client) Session(id string) (*Session, error) {
	identity, ok := c.credential.(*Identity)
	if !ok {
		return nil, errors.New("a session needs an agent's key: give the client an Identity as its credential")
	}
	own := id == ""
	if own {
		id = NewIdempotencyKey()
	}
	return &Session{client: c, identity: identity, next: Place{Session: id}, spent: map[string]int{}, own: own}, nil
}

// SessionAfter is Session for a run that goes on from another one, after its end or under the
// agent's next key. last is what [Session.Last] of that one has returned; the first statement of
// the new session names it.
func (c *Client) SessionAfter(id string, last Continuation) (*Session, error) {
	s, err := c.Session(id)
	if err != nil {
		return nil, err
	}
	if s.next.Session == last.Session {
		return nil, errors.New("a session that goes on from another one needs an ID of its own")
	}
	s.next.Continues = &last
	return s, nil
}

// ID is the ID of the session.
func (s *Session) ID() string { return s.next.Session }

// Last names the newest statement of the session, also one that was refused; nil before the first.
func (s *Session) Last() *Continuation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// Attest signs an attestation at the next place of the session, and appends its record. After an
// error without an answer of the service its outcome is unknown: the next call first sends the same
// statement again, and fails where there is still no answer. What the service refuses has its place
// all the same, and the next statement says that it was refused.
func (s *Session) Attest(ctx context.Context, a Attestation) (Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pending != nil {
		again := s.pending.key != "" && s.pending.key == a.IdempotencyKey
		if r, err := s.send(ctx); s.pending != nil || again {
			return r, err
		}
	}
	switch {
	case s.idConflict:
		return Record{}, ErrTaken
	case s.next.End:
		return Record{}, ErrEnded
	}
	s.client.LearnLog(ctx)
	place := s.next
	place.End, place.Refused = a.Last, s.refused[:min(len(s.refused), MaxRefused)]
	key := a.IdempotencyKey
	if key != "" {
		a.IdempotencyKey = StatementIDAfter(key, s.spent[key])
	}
	made, err := s.identity.Sign(ctx, a, place)
	if err != nil {
		return Record{}, err
	}
	stmt, err := statement.Parse(made.Statement)
	if err != nil {
		return Record{}, err
	}
	s.pending = &signed{Attestation: made, key: key, stmt: stmt}
	s.last = &Continuation{Session: place.Session, KeyID: stmt.KeyID, Hash: stmt.Hash()}
	s.next = Place{Session: place.Session, Seq: place.Seq + 1, Previous: stmt.Hash(), End: a.Last}
	s.refused = slices.Clone(s.refused[len(stmt.Refused):])
	return s.send(ctx)
}

// End is Attest of the last attestation of the session. One that is refused does not end it.
func (s *Session) End(ctx context.Context, a Attestation) (Record, error) {
	a.Last = true
	return s.Attest(ctx, a)
}

// send sends what is pending, and finds out what has become of it.
func (s *Session) send(ctx context.Context) (Record, error) {
	p := s.pending
	r, err := s.client.Attest(ctx, p.Attestation)
	var answer *Error
	switch {
	case err == nil:
		s.pending, s.own = nil, true
	case NotRecorded(err) && errors.As(err, &answer):
		// It has left the process, so nothing else is ever signed for its place.
		answer.Retried = p.asked
		s.pending, s.next.End, s.idConflict = nil, false, answer.Code == StatementReused && !s.own
		s.refused = slices.Concat(p.stmt.Refused, s.refused, []RefusedPlace{{Seq: p.stmt.Seq, Hash: p.stmt.Hash(), Code: answer.RefusalCode()}})
		if p.key != "" {
			s.spent[p.key]++
		}
	default:
		p.asked = true
	}
	return r, err
}

// NotRecorded reports whether err says for certain that an append had no effect: the service has
// refused it, and no attempt before was without an answer.
func NotRecorded(err error) bool {
	var answer *Error
	return errors.As(err, &answer) && !answer.Retried && answer.Refuses()
}

// Refuses reports whether the service refuses this very request for good, and not for now.
func (e *Error) Refuses() bool {
	switch e.Status {
	case 408, 429:
		return false
	case 409:
		return !e.Foreign && e.Code == StatementReused
	}
	return !e.Foreign && e.Status >= 400 && e.Status < 500
}

// maxRefusalCode is how many characters the code of a refusal may have in a statement.
const maxRefusalCode = 64

// RefusalCode is the code by which a statement names this refusal: Code, or HTTP_ and the status
// where the response has none that a statement can name.
func (e *Error) RefusalCode() string {
	odd := strings.ContainsFunc(e.Code, func(r rune) bool { return (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' })
	if e.Code == "" || len(e.Code) > maxRefusalCode || odd {
		return "HTTP_" + strconv.Itoa(e.Status)
	}
	return e.Code
}
