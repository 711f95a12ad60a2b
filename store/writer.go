package store

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"attestd/chain"
	"attestd/chain/search"
	"attestd/store/atrest"
)

// RunOptions are what a server brings to the writing of a Store.
type RunOptions struct {
	// see chain.Log.Run; gets nothing of control logs; nil when nobody listens
	Publish func(batch []chain.Extension, external bool)
	// called after each commit for the chain of each log that it has grown; nil when nobody asks
	Grown func(number int64)
	// called for the records that other servers have appended to a chain, as Publish is for the
	// others; nil when nobody listens
	Others func(number, from, to int64)
	// called when other servers have changed something of a company, by its number; nil when nobody
	// asks
	Changed func(company int64)
	// called for each chain of actions that has fewer records than it had, for a standby was
	// promoted that had not all of them; nil when nobody listens
	WentBack func(number int64)
	// the clock of the records; nil is time.Now
	Now func() time.Time
	// a clock that nobody sets, by which a leap of Now is found; nil is that of the process
	Steady func() time.Duration
	// what the clock says at the start is right, however long after the newest time in the file
	AcceptClock bool
	// hears of a changed file, and of a head file that cannot be written, once; nil when nobody
	// does
	Log *slog.Logger
}

// Run makes durable what is written, by all methods of s, until ctx is done or Close is called;
// then it answers all that waits and returns nil. The server starts it and stops it after the last
// request; nobody else writes the file. Call it once.
func (s *Store) Run(ctx context.Context, o RunOptions) error {
	if s.writer == nil {
		return errReadOnly
	}
	if o.Publish == nil {
		o.Publish = func([]chain.Extension, bool) {}
	}
	if o.Others == nil {
		o.Others = func(int64, int64, int64) {}
	}
	for _, hears := range []*func(int64){&o.Grown, &o.Changed, &o.WentBack} {
		if *hears == nil {
			*hears = func(int64) {}
		}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log != nil {
		s.writer.logger = o.Log
		s.journal.Store(o.Log)
	}
	if o.Steady == nil {
		o.Steady = processClock()
	}
	defer context.AfterFunc(ctx, s.close)()
	var vouched time.Time
	if o.AcceptClock {
		vouched = o.Now()
		s.writer.clock.advance(vouched)
	}
	s.writer.keyClock.start(o.Steady, vouched)
	publish := func(batch []chain.Extension, external bool) {
		for i := range batch {
			o.Grown(batch[i].Chain)
		}
		o.Publish(withoutControl(batch), external)
	}
	var beside sync.WaitGroup
	defer beside.Wait()
	writing, end := context.WithCancel(ctx)
	defer end()
	if s.isPostgres {
		publish = s.watched(writing, &beside, o, publish)
	} else {
		beside.Go(func() { s.guardFile(writing) })
	}
	if s.heads != nil {
		s.heads.start(s.writer.logger)
	}
	return s.log.Run(ctx, o.Now, func(batch []chain.Extension, external bool) {
		if s.heads != nil {
			s.heads.committed(batch, external)
		}
		publish(batch, external)
	})
}

// withoutControl is what others than the company may hear of a batch.
func withoutControl(batch []chain.Extension) []chain.Extension {
	isControl := func(e chain.Extension) bool {
		_, name := logOf(e.Chain)
		return name == Control
	}
	if !slices.ContainsFunc(batch, isControl) {
		return batch
	}
	return slices.DeleteFunc(slices.Clone(batch), isControl)
}

var errReadOnly = fmt.Errorf("%w: the database is open for reading only", ErrRefused)

// Append returns a record once it is durable. An error says that nothing was written, unless it is
// ErrUnknown.
func (s *Store) Append(ctx context.Context, d chain.Draft) (chain.Record, error) {
	if s.writer == nil {
		return chain.Record{}, errReadOnly
	}
	if err := s.Rollback.HaltedChain(d.Chain); err != nil {
		return chain.Record{}, err
	}
	return s.log.Append(ctx, d)
}

// AppendAll returns the records of drafts once all of them are durable; errors are those of Append,
// and chain.DraftError.
func (s *Store) AppendAll(ctx context.Context, drafts []chain.Draft) ([]chain.Appended, error) {
	if s.writer == nil {
		return nil, errReadOnly
	}
	if len(drafts) > 0 {
		if err := s.Rollback.HaltedChain(drafts[0].Chain); err != nil {
			return nil, err
		}
	}
	return s.log.AppendAll(ctx, drafts)
}

// writeFunc makes rows durable, and with them the records of the drafts that it asks for; see
// chain.Log.Write for what rows must heed.
type writeFunc func(ctx context.Context, rows func(*conn) ([]chain.Draft, error)) ([]chain.Record, error)

// change is the writeFunc of nearly all.
func (s *Store) change(ctx context.Context, rows func(*conn) ([]chain.Draft, error)) ([]chain.Record, error) {
	if s.writer == nil {
		return nil, errReadOnly
	}
	return s.log.Write(ctx, s.changing(rows))
}

func (s *Store) changing(rows func(*conn) ([]chain.Draft, error)) func() ([]chain.Draft, error) {
	return func() ([]chain.Draft, error) {
		w, err := s.storage.changing()
		if err != nil {
			return nil, err
		}
		return rows(w)
	}
}

// write is change without records.
func (s *Store) write(ctx context.Context, rows func(*conn) error) error {
	_, err := s.change(ctx, func(w *conn) ([]chain.Draft, error) { return nil, rows(w) })
	return err
}

// Ready returns nil when a write could be made now; else the error that it would meet. After one
// that was lost to the disk it writes, once a second at most.
func (s *Store) Ready(ctx context.Context) error {
	return s.write(ctx, func(*conn) error { return s.storage.probe() })
}

// writer is what the chain.Storage of either engine has. The goroutine of Run owns it from its
// start to its end.
type writer struct {
	lastUsed *lastUsed
	secrets  atrest.Secrets
	logger   *slog.Logger

	conn     *conn // nil after it was hung up
	keys     keySweep
	rekeyed  []int64 // chains to which the transaction that is open has given another key
	clock    clock
	keyClock keyClock

	summaries *search.Builder // of the chains that are extended
	gaps      *gaps           // what it has left out

	// the next transaction is that of a change that must be made also while nothing else is written
	urgent bool
	// why nothing is written any more; set by any goroutine, see StopWrites
	stopped atomic.Pointer[error]
}

func newWriter(x atrest.Secrets, u *lastUsed) *writer {
	return &writer{secrets: x, lastUsed: u, logger: slog.New(slog.DiscardHandler), summaries: search.NewBuilder(), gaps: newGaps(), keyClock: keyClock{steady: processClock()}}
}

// summarize returns the summaries that an extension completes.
func (w *writer) summarize(e *chain.Extension) []search.Ready {
	ready, leftOut := w.summaries.Add(e.Chain, e.Records)
	if leftOut {
		w.gaps.note(e.Chain)
	}
	return ready
}

// storage is where a Store writes: a file, or a database server.
type storage interface {
	chain.Storage
	changing() (*conn, error) // the connection, inside the transaction in which rows are changed
	check() error             // nil while what was opened is in its place
	// inside a transaction: nil while it is likely that one can be durable
	probe() error
	close() error
}

// StopWrites makes every write from now on fail with reason, until a restart; what is committing
// ends first. Of several reasons the first stays. It says whether this one was the first.
func (s *Store) StopWrites(reason error) bool {
	return s.writer != nil && s.writer.stopped.CompareAndSwap(nil, &reason)
}
