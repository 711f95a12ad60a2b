package limit

import "time"

// counter is the sliding-window log of one account: a ring buffer that grows with use up to the
// limit.
type counter struct {
	of         account
	next, prev *counter
	last       time.Duration // of the last call, admitted or not
	log        []time.Duration
	first      int // index of the oldest entry
	used       int
}

func (c *counter) unlink() { c.next.prev, c.prev.next = c.prev, c.next }

func (c *counter) oldest() time.Duration { return c.log[c.first] }

// freeAt returns when the log has room for n more entries, which is now if it has room already. If
// n is larger than the limit, it returns the end of a window that starts now.
func (c *counter) freeAt(n, limit int, now time.Duration) time.Duration {
	over := c.used + n - limit
	switch {
	case over <= 0:
		return now
	case over > c.used:
		return now + window
	}
	place := c.first + over - 1 // index of the last entry that must expire
	if place >= len(c.log) {
		place -= len(c.log)
	}
	return c.log[place] + window
}

// expire removes the entries at or before t.
func (c *counter) expire(t time.Duration) {
	for c.used > 0 && c.oldest() <= t {
		c.used--
		if c.first++; c.first == len(c.log) {
			c.first = 0
		}
	}
}

// push logs a call and returns the number of slots by which the ring grew.
func (c *counter) push(at time.Duration, limit int) (grown int) {
	if c.used == len(c.log) {
		bigger := make([]time.Duration, min(max(4, 2*c.used), limit))
		n := copy(bigger, c.log[c.first:])
		copy(bigger[n:], c.log[:c.first])
		grown = len(bigger) - len(c.log)
		c.log, c.first = bigger, 0
	}
	place := c.first + c.used
	if place >= len(c.log) {
		place -= len(c.log)
	}
	c.log[place] = at
	c.used++
	return grown
}
