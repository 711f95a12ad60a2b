package store

import (
	"context"
	"sync"
	"time"
)

// How long what may change is taken from memory without asking the database: a change by this
// process counts at once, and one by another process after this. In a file that is a tool; in a
// database that other servers write too it is any of them, so that what takes something away is
// answered only when all of them know: see waitPropagation. While the writer of a file sees that
// nobody else has written, nothing has to be read again for rememberedUnchanged: under load from
// thousands of tenants, each would come too seldom to be remembered.
const (
	rememberedOfFile    = time.Second
	rememberedUnchanged = 10 * time.Second
	rememberedOfShared  = 250 * time.Millisecond
	propagationTime     = rememberedOfShared + 50*time.Millisecond
)

// remembered is how long what may change is remembered of this database.
func (s *Store) remembered() time.Duration {
	if s.MultiWriter() {
		return rememberedOfShared
	}
	return rememberedOfFile
}

// dated is what the database said at some time.
type dated[V any] struct {
	value V
	read  time.Time // on the clock of whoever asked
	began time.Time // before it was read
}

// fresh says whether what was read at one time counts at another, if it is in a cache still: the
// writer's look empties them first when somebody else has written. Who asks may have waited since
// then, so that what was read is never older by either clock.
func (s *Store) fresh(read, began, then, now time.Time) bool {
	within := func(d time.Duration, since, until time.Time) bool {
		age := until.Sub(since)
		return age >= 0 && age < d
	}
	remembered := s.remembered()
	if within(remembered, read, then) && within(remembered, began, now) {
		return true
	}
	checked := s.externalChecked.Load()
	return checked != nil && within(remembered, *checked, then) && within(rememberedUnchanged, read, then) && within(rememberedUnchanged, began, now)
}

// lookup returns what was read of k not too long ago, or else reads it. An error is not remembered.
func lookup[K comparable, V any](s *Store, c *cache[K, dated[V]], k K, now time.Time, read func() (V, error)) (V, error) {
	began := time.Now()
	known, ok := c.get(k)
	if ok && s.fresh(known.read, known.began, now, began) {
		return known.value, nil
	}
	generation := c.now()
	v, err := read()
	if err == nil {
		c.put(generation, k, dated[V]{v, now, began})
	}
	return v, err
}

// waitPropagation returns when what was just committed holds everywhere: none of the servers on the
// database remembers anything older then. A caller who leaves gets no answer, so that he need not
// wait.
func (s *Store) waitPropagation(ctx context.Context) {
	if s.MultiWriter() {
		pause(ctx, propagationTime)
	}
}

// cache is a bounded map of what was read from the file. Who fills it takes the generation before
// reading; put does nothing when anything was forgotten since. So what a deletion has taken out
// cannot be put back by a lookup that overtook it.
type cache[K comparable, V any] struct {
	max int

	mu         sync.RWMutex
	m          map[K]V
	generation uint64
}

func (c *cache[K, V]) get(k K) (V, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	v, ok := c.m[k]
	return v, ok
}

// now returns the generation to hand to put.
func (c *cache[K, V]) now() uint64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.generation
}

// put keeps v. A full cache starts over: one that fits never pays, and one that does not loses
// little.
func (c *cache[K, V]) put(generation uint64, k K, v V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if generation != c.generation {
		return
	}
	if c.m == nil || len(c.m) >= c.max {
		c.m = make(map[K]V)
	}
	c.m[k] = v
}

// forget takes keys out, all of them when none is named.
func (c *cache[K, V]) forget(keys ...K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.generation++
	if len(keys) == 0 {
		c.m = nil
	}
	for _, k := range keys {
		delete(c.m, k)
	}
}
