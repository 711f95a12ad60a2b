package db

import (
	"context"
	"sync"
	"time"

	"attestd/internal/bounded"
	"attestd/internal/sleep"
)

// These constants bound the age of cached values that can change. A change by this process takes
// effect at once, one by another process after this time. On a file, the other process is a tool.
// On a database that several servers write, it is any of them, so a revocation returns only when
// all servers know of it: see WaitPropagation.
//
// While the writer of a file sees no external write, cached values stay valid for
// rememberedUnchanged. Otherwise, under load from thousands of tenants, each of them would call too
// rarely to profit from the cache.
const (
	rememberedOfFile    = time.Second
	rememberedUnchanged = 10 * time.Second
	RememberedOfShared  = 250 * time.Millisecond
	PropagationTime     = RememberedOfShared + 50*time.Millisecond
)

// remembered returns the maximum age of cached values of this database.
func (d *DB) remembered() time.Duration {
	if d.MultiWriter() {
		return RememberedOfShared
	}
	return rememberedOfFile
}

// Dated is a cached value with the time when it was read.
type Dated[V any] struct {
	Value V
	read  time.Time // by the clock of the caller
	Began time.Time // start of the read, by the process's clock
}

// fresh reports whether a cached value that was read at one time is still valid at another. The
// writer empties the caches when it detects an external write, so a value in a cache precedes none.
// The caller may have waited since then, so the age must be in bounds by both clocks.
func (d *DB) fresh(read, began, then, now time.Time) bool {
	within := func(d time.Duration, since, until time.Time) bool {
		age := until.Sub(since)
		return age >= 0 && age < d
	}
	remembered := d.remembered()
	if within(remembered, read, then) && within(remembered, began, now) {
		return true
	}
	checked := d.externalChecked.Load()
	return checked != nil && within(remembered, *checked, then) && within(rememberedUnchanged, read, then) &&
		within(rememberedUnchanged, began, now)
}

// Lookup returns the cached value of k if it is fresh, and reads it otherwise. Errors are not
// cached.
func Lookup[K comparable, V any](
	c *Cache[K, Dated[V]], k K, now time.Time, read func() (V, error),
) (V, error) {
	began := time.Now()
	known, ok := c.Get(k)
	if ok && c.db.fresh(known.read, known.Began, now, began) {
		return known.Value, nil
	}
	generation := c.Generation()
	v, err := read()
	if err == nil {
		c.Put(generation, k, Dated[V]{v, now, began})
	}
	return v, err
}

// WaitPropagation returns when no server on the database can still use a value from before the last
// commit. It returns early if the caller is gone.
func (d *DB) WaitPropagation(ctx context.Context) {
	if d.MultiWriter() {
		_ = sleep.For(ctx, PropagationTime)
	}
}

// maxCached bounds each cache, in entries.
const maxCached = 16384

// Cache is a bounded map of values read from the database. A reader gets the generation before it
// reads, and Put does nothing if anything was forgotten since. So a slow lookup cannot restore what
// a deletion has removed.
type Cache[K comparable, V any] struct {
	db *DB

	mu         sync.RWMutex
	m          *bounded.Map[K, V]
	generation uint64
}

// NewCache returns an empty cache, which d empties when someone else has written the database.
func NewCache[K comparable, V any](d *DB) *Cache[K, V] {
	c := &Cache[K, V]{db: d, m: bounded.NewMap[K, V](maxCached)}
	d.caches = append(d.caches, func() { c.Forget() })
	return c
}

func (c *Cache[K, V]) Get(k K) (V, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.m.Get(k)
}

// Generation returns the generation for a later put.
func (c *Cache[K, V]) Generation() uint64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.generation
}

// Put caches v, unless anything was forgotten since the generation.
func (c *Cache[K, V]) Put(generation uint64, k K, v V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if generation == c.generation {
		c.m.Put(k, v)
	}
}

// Forget removes keys, or all keys if none is given.
func (c *Cache[K, V]) Forget(keys ...K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.generation++
	if len(keys) == 0 {
		c.m.Clear()
	}
	for _, k := range keys {
		c.m.Delete(k)
	}
}
