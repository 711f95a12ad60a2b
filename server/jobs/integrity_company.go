package jobs

import (
	"context"
	"errors"

	"attestd/chain"
	"attestd/internal/sleep"
	"attestd/store"
	"attestd/store/db"
)

// outcome is what a pass has found out about a company.
type outcome int

const (
	outcomeVerified outcome = iota
	outcomeFailed           // a log does not verify, or a table differs from the control log
	outcomeUnread           // a log or a table could not be read
)

// company verifies the logs and compares the tables of a company, and counts the outcome. It
// returns an error only when ctx is done.
func (w *Integrity) company(ctx context.Context, number int64) error {
	found, err := w.examine(ctx, number)
	for _, pause := range readRetries {
		if err == nil || ctx.Err() != nil {
			break
		}
		if err := sleep.For(ctx, pause); err != nil {
			return err
		}
		found, err = w.examine(ctx, number)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		w.Log.Error("a company cannot be verified in the background", "chain", number, "error", err)
		found = max(found, outcomeUnread)
	}
	w.count(number, found)
	return nil
}

// examine returns what it has found out of a company, or why that could not be read.
func (w *Integrity) examine(ctx context.Context, number int64) (found outcome, err error) {
	isControlValid := false
	for _, id := range []int64{store.Actions.ChainID(number), store.Control.ChainID(number)} {
		verdict, err := w.Verifier.VerifyPaced(ctx, id)
		if err != nil {
			return found, err
		}
		if number == db.Installation && id == number && verdict.Length > 0 {
			verdict.Valid, verdict.Reason = false, "the company has no such log"
		}
		w.say(ctx, id, verdict)
		isControlValid = verdict.Valid
		if !verdict.Valid {
			found = outcomeFailed
		}
	}
	if !isControlValid {
		return found, nil // say has reported it
	}
	err = w.Store.Tables.CheckPaced(ctx, number, w.Verifier.Rest)
	if err == nil || errors.Is(err, store.ErrTablesChanged) {
		w.Tables.say(number, err)
	}
	if errors.Is(err, store.ErrTablesChanged) {
		return outcomeFailed, nil
	}
	return found, err
}

// count counts the outcome of a company, which the pass has then reached. Number 0 is for what has
// no company.
func (w *Integrity) count(number int64, found outcome) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := &w.state.Current
	switch found {
	case outcomeVerified:
		p.Verified++
	case outcomeFailed:
		p.Failed++
	case outcomeUnread:
		p.Unread++
	}
	if number != db.Installation {
		p.Reached = max(p.Reached, number)
	}
	w.changed = true
}

// say reports the verdict on a log if it has changed. A client that follows the log learns of a
// failure with its next record, because the monitor then verifies the log again.
func (w *Integrity) say(ctx context.Context, id int64, verdict chain.Verdict) {
	w.mu.Lock()
	before, failed := w.failing[id]
	if verdict.Valid {
		delete(w.failing, id)
	} else {
		if w.failing == nil {
			w.failing = map[int64]string{}
		}
		w.failing[id] = verdict.Reason
	}
	w.mu.Unlock()
	if verdict.Valid != failed && before == verdict.Reason {
		return
	}
	company, name := "", ""
	if c, l, err := w.Store.Companies.LogOfChain(ctx, id); err == nil {
		company, name = c.ID, string(l.Name)
	}
	if verdict.Valid {
		w.Log.Warn("a log verifies again", "company", company, "log", name, "chain", id)
		return
	}
	w.Invalidate(id)
	w.Log.Error("a log does not verify: it was changed, or the disk is damaged; restore a backup, and see attestd help verify",
		"company", company, "log", name, "chain", id, "record", verdict.FailedAt, "reason", verdict.Reason)
}
