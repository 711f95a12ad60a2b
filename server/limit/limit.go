// Package limit counts requests in sliding windows.
package limit

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Tier names the limit that a route falls under.
type Tier int

const (
	Standard Tier = iota
	Sensitive
	Attest
)

// Limits are the requests that one key may make in any 60 seconds, by tier. A tier of zero is not limited.
type Limits struct{ Sensitive, Attest, Standard int }

// maxLimit keeps one counter's log within 8 MB.
const maxLimit = 1_000_000

// Parse reads "sensitive=10,attest=100,standard=1000" in any order, where a tier left out keeps the figure shown here,
// or "off". Each number is from 1 to 1,000,000.
func Parse(s string) (Limits, error) {
	if s == "off" {
		return Limits{}, nil
	}
	l := Limits{Sensitive: 10, Attest: 100, Standard: 1000}
	seen := make(map[string]bool)
	for part := range strings.SplitSeq(s, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		if !ok {
			return Limits{}, fmt.Errorf("want tier=number or off, not %q", part)
		}
		var limit *int
		switch name {
		case "sensitive":
			limit = &l.Sensitive
		case "attest":
			limit = &l.Attest
		case "standard":
			limit = &l.Standard
		default:
			return Limits{}, fmt.Errorf("unknown tier %q; the tiers are sensitive, attest and standard", name)
		}
		if seen[name] {
			return Limits{}, fmt.Errorf("tier %s is given twice", name)
		}
		seen[name] = true
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 || n > maxLimit {
			return Limits{}, fmt.Errorf("%s must be a number from 1 to %d, not %q", name, maxLimit, value)
		}
		*limit = n
	}
	return l, nil
}

const (
	window = 60 * time.Second

	// What the counters may hold together. Idle ones go by themselves after one window, so that these bounds only matter
	// when so many keys call within a minute.
	maxCounters = 20_000
	maxSlots    = 4 << 20 // logged calls, of 8 bytes
)

// Limiter keeps, for each tier and key, the times of the calls admitted in the last 60 seconds. One lock covers everything:
// a call holds it for about a tenth of a microsecond, so that shards would buy nothing.
type Limiter struct {
	limits [3]int // by tier

	mu       sync.Mutex
	epoch    time.Time // of the first call; times are kept as distances from it, which no change of the wall clock moves
	counters map[counterKey]*counter
	recent   counter // ring of all counters by their last call: next is the latest, prev the one idle for longest
	slots    int     // sum of len(counter.log)
}

type counterKey struct {
	tier Tier
	key  string
}

// New returns a limiter without any counter.
func New(l Limits) *Limiter {
	lim := &Limiter{counters: make(map[counterKey]*counter)}
	lim.limits[Standard], lim.limits[Sensitive], lim.limits[Attest] = l.Standard, l.Sensitive, l.Attest
	lim.recent.next, lim.recent.prev = &lim.recent, &lim.recent
	return lim
}

// Take counts a call of key and says whether it may go on. Calls that may not are not logged, so that they never extend the window.
//
// When there are too many counters, the one whose last call (admitted or not) lies furthest back is forgotten, and its key
// starts with an empty window. Nothing can be gained by causing that: it takes 20,000 other keys, each with a window of its own.
func (l *Limiter) Take(t Tier, key string, now time.Time) Quota {
	limit := l.limits[t]
	if limit == 0 {
		return Quota{OK: true}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.epoch.IsZero() {
		l.epoch = now
	}
	at := now.Sub(l.epoch)
	c := l.counter(counterKey{t, key})
	at = max(at, c.last) // callers read the clock before they get the lock; a log stays in order
	c.last = at
	c.expire(at - window)
	ok := c.used < limit
	if ok {
		l.slots += c.push(at, limit)
	}
	l.tidy(at, c)
	return Quota{limit: limit, remaining: limit - c.used, reset: now.Add(c.oldest() + window - at), OK: ok}
}

// counter finds or makes the counter of k and puts it first.
func (l *Limiter) counter(k counterKey) *counter {
	c := l.counters[k]
	if c == nil {
		k.key = strings.Clone(k.key) // it outlives the request that it is a part of
		c = &counter{key: k}
		l.counters[k] = c
	} else {
		c.unlink()
	}
	c.next, c.prev = l.recent.next, &l.recent
	c.next.prev, c.prev.next = c, c
	return c
}

// tidy drops idle counters, a few a call, and whatever is over the bounds, but never the one just used.
func (l *Limiter) tidy(at time.Duration, used *counter) {
	for dropped := 0; ; dropped++ {
		c := l.recent.prev
		idle := at-c.last >= window && dropped < 4
		if c == used || !idle && len(l.counters) <= maxCounters && l.slots <= maxSlots {
			return
		}
		c.unlink()
		delete(l.counters, c.key)
		l.slots -= len(c.log)
	}
}

// counter is the log of one key in one tier: a ring that grows with use up to the limit.
type counter struct {
	key        counterKey
	next, prev *counter
	last       time.Duration // of the last call, admitted or not
	log        []time.Duration
	first      int // place of the oldest entry
	used       int
}

func (c *counter) unlink() { c.next.prev, c.prev.next = c.prev, c.next }

func (c *counter) oldest() time.Duration { return c.log[c.first] }

// expire forgets the entries at or before t.
func (c *counter) expire(t time.Duration) {
	for c.used > 0 && c.oldest() <= t {
		c.used--
		if c.first++; c.first == len(c.log) {
			c.first = 0
		}
	}
}

// push logs a call and returns by how many slots the ring grew.
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
