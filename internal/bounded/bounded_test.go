package bounded_test

import (
	"testing"

	"attestd/internal/bounded"
)

// A map never has more entries than its maximum: a new one empties it when it is full.
func TestMapIsEmptiedWhenFull(t *testing.T) {
	t.Parallel()
	const most = 3
	m := bounded.NewMap[int, string](most)
	for i := range most {
		m.Put(i, "first")
	}
	m.Put(0, "second") // replaces an entry, for which there is room
	if got, ok := m.Get(0); m.Len() != most || !ok || got != "second" {
		t.Fatalf("after an entry was replaced: %d entries, %q", m.Len(), got)
	}
	if got, ok := m.Get(most - 1); !ok || got != "first" {
		t.Fatalf("replacing one entry changed another: %q, %t", got, ok)
	}
	m.Put(most, "third")
	if got, ok := m.Get(most); m.Len() != 1 || !ok || got != "third" {
		t.Fatalf("after one entry too many: %d entries, %q", m.Len(), got)
	}
	if _, ok := m.Get(0); ok {
		t.Fatal("an entry survived that the map was emptied of")
	}
}

// A nil map is read as an empty one.
func TestNilMap(t *testing.T) {
	t.Parallel()
	var m *bounded.Map[int, int]
	if _, ok := m.Get(1); ok || m.Len() != 0 {
		t.Fatal("a nil map has entries")
	}
}
