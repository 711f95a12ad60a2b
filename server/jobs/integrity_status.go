package jobs

import (
	"time"

	"attestd/store/verified"
)

// IntegrityStatus is how far the background verification has come.
type IntegrityStatus struct {
	On bool // whether this server makes passes, alone or when it has the duty
	// the running pass, zero between two, and the last complete one
	Current, Last verified.Pass
	Pending       int64 // companies that the current pass has not reached yet
	// every log that was there at this time has been verified since; zero for never
	Since   time.Time
	Failing int  // logs that do not verify, of those that this process has verified
	Saved   bool // whether what was verified can be saved
}

// Status is safe to call at any time.
func (w *Integrity) Status() IntegrityStatus {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := IntegrityStatus{On: w.Every > 0, Current: w.state.Current, Last: w.state.Last, Since: w.state.Since,
		Failing: len(w.failing), Saved: w.file != nil && !w.unsaved}
	if !s.Current.Begun.IsZero() {
		s.Pending = max(0, w.total-s.Current.Reached)
	}
	return s
}

// addFailing adds the companies that have a log that does not verify to a set.
func (w *Integrity) addFailing(companies map[int64]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id := range w.failing {
		companies[max(id, -id)] = true
	}
}

// VerificationStatus is what the background verification and the comparison of the tables, which
// overlap, say together.
type VerificationStatus struct {
	Checked int64     // companies that the pass which ended last has checked, or the first so far
	Failing int       // companies with a log that does not verify, or with tables that differ
	Ended   time.Time // of the pass over all companies that ended last; zero for never
}

// Verification returns what both say.
func (w *Integrity) Verification() VerificationStatus {
	tables, logs := w.Tables.Status(), w.Status()
	status := VerificationStatus{Checked: tables.Checked, Ended: tables.Ended}
	if last := logs.Last; last.Ended.After(tables.Ended) {
		status.Checked, status.Ended = last.Verified+last.Failed+last.Unread, last.Ended
	}
	failing := map[int64]bool{}
	w.Tables.addFailing(failing)
	w.addFailing(failing)
	status.Failing = len(failing)
	return status
}
