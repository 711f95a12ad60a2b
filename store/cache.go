package store

import (
	"sync"
	"time"
)

// remembered is how long what may change is taken from memory without asking the file: a change by this process counts at
// once, and one by another process (a tool at the file) after this.
const remembered = time.Second

// dated is what the file said at some time.
type dated[V any] struct {
	value V
	read  time.Time
}

// lookup returns what was read of k not too long ago, or else reads it. An error is not remembered.
func lookup[K comparable, V any](c *cache[K, dated[V]], k K, now time.Time, read func() (V, error)) (V, error) {
	known, ok := c.get(k)
	if age := now.Sub(known.read); ok && age >= 0 && age < remembered {
		return known.value, nil
	}
	generation := c.now()
	v, err := read()
	if err == nil {
		c.put(generation, k, dated[V]{v, now})
	}
	return v, err
}

// cache is a bounded map of what was read from the file. Who fills it takes the generation before reading; put does nothing when
// anything was forgotten since. So what a deletion has taken out cannot be put back by a lookup that overtook it.
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

// put keeps v. A full cache starts over: one that fits never pays, and one that does not loses little.
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
