package attestd

import (
	"context"
	"errors"
	"sync"
)

// ErrEnded reports that nothing can follow in a session.
var ErrEnded = errors.New("the session has ended")

// Session is one run of an agent: its statements are numbered, and each names the one before, so
// that nothing can be taken out unseen. It sends one at a time, and is as long as the process: for
// a session that goes on after a crash, or while the service is away, see package spool. It is safe
// for concurrent use.
type Session struct {
	client   *Client
	identity *Identity

	mu      sync.Mutex
	place   Place
	pending *signed // of which it is not known whether it is recorded
}

// signed is an attestation and the key under which the caller knows it.
type signed struct {
	Attestation
	key string
}

// Session begins a session. The client's credential MUST be an [Identity], and no two sessions of
// a key may have one ID: 1 to 128 of A-Z, a-z, 0-9, '.', '_', '~' and '-'. With "" it makes one up.
func (c *Client) Session(id string) (*Session, error) {
	identity, ok := c.credential.(*Identity)
	if !ok {
		return nil, errors.New("a session needs an agent's key: give the client an Identity as its credential")
	}
	if id == "" {
		id = NewIdempotencyKey()
	}
	return &Session{client: c, identity: identity, place: Place{Session: id}}, nil
}

// ID is the ID of the session.
func (s *Session) ID() string { return s.place.Session }

// Attest signs an attestation at the next place of the session, and appends its record. After an
// error without an answer of the service its outcome is unknown: the next call first sends the same
// statement again, and fails where there is still no answer. One that the service refused has no
// place, so that there is no hole.
func (s *Session) Attest(ctx context.Context, a Attestation) (Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pending != nil {
		again := s.pending.key != "" && s.pending.key == a.IdempotencyKey
		if r, err := s.send(ctx); err != nil || again {
			return r, err
		}
	}
	if s.place.End {
		return Record{}, ErrEnded
	}
	place := s.place
	place.End = a.Last
	made, err := s.identity.Sign(ctx, a, place)
	if err != nil {
		return Record{}, err
	}
	s.pending = &signed{made, a.IdempotencyKey}
	s.place = Place{place.Session, place.Seq + 1, StatementHash(made.Statement), a.Last}
	r, err := s.send(ctx)
	if s.pending != nil && NotRecorded(err) {
		s.place, s.pending = Place{place.Session, place.Seq, place.Previous, false}, nil
	}
	return r, err
}

// End is Attest of the last attestation of the session.
func (s *Session) End(ctx context.Context, a Attestation) (Record, error) {
	a.Last = true
	return s.Attest(ctx, a)
}

// send sends what is pending.
func (s *Session) send(ctx context.Context) (Record, error) {
	r, err := s.client.Attest(ctx, s.pending.Attestation)
	if err == nil {
		s.pending = nil
	}
	return r, err
}

// NotRecorded reports whether err says for certain that an append had no effect: the service has
// refused it, and no attempt before was without an answer.
func NotRecorded(err error) bool {
	var answer *Error
	if !errors.As(err, &answer) || answer.Retried {
		return false
	}
	switch answer.Status {
	case 408, 429:
		return false
	case 409:
		return answer.Code == StatementReused
	}
	return answer.Status >= 400 && answer.Status < 500
}
