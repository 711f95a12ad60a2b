package server

import (
	"time"

	"attestd/store/verified"
)

// IntegrityStatus is how far the background verification has come.
type IntegrityStatus struct {
	On bool // whether this server makes passes, alone or when it has the duty
	// the pass that goes on, zero between two, and the last complete one
	Current, Last verified.Pass
	Pending       int64 // companies that the current pass has not reached yet
	// every log that was there at this time has been verified since; zero for never
	Since   time.Time
	Failing int  // logs that do not verify, of those that this process has verified
	Saved   bool // whether what was verified can be saved
}

// Status is safe to call at any time.
func (w *integrity) Status() IntegrityStatus {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := IntegrityStatus{On: w.every > 0, Current: w.state.Current, Last: w.state.Last, Since: w.state.Since,
		Failing: len(w.failing), Saved: w.file != nil && !w.unsaved}
	if !s.Current.Begun.IsZero() {
		s.Pending = max(0, w.total-s.Current.Reached)
	}
	return s
}
