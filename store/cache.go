package store

import (
	"context"
	"sync"
	"time"

	"attestd/internal/sleep"
)

// These constants bound the age of cached values that can change. A change by this process takes
// effect at once, one by another process after this time. On a file, the other process is a tool.
// On a database that several servers write, it is any of them, so a revocation returns only when
// all servers know of it: see waitPropagation.
//
// While the writer of a file sees no external write, cached values stay valid for
// rememberedUnchanged. Otherwise, under load from thousands of tenants, each of them would call too
// rarely to profit from the cache.
const (
	rememberedOfFile    = time.Second
	rememberedUnchanged = 10 * time.Second
	rememberedOfShared  = 250 * time.Millisecond
	propagationTime     = rememberedOfShared + 50*time.Millisecond
)

// remembered returns the maximum age of cached values of this database.
func (s *Store) remembered() time.Duration {
	if s.MultiWriter() {
		return rememberedOfShared
	}
	return rememberedOfFile
}

// dated is a cached value with the time when it was read.
type dated[V any] struct {
	value V
	read  time.Time // by the clock of the caller
	began time.Time // start of the read, by the process's clock
}

// fresh reports whether a cached value that was read at one time is still valid at another. The
// writer empties the caches when it detects an external write, so a value in a cache precedes none.
// The caller may have waited since then, so the age must be in bounds by both clocks.
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
	return checked != nil && within(remembered, *checked, then) && within(rememberedUnchanged, read, then) &&
		within(rememberedUnchanged, began, now)
}

// lookup returns the cached value of k if it is fresh, and reads it otherwise. Errors are not
// cached.
func lookup[K comparable, V any](
	s *Store, c *cache[K, dated[V]], k K, now time.Time, read func() (V, error),
) (V, error) {
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

// waitPropagation returns when no server on the database can still use a value from before the last
// commit. It returns early if the caller is gone.
func (s *Store) waitPropagation(ctx context.Context) {
	if s.MultiWriter() {
		_ = sleep.For(ctx, propagationTime)
	}
}

// cache is a bounded map of values read from the database. A reader gets the generation before it
// reads, and put does nothing if anything was forgotten since. So a slow lookup cannot restore what
// a deletion has removed.
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

// now returns the generation for a later put.
func (c *cache[K, V]) now() uint64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.generation
}

// put caches v. A full cache is emptied first: a working set that fits never fills it, and one that
// does not fit loses little.
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

// forget removes keys, or all keys if none is given.
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
