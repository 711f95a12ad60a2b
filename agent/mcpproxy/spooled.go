package mcpproxy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"attestd/sdk/attestd"
	"attestd/sdk/attestd/spool"
)

// Spooled is a Recorder that keeps records in a spool and sends them on.
type Spooled struct {
	client *attestd.Client
	spool  *spool.Spool
	warn   func(text string)
	kept   chan struct{} // holds one when something was kept
	turn   chan struct{} // holds one for each request under way
}

// maxRequests is how many records are on their way to the service at once: what waits meanwhile
// costs less memory than a request.
const maxRequests = 8

// NewSpooled returns a Spooled that sends nothing before Send is called.
func NewSpooled(c *attestd.Client, s *spool.Spool, warn func(text string)) *Spooled {
	return &Spooled{client: c, spool: s, warn: warn, kept: make(chan struct{}, 1), turn: make(chan struct{}, maxRequests)}
}

// Keep adds a record to the spool. Where that has no room, or its disk fails, the service must take
// the record at once.
func (s *Spooled) Keep(ctx context.Context, a attestd.Attestation) error {
	err := s.spool.Add(ctx, a)
	if err != nil {
		if sent := s.Attest(ctx, a); sent != nil {
			return errors.Join(err, sent)
		}
		return nil
	}
	select {
	case s.kept <- struct{}{}:
	default:
	}
	return nil
}

// Attest sends a record.
func (s *Spooled) Attest(ctx context.Context, a attestd.Attestation) error {
	ctx, cancel := context.WithTimeout(ctx, ackTimeout)
	defer cancel()
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.turn }()
	_, err := s.client.AttestDerived(ctx, a)
	return err
}

const (
	gatherFor = 50 * time.Millisecond // what is kept meanwhile goes in one batch
	minPause  = time.Second           // after a failure
	maxPause  = 30 * time.Second
	// to send what is left when a session is over; the rest waits for the next
	lastAttempt = 2 * time.Second
)

// Send sends what the spool holds, also what earlier sessions have left there, until ctx is done,
// and then once more. What cannot be sent stays.
func (s *Spooled) Send(ctx context.Context) {
	pause, waiting := minPause, false
	for ctx.Err() == nil {
		err := s.flush(ctx)
		var limited *spool.LimitedError
		switch {
		case err == nil:
			pause, waiting = minPause, false
			select {
			case <-s.kept:
				sleep(ctx, gatherFor)
			case <-ctx.Done():
			}
		case errors.As(err, &limited):
			if !waiting {
				s.warn(fmt.Sprintf("records wait on this machine, for the rate limit: %v", err))
			}
			waiting = true
			s.await(ctx, limited.After)
		case ctx.Err() == nil:
			if pause == minPause {
				s.warn(fmt.Sprintf("records wait on this machine, for they cannot be sent: %v", err))
			}
			sleep(ctx, pause)
			pause = min(2*pause, maxPause)
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastAttempt)
	defer cancel()
	if err := s.flush(last); err != nil {
		s.warn(fmt.Sprintf("records wait on this machine for the next start: %v", err))
	}
}

// flush sends what is there. That the service has refused some of it for good is said, and no
// reason to try again.
func (s *Spooled) flush(ctx context.Context) error {
	err := s.spool.Flush(ctx)
	if refused := (*spool.RefusedError)(nil); errors.As(err, &refused) {
		s.warn(refused.Error())
		return nil
	}
	return err
}

// await waits until the time is over or something was kept: that goes before what waits for the
// rate limit.
func (s *Spooled) await(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-s.kept:
		sleep(ctx, gatherFor)
	case <-timer.C:
	case <-ctx.Done():
	}
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
