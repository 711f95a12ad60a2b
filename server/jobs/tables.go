package jobs

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"attestd/chain"
	"attestd/internal/sleep"
	"attestd/store"
	"attestd/store/db"
)

// tablesEvery is the interval of comparing the tables of all companies with their control logs. The
// first comparison follows the start. On a file, the background verification makes the later ones
// if its interval is no longer.
const tablesEvery = 24 * time.Hour

const (
	// tablesScanEvery is the interval of the checks for external writes, of the settings that
	// identify the database, and on PostgreSQL of the rows that no request reads.
	tablesScanEvery = 5 * time.Second
	// demandEvery is the interval of attempts to demand HMACs, while older servers may share the
	// database.
	demandEvery = time.Hour
)

// TableWatch compares the tables of each company with its control log, and the companies with the
// log of the companies, in the background. It uses at most half of a core.
type TableWatch struct {
	store    *store.Store
	verify   func(ctx context.Context, number int64) (chain.Verdict, error)
	log      *slog.Logger
	once     bool // the background verification compares them daily
	interval time.Duration
	record   func(ctx context.Context) // records a start, as often as is needed

	checking sync.Mutex // held while a company is compared

	mu       sync.Mutex
	reported map[int64]string // last logged result by company

	checked atomic.Int64 // companies since the start of the round
	ended   atomic.Int64 // when the last round did, in Unix seconds; 0 for never
}

// NewTableWatch compares the tables of a store whose logs verify checks. record records a start.
// verifyEvery is the interval of the background verification, 0 without one.
func NewTableWatch(
	s *store.Store, verify func(context.Context, int64) (chain.Verdict, error), record func(context.Context),
	verifyEvery time.Duration, log *slog.Logger,
) *TableWatch {
	return &TableWatch{store: s, verify: verify, log: log, reported: map[int64]string{}, interval: tablesScanEvery, record: record,
		once: !s.MultiWriter() && verifyEvery > 0 && verifyEvery <= tablesEvery}
}

// TableStatus is how far the comparison of all companies has come.
type TableStatus struct {
	Checked int64     // companies that the last round, or the one that runs, has checked
	Ended   time.Time // of the last round over all companies; zero for never
}

// Status may be called at any time.
func (w *TableWatch) Status() TableStatus {
	status := TableStatus{Checked: w.checked.Load()}
	if at := w.ended.Load(); at > 0 {
		status.Ended = time.Unix(at, 0)
	}
	return status
}

// addFailing adds the companies whose control log or tables did not verify to a set.
func (w *TableWatch) addFailing(companies map[int64]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for number := range w.reported {
		companies[number] = true
	}
}

func (w *TableWatch) Run(ctx context.Context) error {
	var watching sync.WaitGroup
	watching.Go(func() { w.watchExternalWrites(ctx) })
	err := w.rounds(ctx)
	watching.Wait()
	return err
}

// rounds compares the tables of all companies, once or daily.
func (w *TableWatch) rounds(ctx context.Context) error {
	for {
		w.checked.Store(0)
		for number, err := range w.store.Companies.Numbers(ctx, 0) {
			began := time.Now()
			if err == nil {
				err = w.check(ctx, number)
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			w.say(number, err)
			w.checked.Add(1)
			if err := sleep.For(ctx, time.Since(began)); err != nil {
				return err
			}
		}
		if err := w.checkCompanies(ctx); err != nil {
			return err
		}
		w.ended.Store(time.Now().Unix())
		if w.once {
			return nil
		}
		if err := sleep.For(ctx, tablesEvery); err != nil {
			return err
		}
	}
}

// checkCompanies compares the companies with the log of the companies.
func (w *TableWatch) checkCompanies(ctx context.Context) error {
	isThere, err := w.store.Companies.HasLog(ctx)
	if err == nil && isThere {
		err = w.check(ctx, db.Installation)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	w.say(db.Installation, err)
	return nil
}

// check compares the tables of a company if its control log verifies.
func (w *TableWatch) check(ctx context.Context, number int64) error {
	return w.compare(ctx, number, w.store.Tables.Check)
}

// compare calls one of the comparisons of a company if its control log verifies.
func (w *TableWatch) compare(ctx context.Context, number int64, by func(context.Context, int64) error) error {
	w.checking.Lock()
	defer w.checking.Unlock()
	verdict, err := w.verify(ctx, store.ControlChain(number))
	if err != nil {
		return err
	}
	if !verdict.Valid {
		return errors.New("the control log does not verify: " + verdict.Reason)
	}
	return by(ctx, number)
}

// watchExternalWrites detects external writes into the database while this server runs. After a
// write into the file it compares all companies: first what gives rights, then the names of
// statements, those first of which a statement is waiting. Other programs that write the file, such
// as Litestream, cause at most a tenth of a core of work: the next comparison of all waits nine
// times as long as the last one took.
func (w *TableWatch) watchExternalWrites(ctx context.Context) {
	var seen int64         // of external writes
	var ended time.Time    // of the last comparison of all
	var took time.Duration // of that
	var webhooks store.WebhookWatch
	var agreed attempt
	recorded := map[int64]int64{}
	demanded := time.Now()
	every := time.NewTicker(w.interval)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		case <-w.store.Tables.Doubted():
		}
		_ = w.store.Tables.Look(ctx) // a file that cannot be written is reported elsewhere
		err := w.store.Tables.CheckIdentity(ctx)
		if w.store.MultiWriter() {
			err = errors.Join(err, w.store.Tables.CheckWebhooks(ctx, &webhooks), w.agree(ctx, &agreed))
			w.compareRecorded(ctx, recorded)
			if !w.store.Tables.RowsAreSigned() && time.Since(demanded) >= demandEvery {
				demanded = time.Now()
				w.record(ctx)
			}
		}
		w.logFailure(ctx, err)
		if written := w.store.Tables.ExternalWrites(); written != seen && time.Since(ended) >= 9*took {
			w.log.Debug("somebody else has written the database, or a checkpoint: its tables are compared with the logs", "writes", written)
			began := time.Now()
			w.compareAll(ctx)
			seen, ended, took = written, time.Now(), time.Since(began)
		}
		w.compareWaiting(ctx)
	}
}

// attempt is when something was tried last, and how long that took.
type attempt struct {
	ended time.Time
	took  time.Duration
}

// agree records which settings the database has, in the logs of companies that a server of an older
// version has registered. Where that cannot be, because the settings were tampered with, it uses no
// more than a tenth of a core.
func (w *TableWatch) agree(ctx context.Context, last *attempt) error {
	if time.Since(last.ended) < 9*last.took {
		return nil
	}
	began := time.Now()
	defer func() { *last = attempt{time.Now(), time.Since(began)} }()
	return w.store.Settings.AgreeSettings(ctx, func(ctx context.Context) error {
		return w.compare(ctx, db.Installation, func(context.Context, int64) error { return nil })
	})
}

// compareRecorded compares the companies that differ once more, and again when their control logs
// have grown: another server, or attestd accept-tables while this one runs, may have recorded what
// was missing. recorded has the lengths of these logs before the last comparison.
func (w *TableWatch) compareRecorded(ctx context.Context, recorded map[int64]int64) {
	lengths, err := w.store.Tables.Differing(ctx)
	if err != nil {
		w.logFailure(ctx, err)
		return
	}
	maps.DeleteFunc(recorded, func(number, _ int64) bool { _, differs := lengths[number]; return !differs })
	for number, length := range lengths {
		if before, known := recorded[number]; !known || before < length {
			w.say(number, w.check(ctx, number))
		}
		recorded[number] = length
	}
}

// logFailure logs what could not be compared. The store remembers differences, and logs each once.
func (w *TableWatch) logFailure(ctx context.Context, err error) {
	switch {
	case err == nil:
		w.say(0, nil)
	case errors.Is(err, store.ErrTablesChanged):
		w.say(0, err)
	case ctx.Err() == nil:
		w.log.Warn("the tables could not be looked at", "error", err)
	}
}

// compareAll compares all companies after an external write.
func (w *TableWatch) compareAll(ctx context.Context) {
	for _, by := range []func(context.Context, int64) error{w.store.Tables.CheckRights, w.store.Tables.CheckNames} {
		if isThere, err := w.store.Companies.HasLog(ctx); err == nil && isThere {
			w.reportOf(ctx, db.Installation, by)
		}
		for number, err := range w.store.Companies.Numbers(ctx, 0) {
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				w.log.Error("the companies cannot be listed, and are not compared", "error", err)
				return
			}
			w.compareWaiting(ctx)
			w.reportOf(ctx, number, by)
		}
	}
}

// compareWaiting compares the names of the companies of which a statement is waiting.
func (w *TableWatch) compareWaiting(ctx context.Context) {
	for _, number := range w.store.Tables.Waiting() {
		w.reportOf(ctx, number, w.store.Tables.CheckNames)
	}
}

// reportOf compares a company, and logs a difference.
func (w *TableWatch) reportOf(ctx context.Context, number int64, by func(context.Context, int64) error) {
	if err := w.compare(ctx, number, by); err != nil && ctx.Err() == nil {
		w.say(number, err)
	}
}

// say logs the result for a company if it has changed.
func (w *TableWatch) say(number int64, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.reported[number] == text {
		return
	}
	if w.reported[number] = text; text == "" {
		delete(w.reported, number)
		w.log.Warn("the tables agree with the control log again", "chain", number)
		return
	}
	w.log.Error("the tables differ from the control log, or could not be compared with it; see attestd help accept-tables",
		"chain", number, "error", err)
}
