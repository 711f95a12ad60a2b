package db

import (
	"sync"
	"time"
)

const (
	// maximum that the wall clock may be ahead of the monotonic time without being distrusted
	clockStep  = time.Minute
	clockGrace = 24 * time.Hour // how long the wall clock must stay ahead before it is trusted
)

// KeyClock is the clock by which idempotency keys expire. It follows the wall clock, unless that
// leaps ahead. Then it continues from before the leap by a monotonic clock, until the wall clock is
// right again or has stayed ahead for clockGrace. At the start, the newest time in the database
// replaces the time before the leap. So a clock that is wrong for a while does not make the service
// forget a key and append the retry of a request as a second record.
//
// It compares wall times, so no time in it has a monotonic reading: the difference of two that have
// one is that of the readings, and a leap of the wall clock would not show.
type KeyClock struct {
	mu     sync.Mutex
	steady func() time.Duration // monotonic clock
	time   time.Time            // last result; zero before the first use
	at     time.Duration        // steady at the last result
	since  time.Duration        // steady when the wall clock was first found ahead
	ahead  bool                 // the wall clock is ahead
	leapt  bool                 // it leapt while this process was running
}

// ProcessClock returns a monotonic clock. It may stop while the machine sleeps.
func ProcessClock() func() time.Duration {
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}

// NewKeyClock returns a clock that is not started.
func NewKeyClock() *KeyClock { return &KeyClock{steady: ProcessClock()} }

// Start sets the monotonic clock, and a wall clock time that the operator has confirmed, or zero.
func (k *KeyClock) Start(steady func() time.Duration, vouched time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.steady, k.time, k.at, k.ahead = steady, vouched, steady(), false
}

// HasLeapt reports whether the wall clock leapt ahead while this process was running, and is still
// distrusted.
func (k *KeyClock) HasLeapt() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.leapt
}

// elapsed returns the time of the monotonic clock, or 0 before the start.
func (k *KeyClock) elapsed() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.steady == nil {
		return 0
	}
	return k.steady()
}

// Now returns the effective time when the wall clock says wall. leapt reports whether the wall
// clock has leapt ahead while this process was running and is still distrusted. The first call
// reads the newest time in the database from c.
func (k *KeyClock) Now(c *Conn, wall time.Time) (now time.Time, leapt bool, err error) {
	wall = wall.Round(0)
	k.mu.Lock()
	defer k.mu.Unlock()
	steady := k.steady()
	started := !k.time.IsZero()
	if now = k.time.Add(steady - k.at); !started {
		text, err := newest(c)
		if err != nil {
			return now, false, err
		}
		if now, err = ParseTime(text); err != nil { // there is none, or it is damaged
			now = wall
		}
	}
	switch found := wall.Sub(now) > clockStep; {
	case found && !k.ahead:
		k.ahead, k.leapt, k.since = true, started, steady
	case !found, steady-k.since >= clockGrace:
		now, k.ahead, k.leapt = wall, false, false
	}
	k.time, k.at = now, steady
	return now, k.leapt, nil
}

// newest returns the newest time in the database, or "".
func newest(c *Conn) (text string, err error) {
	err = c.One([]any{&text}, `SELECT coalesce(max(at), '') FROM (SELECT timestamp AS at FROM head
		UNION ALL SELECT registered_at FROM company) AS times`)
	return text, err
}

// KeyTime returns the time by which idempotency keys and passports expire when the clock says wall;
// see KeyClock.
func (d *DB) KeyTime(c *Conn, wall time.Time) (time.Time, error) {
	if d.keyClock == nil {
		return wall, nil
	}
	now, _, err := d.keyClock.Now(c, wall)
	return now, err
}
