// Package bounded has the map behind caches whose entries can be computed or read again at any
// time. It needs no order of use and no second structure: a map that is full is emptied.
package bounded

// Map holds at most a maximum of entries. An entry for which there is no room empties the whole map
// first, so a cache costs at most one recomputation of each entry in use. It MUST NOT hold what
// cannot be had again. A Map needs the caller's lock; a nil Map is empty and may be read.
type Map[K comparable, V any] struct {
	max     int
	entries map[K]V
}

// NewMap returns an empty Map of at most max entries, which MUST be positive.
func NewMap[K comparable, V any](max int) *Map[K, V] {
	return &Map[K, V]{max: max, entries: make(map[K]V)}
}

// Get returns the entry of a key, and whether there is one.
func (m *Map[K, V]) Get(key K) (value V, ok bool) {
	if m != nil {
		value, ok = m.entries[key]
	}
	return value, ok
}

// Put sets the entry of a key. Replacing an entry never empties the map.
func (m *Map[K, V]) Put(key K, value V) {
	if _, replaces := m.entries[key]; !replaces && len(m.entries) >= m.max {
		m.entries = make(map[K]V) // frees the memory, which clear would keep
	}
	m.entries[key] = value
}

// Len returns the number of entries.
func (m *Map[K, V]) Len() int {
	if m == nil {
		return 0
	}
	return len(m.entries)
}
