// Package bounded has the map behind caches whose entries can be computed or read again at any
// time. It needs no order of use and no second structure: a map that is full loses a sixteenth of
// its entries, whichever. So a working set that is somewhat too large still finds most of itself.
package bounded

import "maps"

// Map holds at most a maximum: of entries, or of what its entries weigh. A new entry for which
// there is no room removes others. It MUST NOT hold what cannot be had again. A Map needs the
// caller's lock; a nil Map is empty and may be read.
type Map[K comparable, V any] struct {
	max     int
	weight  func(K, V) int // nil where the maximum is of entries
	weighed int            // what the entries weigh
	entries map[K]V
}

// NewMap returns an empty Map of at most max entries, which MUST be positive.
func NewMap[K comparable, V any](max int) *Map[K, V] {
	return NewWeighted[K, V](max, nil)
}

// NewWeighted returns an empty Map whose entries together weigh at most max. One that weighs more
// is held alone. What an entry weighs MUST NOT change while the Map has it.
func NewWeighted[K comparable, V any](max int, weight func(K, V) int) *Map[K, V] {
	return &Map[K, V]{max: max, weight: weight, entries: make(map[K]V)}
}

// Get returns the entry of a key, and whether there is one.
func (m *Map[K, V]) Get(key K) (value V, ok bool) {
	if m != nil {
		value, ok = m.entries[key]
	}
	return value, ok
}

// Put sets the entry of a key.
func (m *Map[K, V]) Put(key K, value V) {
	if m.weight != nil {
		m.Delete(key)
		m.weighed += m.weight(key, value)
	}
	m.entries[key] = value
	if m.size() <= m.max {
		return
	}
	// several at once, because to begin a range costs more than each further step
	for other := range m.entries {
		if other != key {
			m.Delete(other)
		}
		if m.size() <= m.max-m.max/16 {
			return
		}
	}
}

func (m *Map[K, V]) size() int {
	if m.weight != nil {
		return m.weighed
	}
	return len(m.entries)
}

// Delete removes the entry of a key, if there is one.
func (m *Map[K, V]) Delete(key K) {
	if m.weight != nil {
		if value, ok := m.entries[key]; ok {
			m.weighed -= m.weight(key, value)
		}
	}
	delete(m.entries, key)
}

// Clear removes all entries, and frees their memory.
func (m *Map[K, V]) Clear() { m.entries, m.weighed = make(map[K]V), 0 }

// Clone returns a copy of all entries.
func (m *Map[K, V]) Clone() map[K]V { return maps.Clone(m.entries) }

// Len returns the number of entries.
func (m *Map[K, V]) Len() int {
	if m == nil {
		return 0
	}
	return len(m.entries)
}
