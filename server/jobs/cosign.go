package jobs

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"attestd/chain"
	"attestd/chain/tlog"
	"attestd/chain/witness"
	"attestd/store"
)

// cosign sends the newest checkpoint of a chain to the witness and stores its cosignature.
func (p *WitnessPublisher) cosign(ctx context.Context, number int64) error {
	ctx, cancel := context.WithTimeout(ctx, cosignTimeout)
	defer cancel()
	c, l, err := p.store.Companies.LogOfChain(ctx, number)
	if err != nil {
		return err
	}
	signed, err := p.checkpoints.Compared(ctx, store.Caller{Company: c, At: time.Now()}, l)
	if p.store.Rollback.HaltedChain(number) != nil {
		return nil // a log that was rolled back is no longer published
	}
	if err != nil {
		return err
	}
	checkpoint, _, err := tlog.ParseSignedCheckpoint(signed)
	if err != nil {
		return err
	}
	cosignature, err := p.client.Cosign(ctx, signed,
		func(ctx context.Context, from int64, to tlog.Tree) ([]tlog.Hash, error) {
			return tlog.ProveConsistency(ctx, p.store.LogTree(l), from, to)
		})
	if contests(err) {
		return p.inquire(ctx, l, err)
	}
	if err != nil {
		return fmt.Errorf("log %s: %w", l.Origin, err)
	}
	p.mu.Lock()
	delete(p.superseded, number)
	p.mu.Unlock()
	if err := p.store.Checkpoints.KeepCosignature(ctx, l.ID, checkpoint.Size, string(signed), cosignature); err != nil {
		return err
	}
	return p.enqueueIfGrown(ctx, number, checkpoint.Size)
}

// contestedError means that a witness refuses a log, or returns an invalid cosignature, without
// proof of a rollback. It raises an alarm but stops nothing, because the response is not signed.
type contestedError struct{ refusal, shown error }

func (e *contestedError) Error() string {
	return fmt.Sprintf("%v; asked what it knows: %v", e.refusal, e.shown)
}
func (e *contestedError) Unwrap() []error { return []error{e.refusal, e.shown} }

// contests reports whether an error of the witness means that the log changed, or that its response
// is invalid.
func contests(err error) bool {
	var ahead *witness.AheadError
	var answer *witness.StatusError
	return errors.As(err, &ahead) || errors.Is(err, witness.ErrCosignature) ||
		errors.As(err, &answer) && (answer.Status == http.StatusConflict || answer.Status == http.StatusUnprocessableEntity)
}

// inquire asks a witness that contests a log for the last checkpoint that it has cosigned. A
// checkpoint with our signature that contradicts the log proves a rollback, and halts the company.
// Everything else is an alarm, except a tree that an accepted rollback has abandoned.
func (p *WitnessPublisher) inquire(ctx context.Context, l store.Log, refusal error) error {
	if again, err := p.enqueueIfSuperseded(ctx, l, refusal); err != nil || again {
		return err
	}
	refusal = fmt.Errorf("log %s: %w", l.Origin, refusal)
	signed, err := p.client.Latest(ctx, l.Origin)
	if err != nil {
		// a failure of this request does not count as unreachable
		return &contestedError{refusal, errors.New(err.Error())}
	}
	err = p.store.Checkpoints.WitnessShows(ctx, l, p.client.Key(), signed)
	switch {
	case errors.Is(err, store.ErrGivenUp):
		return fmt.Errorf("%w: %w", refusal, err)
	case errors.Is(err, store.ErrNoProof):
		return &contestedError{refusal, err}
	case errors.Is(err, store.ErrRolledBack):
		return nil // already logged, and reported by readyz
	}
	return err
}

// enqueueIfSuperseded schedules one more attempt for a log if the witness knows a size that the log
// has reached by now: another server may have published that tree.
func (p *WitnessPublisher) enqueueIfSuperseded(ctx context.Context, l store.Log, refusal error) (bool, error) {
	var ahead *witness.AheadError
	if !errors.As(refusal, &ahead) {
		return false, nil
	}
	head, _, err := p.store.Tip(ctx, l.Chain)
	if err != nil || ahead.Known > head.Length {
		return false, err
	}
	p.mu.Lock()
	before := p.superseded[l.Chain]
	p.superseded[l.Chain] = true
	p.mu.Unlock()
	if !before {
		p.Enqueue(l.Chain)
	}
	return !before, nil
}

// enqueueIfGrown schedules a chain again if it has records after the checkpoint.
func (p *WitnessPublisher) enqueueIfGrown(ctx context.Context, number, size int64) error {
	head, _, err := p.store.Tip(ctx, number)
	if err == nil && head.Length > size {
		p.Enqueue(number)
	}
	return err
}

// concernsAll reports whether an error would also occur for other logs: the witness is unreachable
// or busy, or the database is unusable.
func concernsAll(err error) bool {
	var status *witness.StatusError
	if errors.As(err, &status) {
		return status.Status == http.StatusTooManyRequests || status.Status == http.StatusServiceUnavailable
	}
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknown) || errors.Is(err, store.ErrRolledBack) ||
		errors.Is(err, store.ErrFileChanged) || errors.Is(err, store.ErrClock) || errors.Is(err, chain.ErrClosed)
}
