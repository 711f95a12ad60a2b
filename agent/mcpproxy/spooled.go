package mcpproxy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"attestd/chain/decision"
	"attestd/internal/sleep"
	"attestd/internal/wake"
	"attestd/sdk/attestd"
	"attestd/sdk/attestd/spool"
)

// Spooled is a Recorder that stores records in a spool and sends them in the background.
type Spooled struct {
	client *attestd.Client
	spool  *spool.Spool
	warn   func(text string)

	session *spool.Session // in which the records are signed; nil for none
	added   wake.Signal    // set after a record was added
	turn    chan struct{}  // holds a token for each request in progress
}

// maxRequests bounds concurrent requests to the service: a waiting record needs less memory than a
// request.
const maxRequests = 8

// NewSpooled returns a Spooled that does not sign. The caller MUST run Send, which sends the spool.
func NewSpooled(c *attestd.Client, s *spool.Spool, warn func(text string)) *Spooled {
	return &Spooled{client: c, spool: s, warn: warn, added: wake.NewSignal(),
		turn: make(chan struct{}, maxRequests)}
}

// In returns a Recorder that signs in a session. Send of s sends its records, too.
func (s *Spooled) In(session *spool.Session) *Spooled {
	in := *s
	in.session = session
	return &in
}

// Persist adds a record to the spool. If the spool is full or its disk fails, it sends the record
// to the service instead; a signed one needs the disk, where its place is stored.
func (s *Spooled) Persist(ctx context.Context, a attestd.Attestation) error {
	err := s.add(ctx, a)
	switch {
	case err != nil && s.session != nil:
		return err
	case err != nil:
		if _, sent := s.Attest(ctx, a); sent != nil {
			return errors.Join(err, sent)
		}
		return nil
	}
	s.added.Set()
	return nil
}

func (s *Spooled) add(ctx context.Context, a attestd.Attestation) error {
	if s.session == nil {
		return s.spool.Add(ctx, a)
	}
	err := s.session.Add(ctx, a)
	if errors.Is(err, spool.ErrKeyReused) {
		a.IdempotencyKey = ""
		err = s.session.Add(ctx, a)
	}
	if errors.Is(err, spool.ErrSigned) { // an attempt to send it has added it
		return nil
	}
	return err
}

// Attest sends a record, and returns the decision that it holds.
func (s *Spooled) Attest(ctx context.Context, a attestd.Attestation) (*decision.Decision, error) {
	ctx, cancel := context.WithTimeout(ctx, ackTimeout)
	defer cancel()
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-s.turn }()
	if s.session != nil {
		r, err := s.session.AttestNow(ctx, a)
		return r.Payload.Decision, err
	}
	r, err := s.client.AttestDerived(ctx, a)
	return r.Payload.Decision, err
}

const (
	gatherFor = 50 * time.Millisecond // records added meanwhile are sent in one batch
	minPause  = time.Second           // after a failure
	maxPause  = 30 * time.Second
	// to send the remaining records at the end of a session; the next session sends the rest
	lastAttempt = 2 * time.Second
)

// Send sends the records in the spool, including those of earlier sessions, until ctx is done, and
// then once more. Unsent records stay in the spool.
func (s *Spooled) Send(ctx context.Context) {
	pause, waiting := minPause, false
	for ctx.Err() == nil {
		err := s.flush(ctx)
		var limited *spool.LimitedError
		switch {
		case err == nil:
			pause, waiting = minPause, false
			select {
			case <-s.added:
				_ = sleep.For(ctx, gatherFor)
			case <-ctx.Done():
			}
		case errors.As(err, &limited):
			if !waiting {
				s.warn(fmt.Sprintf("records stay in the spool because of the rate limit: %v", err))
			}
			waiting = true
			s.await(ctx, limited.After)
		case ctx.Err() == nil:
			if pause == minPause {
				s.warn(fmt.Sprintf("records stay in the spool because they cannot be sent: %v", err))
			}
			_ = sleep.For(ctx, pause)
			pause = min(2*pause, maxPause)
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastAttempt)
	defer cancel()
	if err := s.flush(last); err != nil {
		s.warn(fmt.Sprintf("records stay in the spool until the next start: %v", err))
	}
}

// flush sends the spool. Records that the service refuses permanently cause a warning and no retry.
func (s *Spooled) flush(ctx context.Context) error {
	err := s.spool.Flush(ctx)
	if refused := (*spool.RefusedError)(nil); errors.As(err, &refused) {
		s.warn(refused.Error())
		return nil
	}
	return err
}

// await waits for the duration or for a new record, which is sent before those that wait for the
// rate limit.
func (s *Spooled) await(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-s.added:
		_ = sleep.For(ctx, gatherFor)
	case <-timer.C:
	case <-ctx.Done():
	}
}
