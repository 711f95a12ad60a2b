package jobs

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
	"attestd/internal/sleep"
	"attestd/internal/wake"
	"attestd/service"
	"attestd/store"
)

const (
	// minimum time between requests about the same log, unless Config sets it
	publishInterval = 2 * time.Second
	// time until the next attempt after a witness was unreachable or refused a log
	retryInterval = 5 * time.Minute
	cosignTimeout = 10 * time.Second // for one request
	maxConcurrent = 4                // logs
)

// WitnessPublisher sends the checkpoints of all companies' logs to one witness. After a start it
// sends all, because the logs may have been rolled back, and then those that have grown. So a
// growing log gets a checkpoint every few seconds.
type WitnessPublisher struct {
	client      *witness.Client
	store       *store.Store
	checkpoints *service.Checkpoints
	every       time.Duration
	log         *slog.Logger

	grown *wake.Pending[int64] // chains to publish

	mu sync.Mutex
	// chains for which the witness knew a larger size that has been reached since
	superseded map[int64]bool

	alarms atomic.Int64 // logs that the witness contests

	unreachable  atomic.Bool  // set by run alone
	refusedCount atomic.Int64 // len(refused)
	cosignedAt   atomic.Int64 // when the witness last answered, in Unix seconds; 0 for never

	// Owned by run.
	refused map[int64]refusal // by chain, for logs that are not cosigned
}

// refusal is the reason why a witness does not cosign a log.
type refusal struct {
	status    int  // HTTP status of the witness; 0 for another reason
	contested bool // see contestedError
}

// NewWitnessPublisher publishes to c. every is the minimum time between requests about the same
// log, or 0 for publishInterval.
func NewWitnessPublisher(
	c *witness.Client, s *store.Store, checkpoints *service.Checkpoints, every time.Duration, log *slog.Logger,
) *WitnessPublisher {
	return &WitnessPublisher{client: c, store: s, checkpoints: checkpoints,
		every: cmp.Or(every, publishInterval), log: log.With("witness", c.Key().Name),
		grown: wake.NewPending[int64](), superseded: make(map[int64]bool), refused: make(map[int64]refusal)}
}

// Enqueue schedules chains for publication. It never blocks: the log calls it after each commit.
func (p *WitnessPublisher) Enqueue(chains ...int64) { p.grown.Add(chains...) }

// Run publishes until ctx is done or the database is read-only after a rollback.
func (p *WitnessPublisher) Run(ctx context.Context) error {
	defer p.client.Close()
	again := time.NewTicker(retryInterval)
	defer again.Stop()
	pause := p.every
	for started := false; ; {
		var err error
		if !started {
			var all []int64
			if all, err = p.store.Chains(ctx); err == nil {
				started = true
			}
			p.Enqueue(all...) // with no chains, after an error, this only ends the next rest early
		}
		if err == nil {
			err = p.round(ctx)
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, store.ErrRolledBack):
			// the whole database was rolled back; a single halted company is no error
			return nil
		case err == nil:
			pause = p.every
		default:
			pause = min(2*pause, retryInterval)
		}
		p.logReachability(err)
		if err := p.rest(ctx, pause, again.C); err != nil {
			return err
		}
	}
}

// rest waits for the pause between rounds, and then for grown logs or for the next attempt at
// refused ones.
func (p *WitnessPublisher) rest(ctx context.Context, pause time.Duration, again <-chan time.Time) error {
	if err := sleep.For(ctx, pause); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-p.grown.Signal:
	case <-again:
		p.Enqueue(slices.Collect(maps.Keys(p.refused))...)
	}
	return nil
}

// round publishes all grown logs. A problem of a single log is no error. An error ends the round,
// and the remaining logs are left for the next.
func (p *WitnessPublisher) round(ctx context.Context) error {
	chains := p.grown.Drain()
	outcomes := make([]error, len(chains))
	group, limited := errgroup.WithContext(ctx)
	group.SetLimit(maxConcurrent)
	for i, number := range chains {
		group.Go(func() error {
			outcomes[i] = p.cosign(limited, number)
			if concernsAll(outcomes[i]) {
				return outcomes[i]
			}
			return nil
		})
	}
	err := group.Wait()
	for i, number := range chains {
		if concernsAll(outcomes[i]) {
			p.Enqueue(number)
		} else {
			p.logOutcome(number, outcomes[i])
		}
	}
	return err
}

// logOutcome logs when a log is refused, when the reason changes, and when it is cosigned again.
func (p *WitnessPublisher) logOutcome(number int64, err error) {
	was, before := p.refused[number]
	if was.contested {
		p.alarms.Add(-1)
	}
	defer func() { p.refusedCount.Store(int64(len(p.refused))) }()
	if err == nil {
		if delete(p.refused, number); before {
			p.log.Info("the witness cosigns a log again, or is not asked about it any more", "chain", number)
		}
		return
	}
	var is refusal
	if answer := (*witness.StatusError)(nil); errors.As(err, &answer) {
		is.status = answer.Status
	}
	if is.contested = errors.As(err, new(*contestedError)); is.contested {
		p.alarms.Add(1)
	}
	if p.refused[number] = is; !before || was != is {
		p.log.Error("the witness does not cosign a log", "chain", number, "error", err)
	}
}

// logReachability logs once when the witness becomes unreachable, and once when it is reachable
// again.
func (p *WitnessPublisher) logReachability(err error) {
	switch was := p.unreachable.Swap(err != nil); {
	case err != nil && !was:
		p.log.Warn("the witness cannot be asked; it is tried again", "error", err)
	case err == nil && was:
		p.log.Info("the witness can be asked again")
	}
	if err == nil {
		p.cosignedAt.Store(time.Now().Unix())
	}
}

// WitnessStatus is what a server tells its operator about one of its witnesses.
type WitnessStatus struct {
	Name        string
	Unreachable bool
	Waiting     int       // logs that have grown since the witness was asked about them
	Refused     int       // logs that the witness does not cosign, those with an alarm too
	Alarms      int       // logs that the witness contests without proof
	Asked       time.Time // when it last answered for all logs; zero for never
}

// Status may be called at any time.
func (p *WitnessPublisher) Status() WitnessStatus {
	w := WitnessStatus{Name: p.client.Key().Name, Unreachable: p.unreachable.Load(), Waiting: p.grown.Len(),
		Refused: int(p.refusedCount.Load()), Alarms: int(p.alarms.Load())}
	if at := p.cosignedAt.Load(); at > 0 {
		w.Asked = time.Unix(at, 0)
	}
	return w
}
