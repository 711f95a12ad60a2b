package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"attestd/chain"
	"attestd/store"
	"attestd/tlog"
	"attestd/witness"
)

// cosign publishes the newest checkpoint of a chain and keeps what the witness signs of it.
func (a *asker) cosign(ctx context.Context, number int64) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	c, l, err := a.store.LogOfChain(ctx, number)
	if err != nil {
		return err
	}
	signed, err := a.checkpoints.newest(ctx, store.Caller{Company: c, At: time.Now()}, l)
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
	var ahead *witness.AheadError
	if errors.As(err, &ahead) {
		return a.compare(ctx, c, l, ahead)
	}
	if err != nil {
		return fmt.Errorf("log %s: %w", l.Origin, err)
	}
	if err := a.store.KeepCosignature(ctx, l.ID, checkpoint.Size, string(signed), cosignature); err != nil {
		return err
	}
	return a.askIfGrown(ctx, number, checkpoint.Size)
}

// compare finds out what it means that a witness has cosigned a larger tree than the one that it was asked for. Either that was published
// meanwhile, and somebody else brought it there; or the database is older than it was.
// A rollback that was accepted stops nothing any more; the witness goes on refusing what does not follow from what it has signed.
func (a *asker) compare(ctx context.Context, c *store.Company, l store.Log, ahead *witness.AheadError) error {
	head, _, err := a.store.Tip(ctx, l.Chain)
	if err != nil {
		return err
	}
	if ahead.Known <= head.Length {
		a.ask(l.Chain)
		return nil
	}
	if givenUp, err := a.store.GivenUp(ctx, c, l); err != nil || ahead.Known <= givenUp {
		return cmp.Or(err, fmt.Errorf("log %s: %w, which an accepted rollback gave up", l.Origin, ahead))
	}
	err = fmt.Errorf("%w: %w, and the log has %d records", store.ErrRolledBack, ahead, head.Length)
	if a.store.StopRolledBack(l, ahead.Known, err) {
		a.log.Error("nothing is written any more: the database was rolled back", "error", err)
	}
	return err
}

// askIfGrown asks about a chain once more that has records which its newest checkpoint does not cover.
func (a *asker) askIfGrown(ctx context.Context, number, size int64) error {
	head, _, err := a.store.Tip(ctx, number)
	if err == nil && head.Length > size {
		a.ask(number)
	}
	return err
}

// concernsAll says of an error whether asking about other logs would meet it too: the witness cannot be reached or is busy, or the database
// cannot be used.
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
