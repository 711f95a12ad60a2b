package server

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

// cosign publishes the newest checkpoint of a chain and keeps what the witness signs of it.
func (a *asker) cosign(ctx context.Context, number int64) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	c, l, err := a.store.LogOfChain(ctx, number)
	if err != nil {
		return err
	}
	signed, err := a.checkpoints.Compared(ctx, store.Caller{Company: c, At: time.Now()}, l)
	if a.store.HaltedChain(number) != nil {
		return nil // of a log that went back nothing is asked any more
	}
	if err != nil {
		return err
	}
	checkpoint, _, err := tlog.ParseSignedCheckpoint(signed)
	if err != nil {
		return err
	}
	cosignature, err := a.client.Cosign(ctx, signed, func(ctx context.Context, from int64, to tlog.Tree) ([]tlog.Hash, error) {
		return tlog.ProveConsistency(ctx, a.store.LogTree(l), from, to)
	})
	if contests(err) {
		return a.inquire(ctx, l, err)
	}
	if err != nil {
		return fmt.Errorf("log %s: %w", l.Origin, err)
	}
	a.mu.Lock()
	delete(a.overtook, number)
	a.mu.Unlock()
	if err := a.store.KeepCosignature(ctx, l.ID, checkpoint.Size, string(signed), cosignature); err != nil {
		return err
	}
	return a.askIfGrown(ctx, number, checkpoint.Size)
}

// contestedError says that a witness refuses a log, or answers with what is no cosignature, and
// shows nothing that proves it right. It is an alarm, and stops nothing: what it answers nobody has
// signed.
type contestedError struct{ refusal, shown error }

func (e *contestedError) Error() string {
	return fmt.Sprintf("%v; asked what it knows: %v", e.refusal, e.shown)
}
func (e *contestedError) Unwrap() []error { return []error{e.refusal, e.shown} }

// contests says of an error of the witness whether it says of the log that it is not what it was,
// or makes no sense.
func contests(err error) bool {
	var ahead *witness.AheadError
	var answer *witness.StatusError
	return errors.As(err, &ahead) || errors.Is(err, witness.ErrCosignature) ||
		errors.As(err, &answer) && (answer.Status == http.StatusConflict || answer.Status == http.StatusUnprocessableEntity)
}

// inquire finds out what it means that a witness contests a log: it is asked once what it has
// cosigned last. A checkpoint that we have signed, of a tree that the log has not, proves that the
// log went back, and halts its company. All else is an alarm, but for a tree that an accepted
// rollback gave up.
func (a *asker) inquire(ctx context.Context, l store.Log, refusal error) error {
	if again, err := a.overtaken(ctx, l, refusal); err != nil || again {
		return err
	}
	refusal = fmt.Errorf("log %s: %w", l.Origin, refusal)
	signed, err := a.client.Latest(ctx, l.Origin)
	if err != nil {
		// a witness that does not answer this is no witness that cannot be asked
		return &contestedError{refusal, errors.New(err.Error())}
	}
	err = a.store.WitnessShows(ctx, l, a.client.Key(), signed)
	switch {
	case errors.Is(err, store.ErrGivenUp):
		return fmt.Errorf("%w: %w", refusal, err)
	case errors.Is(err, store.ErrNoProof):
		return &contestedError{refusal, err}
	case errors.Is(err, store.ErrRolledBack):
		return nil // which was logged, and readyz says
	}
	return err
}

// overtaken has a log asked about once more, and once only, of which the witness names a size that
// it has reached by now: another server may have brought that tree there.
func (a *asker) overtaken(ctx context.Context, l store.Log, refusal error) (bool, error) {
	var ahead *witness.AheadError
	if !errors.As(refusal, &ahead) {
		return false, nil
	}
	head, _, err := a.store.Tip(ctx, l.Chain)
	if err != nil || ahead.Known > head.Length {
		return false, err
	}
	a.mu.Lock()
	before := a.overtook[l.Chain]
	a.overtook[l.Chain] = true
	a.mu.Unlock()
	if !before {
		a.ask(l.Chain)
	}
	return !before, nil
}

// askIfGrown asks about a chain once more that has records which its newest checkpoint does not
// cover.
func (a *asker) askIfGrown(ctx context.Context, number, size int64) error {
	head, _, err := a.store.Tip(ctx, number)
	if err == nil && head.Length > size {
		a.ask(number)
	}
	return err
}

// concernsAll says of an error whether asking about other logs would meet it too: the witness
// cannot be reached or is busy, or the database cannot be used.
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
