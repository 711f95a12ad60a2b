package server

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"attestd/chain"
	"attestd/internal/sleep"
	"attestd/store"
)

// tablesEvery is the interval of comparing the tables of all companies with their control logs. The
// first comparison follows the start. On a file, the background verification makes the later ones
// if its interval is no longer.
const tablesEvery = 24 * time.Hour

// tableWatch compares the tables of each company with its control log, and the companies with the
// log of the companies, in the background. It uses at most half of a core.
type tableWatch struct {
	store  *store.Store
	verify func(ctx context.Context, number int64) (chain.Verdict, error)
	log    *slog.Logger
	once   bool // the background verification compares them daily

	mu   sync.Mutex
	said map[int64]string // last logged result by company

	checked atomic.Int64 // companies since the start of the round
	ended   atomic.Int64 // when the last round did, in Unix seconds; 0 for never
}

// tableStatus is how far the comparison of all companies has come.
type tableStatus struct {
	Checked int64     // companies that the last round, or the one that runs, has checked
	Ended   time.Time // of the last round over all companies; zero for never
}

// Status may be called at any time.
func (w *tableWatch) Status() tableStatus {
	status := tableStatus{Checked: w.checked.Load()}
	if at := w.ended.Load(); at > 0 {
		status.Ended = time.Unix(at, 0)
	}
	return status
}

// addFailing adds the companies whose control log or tables did not verify to a set.
func (w *tableWatch) addFailing(companies map[int64]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for number := range w.said {
		companies[number] = true
	}
}

func (w *tableWatch) run(ctx context.Context) error {
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
func (w *tableWatch) checkCompanies(ctx context.Context) error {
	isThere, err := w.store.Companies.HasLog(ctx)
	if err == nil && isThere {
		err = w.check(ctx, store.Installation)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	w.say(store.Installation, err)
	return nil
}

// check compares the tables of a company if its control log verifies.
func (w *tableWatch) check(ctx context.Context, number int64) error {
	verdict, err := w.verify(ctx, store.ControlChain(number))
	if err != nil {
		return err
	}
	if !verdict.Valid {
		return errors.New("the control log does not verify: " + verdict.Reason)
	}
	return w.store.Tables.Check(ctx, number)
}

// say logs the result for a company if it has changed.
func (w *tableWatch) say(number int64, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.said[number] == text {
		return
	}
	if w.said[number] = text; text == "" {
		delete(w.said, number)
		w.log.Warn("the tables agree with the control log again", "chain", number)
		return
	}
	w.log.Error("the tables differ from the control log, or could not be compared with it; see attestd help accept-tables",
		"chain", number, "error", err)
}
