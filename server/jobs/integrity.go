package jobs

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"sync"
	"time"

	"attestd/chain"
	"attestd/internal/sleep"
	"attestd/store"
	"attestd/store/db"
	"attestd/store/verified"
)

const (
	// saveInterval is the interval of saving what was verified.
	saveInterval = time.Minute

	// maxDueWait bounds the wait for the next pass, because the clock may be set meanwhile.
	maxDueWait = time.Hour

	// listRetry is the pause after the companies could not be listed.
	listRetry = time.Minute
)

// readRetries are the pauses before a log that could not be read is read again.
var readRetries = []time.Duration{time.Second, 10 * time.Second, time.Minute}

// Integrity verifies both logs of every company and compares the tables with them, in passes at the
// lowest priority. It saves how far a pass has come and what any verification of this server has
// verified, so that the next start continues from there. Of the servers on a database one makes the
// passes; each saves for itself.
type Integrity struct {
	Store      *store.Store
	Verifier   *chain.Verifier
	Tables     *TableWatch
	Every      time.Duration // between the beginnings of two passes; 0 for no passes
	Program    string        // version of this program
	Invalidate func(chain int64)
	Log        *slog.Logger

	file    *verified.File // nil if nothing is saved; set by open
	passing sync.Mutex     // held by the goroutine that makes the passes

	mu      sync.Mutex
	state   verified.Contents // without Known
	total   int64             // number of companies when the pass began or went on
	failing map[int64]string  // by chain ID: why the log does not verify
	changed bool              // state is not saved
	saved   int64             // what was saved of the verifier, by its version
	unsaved bool              // the last save failed
}

// Open reads what was verified before this start. It comes before the first verification.
func (w *Integrity) Open(ctx context.Context) {
	file, err := w.Store.VerifiedFile(ctx, w.Program)
	if err != nil {
		w.Log.Warn("what was verified is not saved", "error", err)
	}
	if file == nil {
		return
	}
	w.file = file
	found, err := file.Read()
	switch {
	case errors.Is(err, fs.ErrNotExist) && w.Store.IsNew():
	case errors.Is(err, fs.ErrNotExist):
		w.Log.Info("nothing says what was verified before: each log is verified in full once", "file", file.Path())
	case err != nil:
		w.Log.Warn("what was verified before cannot be used: each log is verified in full once", "error", err)
	default:
		w.Verifier.Recall(found.Known)
		found.Known = nil
		w.state, w.saved = found, w.Verifier.Version()
	}
}

// Run makes passes while this server has the duty, and saves what was verified, until ctx is done.
func (w *Integrity) Run(ctx context.Context) error {
	var group sync.WaitGroup
	if w.Every > 0 {
		group.Go(func() { whileOnDuty(ctx, w.Store, "verify", w.passes) })
	}
	for sleep.For(ctx, saveInterval) == nil {
		w.save()
	}
	group.Wait()
	w.save()
	return ctx.Err()
}

// save writes the file if there is something new.
func (w *Integrity) save() {
	if w.file == nil {
		return
	}
	w.mu.Lock()
	known, version := w.Verifier.Prefixes()
	state, due := w.state, w.changed || version != w.saved
	w.mu.Unlock()
	if !due {
		return
	}
	for chain, p := range known {
		if p.Length == 0 {
			delete(known, chain)
		}
	}
	state.Known = known
	err := w.file.Write(state)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err != nil && !w.unsaved:
		w.Log.Warn("what was verified cannot be saved; after the next start each log is verified in full", "error", err)
	case err == nil && w.unsaved:
		w.Log.Info("what was verified is saved again", "file", w.file.Path())
	}
	w.unsaved = err != nil
	if err == nil {
		w.saved = version
		w.changed = w.changed && !sameState(w.state, state)
	}
}

func sameState(a, b verified.Contents) bool {
	return a.Since.Equal(b.Since) && a.Current == b.Current && a.Last == b.Last
}

// passes makes one pass after the other until ctx is done.
func (w *Integrity) passes(ctx context.Context, held *db.Held) {
	w.passing.Lock()
	defer w.passing.Unlock()
	for ctx.Err() == nil {
		if rest := w.untilDue(time.Now()); rest > 0 {
			_ = sleep.For(ctx, min(rest, maxDueWait)) // the loop handles ctx
		} else if err := w.pass(ctx, held); errors.Is(err, db.ErrDutyLost) {
			return
		} else if err != nil && ctx.Err() == nil {
			w.Log.Warn("the background verification cannot list the companies; it goes on in a minute", "error", err)
			_ = sleep.For(ctx, listRetry)
		}
	}
}

// untilDue returns the time until the next pass, 0 while one is to continue.
func (w *Integrity) untilDue(now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	began := w.state.Last.Begun
	if !w.state.Current.Begun.IsZero() || began.IsZero() || began.After(now) {
		return 0
	}
	return max(0, began.Add(w.Every).Sub(now))
}

// pass begins a pass, or continues the one that a stop has interrupted. It returns an error if the
// companies cannot be listed. A pass writes nothing that another server reads. It ends at a company
// where another server has the duty.
func (w *Integrity) pass(ctx context.Context, held *db.Held) error {
	total, err := w.Store.Companies.Count(ctx)
	if err != nil {
		return err
	}
	w.mu.Lock()
	if w.state.Current.Begun.IsZero() {
		w.state.Current = verified.Pass{Begun: time.Now()}
	}
	w.total, w.changed = total, true
	reached := w.state.Current.Reached
	w.mu.Unlock()
	for number, err := range w.Store.Companies.Numbers(ctx, reached) {
		if err == nil {
			err = held.Check(ctx)
		}
		if err == nil {
			err = w.company(ctx, number)
		}
		if err != nil {
			return err
		}
	}
	isThere, err := w.Store.Companies.HasLog(ctx)
	if err == nil && isThere {
		err = w.company(ctx, db.Installation)
	}
	if errors.Is(err, store.ErrTablesChanged) {
		w.Tables.say(db.Installation, err)
		err = nil
	}
	if err == nil {
		err = w.orphans(ctx)
	}
	if err == nil {
		w.end(time.Now())
	}
	return err
}

// orphans reports chains without a company.
func (w *Integrity) orphans(ctx context.Context) error {
	found, err := w.Store.Strays(ctx)
	for _, v := range found {
		w.say(ctx, v.Chain, v.Verdict)
		w.count(0, outcomeFailed)
	}
	return err
}

func (w *Integrity) end(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.state.Current
	if p.Ended = now; p.Unread == 0 {
		w.state.Since = p.Begun
	}
	w.state.Current, w.state.Last, w.changed = verified.Pass{}, p, true
	level := slog.LevelInfo
	switch {
	case p.Failed > 0 || p.Unread > 0:
		level = slog.LevelError
	case p.Verified == 0: // there is no company yet
		level = slog.LevelDebug
	}
	w.Log.Log(context.Background(), level, "the background verification has reached every company", "companies", p.Verified,
		"failed", p.Failed, "unread", p.Unread, "took", now.Sub(p.Begun).Round(time.Second).String())
}
