package backups

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"attestd/internal/sleep"
)

// retryAfter is the time after which a failed backup is tried again, unless the interval is
// shorter.
const retryAfter = 15 * time.Minute

// Schedule makes backups at an interval. Fields MUST NOT change after Run was called.
type Schedule struct {
	To    string // address of the place
	Every time.Duration
	// makes a backup
	Make func(context.Context) (Made, error)
	// returns when the newest backup was begun, or the zero time if there is none
	Newest func(context.Context) (time.Time, error)
	Log    *slog.Logger

	mu     sync.Mutex
	status Status
}

// Status is the state of a schedule. Times are zero for what has not happened since the start,
// except LastSuccess, which is read from the place at the start.
type Status struct {
	To          string
	Every       time.Duration
	Running     bool
	LastStart   time.Time
	LastSuccess time.Time     // begin of the last backup that is done
	Name        string        // of the last backup that this process has made, as the rest
	Size        int64         // bytes in the place
	Duration    time.Duration // of making and verifying it
	Records     int64
	Head        string   // verified: SHA-256 over the heads of all logs
	Left        []string // old backups that could not be removed, and why
	Err         string   // of the last attempt; "" if it succeeded
	Failures    int      // attempts since the last success
	Next        time.Time
}

// Overdue reports whether no backup was begun and done for twice the interval, because attempts
// fail or one does not end.
func (s Status) Overdue(now time.Time) bool {
	hangs := s.Running && now.Sub(s.LastStart) > 2*s.Every
	return (s.Failures > 0 || hangs) && now.Sub(s.LastSuccess) > 2*s.Every
}

// Status returns the state of the schedule. It may be called at any time.
func (s *Schedule) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.status
	now.To, now.Every = s.To, s.Every
	return now
}

func (s *Schedule) change(fn func(*Status)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn(&s.status)
}

// Run makes backups until ctx is done. The first is due at once if there is none, or when the
// newest one is as old as the interval. A clock that leaps changes no interval.
func (s *Schedule) Run(ctx context.Context) error {
	wait := s.first(ctx)
	for {
		s.change(func(now *Status) { now.Next = time.Now().Add(wait) })
		if err := sleep.For(ctx, wait); err != nil {
			return err
		}
		began := time.Now()
		s.change(func(now *Status) { now.Running, now.LastStart = true, began })
		made, err := s.Make(ctx)
		if ctx.Err() != nil {
			s.change(func(now *Status) { now.Running = false })
			return ctx.Err()
		}
		took := time.Since(began)
		wait = max(0, s.Every-took)
		if err != nil {
			wait = min(s.Every, retryAfter)
		}
		s.report(began, took, made, err)
	}
}

// first returns the time until the first backup is due.
func (s *Schedule) first(ctx context.Context) time.Duration {
	newest, err := s.Newest(ctx)
	if err != nil || newest.IsZero() {
		return 0 // a backup will say what is wrong
	}
	age := time.Since(newest)
	if age < 0 { // begun by a clock that was ahead
		return 0
	}
	s.change(func(now *Status) { now.LastSuccess = newest })
	return max(0, s.Every-age)
}

func (s *Schedule) report(began time.Time, took time.Duration, made Made, err error) {
	var failures int
	var last time.Time
	s.change(func(now *Status) {
		now.Running = false
		if err != nil {
			now.Err = err.Error()
			now.Failures++
		} else {
			now.Err, now.Failures, now.LastSuccess = "", 0, began
			now.Name, now.Size, now.Duration = made.Name, made.Size, took
			now.Records, now.Head, now.Left = made.Records, made.Head, made.Left
		}
		failures, last = now.Failures, now.LastSuccess
	})
	if err != nil {
		newest := "none is known"
		if !last.IsZero() {
			newest = last.UTC().Format(time.RFC3339)
		}
		s.Log.Error("the backup failed", "to", s.To, "error", err, "failures", failures, "newest backup", newest)
		return
	}
	s.Log.Info("backed up and verified", "backup", made.Address, "records", made.Records, "size", made.Size,
		"verified", made.Verified, "took", took.Round(time.Millisecond).String(), "removed", len(made.Removed))
	for _, why := range made.Left {
		s.Log.Warn("an old backup was not removed", "why", why)
	}
}
