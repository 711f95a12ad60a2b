package server

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"attestd/chain/witness"
	"attestd/service"
	"attestd/store"
)

const (
	// how often a witness is asked at most about the same log, unless Config says it
	askEvery = 2 * time.Second
	// how often a witness is asked again that cannot be reached, or about a log that it has refused
	askAgain   = 5 * time.Minute
	askTimeout = 10 * time.Second // for one log
	askAtOnce  = 4                // logs
)

// asker asks one witness to cosign the logs of all companies: all of them once after a start, for
// they may have been rolled back, and then those that have grown. So each log that grows has a
// checkpoint every few seconds, though nobody else asks for one.
type asker struct {
	client      *witness.Client
	store       *store.Store
	checkpoints *service.Checkpoints
	every       time.Duration
	log         *slog.Logger

	wake chan struct{} // capacity 1: there may be something in grown

	mu    sync.Mutex
	grown map[int64]bool // chains to be asked about
	// chains of which the witness knew a size that they had reached meanwhile
	overtook map[int64]bool

	alarms atomic.Int64 // logs that the witness contests

	// Owned by run.
	refused     map[int64]refusal // by chain that is not cosigned
	unreachable bool
}

// refusal is why a witness does not cosign a log.
type refusal struct {
	status    int  // that it answered with, 0 for another reason
	contested bool // see contestedError
}

func newAsker(c *witness.Client, s *Server) *asker {
	return &asker{client: c, store: s.Store, checkpoints: s.checkpoints, every: cmp.Or(s.AskEvery, askEvery), log: s.Log.With("witness", c.Key().Name),
		wake: make(chan struct{}, 1), grown: make(map[int64]bool), overtook: make(map[int64]bool), refused: make(map[int64]refusal)}
}

// ask makes the chains be asked about soon. It never waits: the log calls it after each commit.
func (a *asker) ask(chains ...int64) {
	a.mu.Lock()
	for _, number := range chains {
		a.grown[number] = true
	}
	a.mu.Unlock()
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

func (a *asker) take() []int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	chains := slices.Collect(maps.Keys(a.grown))
	clear(a.grown)
	return chains
}

// run asks until ctx is done, or nothing may be written any more.
func (a *asker) run(ctx context.Context) error {
	defer a.client.Close()
	again := time.NewTicker(askAgain)
	defer again.Stop()
	pause := a.every
	for started := false; ; {
		var err error
		if !started {
			var all []int64
			if all, err = a.store.Chains(ctx); err == nil {
				started = true
			}
			a.ask(all...) // which, where there are none for an error, ends the rest that follows
		}
		if err == nil {
			err = a.round(ctx)
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, store.ErrRolledBack):
			// the whole database; a company that is halted alone is no error
			return nil
		case err == nil:
			pause = a.every
		default:
			pause = min(2*pause, askAgain)
		}
		a.noteWitness(err)
		if err := a.rest(ctx, pause, again.C); err != nil {
			return err
		}
	}
}

// rest waits for the pause between rounds, and then for something to ask: what has grown, or again
// what was refused.
func (a *asker) rest(ctx context.Context, pause time.Duration, again <-chan time.Time) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-a.wake:
	case <-again:
		a.ask(slices.Collect(maps.Keys(a.refused))...)
	}
	return nil
}

// round asks about all that has grown. What stands against one log alone is no error; an error ends
// the round, and what it has not come to is left for the next one.
func (a *asker) round(ctx context.Context) error {
	chains := a.take()
	outcomes := make([]error, len(chains))
	group, limited := errgroup.WithContext(ctx)
	group.SetLimit(askAtOnce)
	for i, number := range chains {
		group.Go(func() error {
			outcomes[i] = a.cosign(limited, number)
			if concernsAll(outcomes[i]) {
				return outcomes[i]
			}
			return nil
		})
	}
	err := group.Wait()
	for i, number := range chains {
		if concernsAll(outcomes[i]) {
			a.ask(number)
		} else {
			a.noteLog(number, outcomes[i])
		}
	}
	return err
}

// noteLog logs that a log is not cosigned, when that is new or for another reason, and that it is
// again.
func (a *asker) noteLog(number int64, err error) {
	was, before := a.refused[number]
	if was.contested {
		a.alarms.Add(-1)
	}
	if err == nil {
		if delete(a.refused, number); before {
			a.log.Info("the witness cosigns a log again, or is not asked about it any more", "chain", number)
		}
		return
	}
	var is refusal
	if answer := (*witness.StatusError)(nil); errors.As(err, &answer) {
		is.status = answer.Status
	}
	if is.contested = errors.As(err, new(*contestedError)); is.contested {
		a.alarms.Add(1)
	}
	if a.refused[number] = is; !before || was != is {
		a.log.Error("the witness does not cosign a log", "chain", number, "error", err)
	}
}

// noteWitness logs that the witness cannot be asked, and that it can again, once each.
func (a *asker) noteWitness(err error) {
	switch unreachable := err != nil; {
	case unreachable && !a.unreachable:
		a.log.Warn("the witness cannot be asked; it is tried again", "error", err)
	case !unreachable && a.unreachable:
		a.log.Info("the witness can be asked again")
	}
	a.unreachable = err != nil
}

// grown lets the askers and the feed know that a log has grown.
func (s *Server) grown(number int64) {
	s.feed.Grown(number)
	for _, a := range s.askers {
		a.ask(number)
	}
}
