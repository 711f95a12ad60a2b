package bounded_test

import (
	"testing"

	"attestd/internal/bounded"
)

// A map never has more entries than its maximum: a new one takes the place of others, of a
// sixteenth at most.
func TestMapLosesAFewEntriesWhenFull(t *testing.T) {
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
	for i := most; i < 100; i++ {
		m.Put(i, "third")
		if got, ok := m.Get(i); m.Len() != most || !ok || got != "third" {
			t.Fatalf("after entry %d: %d entries, %q", i, m.Len(), got)
		}
	}
	const many = 1600
	large := bounded.NewMap[int, int](many)
	for i := range many * 3 {
		large.Put(i, i)
		if got, ok := large.Get(i); !ok || got != i || large.Len() > many || i >= many && large.Len() < many-many/16 {
			t.Fatalf("after entry %d of a large map: %d entries, %d", i, large.Len(), got)
		}
	}
}

// Entries have room by what they weigh, which replaced and deleted ones no longer take.
func TestWeightedMap(t *testing.T) {
	t.Parallel()
	const most = 10
	m := bounded.NewWeighted[string](most, func(key, value string) int { return len(key) + len(value) })
	check := func(after string, want map[string]string) {
		t.Helper()
		if m.Len() != len(want) {
			t.Fatalf("after %s: %d entries, want %d", after, m.Len(), len(want))
		}
		for key, value := range want {
			if got, ok := m.Get(key); !ok || got != value {
				t.Fatalf("after %s: %q is %q, %t; want %q", after, key, got, ok, value)
			}
		}
	}
	m.Put("a", "1234")
	m.Put("b", "1234")
	check("two that fit exactly", map[string]string{"a": "1234", "b": "1234"})
	m.Put("a", "12")
	m.Put("c", "1")
	check("one that was replaced by a lighter one", map[string]string{"a": "12", "b": "1234", "c": "1"})
	m.Delete("b")
	m.Put("d", "1234")
	check("one that was deleted", map[string]string{"a": "12", "c": "1", "d": "1234"})
	m.Put("e", "123456789")
	check("one that fits only alone", map[string]string{"e": "123456789"})
	m.Put("f", "1234567890")
	check("one that is too heavy", map[string]string{"f": "1234567890"})
	m.Clear()
	m.Delete("f")
	m.Put("g", "1234")
	m.Put("h", "1234")
	check("all were removed", map[string]string{"g": "1234", "h": "1234"})
	all := m.Clone()
	m.Put("g", "")
	if len(all) != 2 || all["g"] != "1234" {
		t.Fatalf("a copy has changed: %v", all)
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
