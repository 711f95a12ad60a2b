package ledger

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"attestd/chain"
	"attestd/store/db"
)

// RunOptions are the parameters of Run.
type RunOptions struct {
	// see chain.Log.Run; does not receive control logs; may be nil
	Publish func(batch []chain.Extension, external bool)
	// called after each commit for each chain that it has extended; may be nil
	Grown func(number int64)
	// called after each commit with its number of records, of control logs too; may be nil
	Appended func(records int)
	// called after each transaction; see chain.Log.Observe; may be nil
	Transacted func(chain.Transacted)
	// called for records that other servers have appended to a chain, as Publish is for this
	// server's records; may be nil
	Others func(number, from, to int64)
	// called when other servers have changed a company, with its number; may be nil
	Changed func(company int64)
	// called for each action chain that has fewer records than before, because a standby without
	// all of them was promoted; may be nil
	WentBack func(number int64)
	// clock for records; nil is time.Now
	Now func() time.Time
	// monotonic clock for detecting leaps of Now, which includes sleep where the machine has such a
	// clock; nil is the process's
	Steady func() time.Duration
	// how much companies may have; the zero value bounds nothing
	Quotas Quotas
	// how long an idempotency key counts; 0 is KeyLifetime, which is the least
	KeyLifetime time.Duration
	// trust the clock at the start, however long after the newest time in the file it is
	AcceptClock bool
	// receives errors about the files and the head file; may be nil
	Log *slog.Logger
}

// Run commits the writes of all methods until ctx is done or Close is called. Then it answers all
// waiting writes and returns nil. The server starts it, and stops it after the last request. It
// MUST be called once, and no other process may write the file.
func (l *Ledger) Run(ctx context.Context, o RunOptions) error {
	if l.writer == nil {
		return db.ErrReadOnly
	}
	if o.Publish == nil {
		o.Publish = func([]chain.Extension, bool) {}
	}
	if o.Appended == nil {
		o.Appended = func(int) {}
	}
	if o.Others == nil {
		o.Others = func(int64, int64, int64) {}
	}
	for _, hears := range []*func(int64){&o.Grown, &o.Changed, &o.WentBack} {
		if *hears == nil {
			*hears = func(int64) {}
		}
	}
	clock := time.Now
	if o.Now != nil {
		clock = o.Now
	}
	// The difference of two times with monotonic readings is 0 through a leap of the wall clock.
	o.Now = func() time.Time { return clock().Round(0) }
	if o.Log != nil {
		l.writer.logger = o.Log
		l.journal.Store(o.Log)
	}
	if o.Steady == nil {
		o.Steady = db.ProcessClock()
	}
	l.log.Observe(o.Transacted)
	defer context.AfterFunc(ctx, l.close)()
	var vouched time.Time
	if o.AcceptClock {
		vouched = o.Now()
		l.writer.clock.Advance(vouched)
	}
	l.writer.keyClock.Start(o.Steady, vouched)
	l.writer.keyLifetime = max(o.KeyLifetime, KeyLifetime)
	l.quotas.CompareAndSwap(nil, &o.Quotas)
	l.writer.wanted, l.writer.quotas = &l.quotas, *l.quotas.Load()
	publish := func(batch []chain.Extension, external bool) {
		records := 0
		for i := range batch {
			o.Grown(batch[i].Chain)
			records += len(batch[i].Records)
		}
		o.Appended(records)
		o.Publish(withoutControl(batch), external)
	}
	var beside sync.WaitGroup
	defer beside.Wait()
	writing, end := context.WithCancel(ctx)
	defer end()
	if l.MultiWriter() {
		publish = l.watched(writing, &beside, o, publish)
	} else {
		beside.Go(func() { l.guardFile(writing) })
	}
	if l.guard != nil {
		l.guard.Start(l.writer.logger)
	}
	return l.log.Run(ctx, o.Now, func(batch []chain.Extension, external bool) {
		if l.guard != nil {
			l.guard.Committed(batch, external)
		}
		publish(batch, external)
	})
}

// withoutControl removes the control records from a batch, which are not published.
func withoutControl(batch []chain.Extension) []chain.Extension {
	isControl := func(e chain.Extension) bool {
		_, name := db.LogOf(e.Chain)
		return name == db.Control
	}
	if !slices.ContainsFunc(batch, isControl) {
		return batch
	}
	return slices.DeleteFunc(slices.Clone(batch), isControl)
}

// Append returns a record once it is durable. An error means that nothing was written, unless it is
// ErrUnknown.
func (l *Ledger) Append(ctx context.Context, d chain.Draft) (chain.Record, error) {
	if l.writer == nil {
		return chain.Record{}, db.ErrReadOnly
	}
	return l.log.Append(ctx, d)
}

// AppendAll returns the records of drafts once all of them are durable. Its errors are those of
// Append, and chain.DraftError.
func (l *Ledger) AppendAll(ctx context.Context, drafts []chain.Draft) ([]chain.Appended, error) {
	if l.writer == nil {
		return nil, db.ErrReadOnly
	}
	appended, err := l.log.AppendAll(ctx, drafts)
	if err == nil {
		err = l.checkAnswers(ctx, drafts, appended)
	}
	return appended, err
}

// WriteFunc commits rows, and with them the records of the drafts that rows returns; see
// chain.Log.Write for what rows MUST observe.
type WriteFunc func(ctx context.Context, rows func(*db.Conn) ([]chain.Draft, error)) ([]chain.Record, error)

// Change is the WriteFunc of ordinary changes.
func (l *Ledger) Change(ctx context.Context, rows func(*db.Conn) ([]chain.Draft, error)) ([]chain.Record, error) {
	if l.writer == nil {
		return nil, db.ErrReadOnly
	}
	records, err := l.log.Write(ctx, change{l.storage, rows}.write)
	return records, l.refused.count(err)
}

// ChangeAlone is Change in a transaction of its own: rows reads what other changes have written
// together with their records.
func (l *Ledger) ChangeAlone(ctx context.Context, rows func(*db.Conn) ([]chain.Draft, error)) ([]chain.Record, error) {
	if l.writer == nil {
		return nil, db.ErrReadOnly
	}
	asItIs := func(now time.Time) time.Time { return now }
	records, err := l.log.WriteAlone(ctx, asItIs, change{l.storage, rows}.write)
	return records, l.refused.count(err)
}

// change is rows that are written inside the transaction of the log.
type change struct {
	storage storage
	rows    func(*db.Conn) ([]chain.Draft, error)
}

func (c change) write() ([]chain.Draft, error) {
	w, err := c.storage.changing()
	if err != nil {
		return nil, err
	}
	return c.rows(w)
}

// Write commits a change without records.
func (l *Ledger) Write(ctx context.Context, rows func(*db.Conn) error) error {
	_, err := l.Change(ctx, func(w *db.Conn) ([]chain.Draft, error) { return nil, rows(w) })
	return err
}

// Ready returns nil if a write is possible now, otherwise the error that it would return. After a
// failure of the disk it tries to write, once a second at most.
func (l *Ledger) Ready(ctx context.Context) error {
	return l.Write(ctx, func(*db.Conn) error { return l.storage.probe() })
}

// StopWrites makes every later write fail with reason, until a restart. A running commit completes
// first. Only the first reason counts. StopWrites reports whether this is the first.
func (l *Ledger) StopWrites(reason error) bool {
	return l.writer != nil && l.writer.stopped.CompareAndSwap(nil, &reason)
}

// checkAnswers is checkReplayed for the answers to drafts. It runs in the goroutine of the caller,
// because a batch of replays would hold the log's writer for long. What else the drafts have added
// is durable regardless of its result.
func (l *Ledger) checkAnswers(ctx context.Context, drafts []chain.Draft, answers []chain.Appended) error {
	if !slices.ContainsFunc(answers, func(a chain.Appended) bool { return a.Replayed }) {
		return nil
	}
	return l.Read(ctx, func(c *db.Conn) error {
		for i := range answers {
			if !answers[i].Replayed {
				continue
			}
			if err := CheckReplayed(c, drafts[i].Chain, drafts[i].Keys[0].Name, &answers[i].Record); err != nil {
				return &chain.DraftError{Draft: i, Err: err}
			}
		}
		return nil
	})
}
