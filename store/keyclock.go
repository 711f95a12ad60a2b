package store

import (
	"sync"
	"time"
)

const (
	// by how much more than its time a wall clock may go on without being doubted
	clockStep  = time.Minute
	clockGrace = 24 * time.Hour // how long a wall clock must say so before anything expires by it
)

// keyClock says by what time idempotency keys expire. That is the wall clock's, unless it has leapt
// ahead: then time goes on from before the leap, by a clock that nobody sets, until the wall clock
// is right again or has stayed so for clockGrace. At the start, the newest time in the database is
// from before. So a clock that is wrong for a while neither forgets a key nor makes a retry a
// second record.
type keyClock struct {
	mu     sync.Mutex
	steady func() time.Duration
	time   time.Time     // as it was last said; zero before the first use
	at     time.Duration // when, by steady
	since  time.Duration // when the wall clock was first found ahead
	ahead  bool          // it is since then
	leapt  bool          // and was not at the start
}

// processClock is a clock that nobody sets; it may stand still while the machine sleeps.
func processClock() func() time.Duration {
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}

// start sets the clock that nobody sets, and the wall clock's time where somebody vouches for that.
func (k *keyClock) start(steady func() time.Duration, vouched time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.steady, k.time, k.at, k.ahead = steady, vouched, steady(), false
}

// elapsed is what the clock that nobody sets says.
func (k *keyClock) elapsed() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.steady()
}

// now returns the time that counts when the wall clock says wall, and whether that has leapt ahead
// since the start and is doubted still. c is where the newest time in the database is read, once.
func (k *keyClock) now(c *conn, wall time.Time) (now time.Time, leapt bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	steady := k.steady()
	started := !k.time.IsZero()
	if now = k.time.Add(steady - k.at); !started {
		text, err := newest(c)
		if err != nil {
			return now, false, err
		}
		if now, err = parseTime(text); err != nil { // there is none, or it was damaged
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

// newest is the newest time in the database, "" for none.
func newest(c *conn) (text string, err error) {
	err = c.one([]any{&text}, `SELECT coalesce(max(at), '') FROM (SELECT timestamp AS at FROM head UNION ALL SELECT registered_at FROM company) AS times`)
	return text, err
}

// keyTime is the time by which idempotency keys and the like expire when the clock says wall; see
// keyClock.
func (s *Store) keyTime(c *conn, wall time.Time) (time.Time, error) {
	if s.writer == nil {
		return wall, nil
	}
	now, _, err := s.writer.keyClock.now(c, wall)
	return now, err
}
