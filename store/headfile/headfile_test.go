package headfile

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// head is a state of a log that differs in everything from every other.
func head(chain int64, n byte) Head {
	h := Head{Chain: chain, Revocations: int64(n) + 1, Tree: Tree{Size: int64(n) + 2}, Checkpoint: Checkpoint{Size: int64(n) + 3}}
	for _, part := range [][]byte{h.LogID[:], h.Root[:], h.LogRoot[:], h.Checkpoint.Root[:], h.Checkpoint.Signature[:]} {
		for i := range part {
			part[i] = n + byte(i) + byte(len(part))
		}
	}
	return h
}

func all(t *testing.T, f *File) map[int64]Head {
	t.Helper()
	found := map[int64]Head{}
	must(t, f.Each(func(h *Head) error {
		found[h.Chain] = *h
		return nil
	}))
	return found
}

// What was created or updated is there when the file is opened again, for both logs of companies near and far.
func TestHeadsAreKept(t *testing.T) {
	t.Parallel()
	path, id := filepath.Join(t.TempDir(), "heads"), ID{1, 2, 3}
	f, err := Create(path, id, []Head{head(1, 1), head(-1, 2), head(700, 3)})
	must(t, err)
	for n := byte(10); n < 20; n++ {
		for _, chain := range []int64{1, -2, -700, 701} {
			must(t, f.Update(chain, func(h *Head) { *h = head(chain, n) }))
		}
	}
	must(t, errors.Join(f.Sync(), f.Close()))
	if f, err = Open(path, id); err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	found := all(t, f)
	for chain, n := range map[int64]byte{1: 19, -1: 2, 700: 3, -2: 19, -700: 19, 701: 19} {
		if found[chain] != head(chain, n) {
			t.Errorf("chain %d: %+v", chain, found[chain])
		}
	}
	if len(found) != 6 {
		t.Errorf("found %d", len(found))
	}
	if _, err := Open(path, ID{1, 2, 4}); !errors.Is(err, ErrForeign) {
		t.Errorf("of another database: %v", err)
	}
	if _, err := Open(path+"-none", id); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of none: %v", err)
	}
}

// A write that ends after any of its bytes leaves the state before it or the new one, and the next write is found.
func TestTornWrites(t *testing.T) {
	t.Parallel()
	path, id := filepath.Join(t.TempDir(), "heads"), ID{1}
	f, err := Create(path, id, []Head{head(1, 1)})
	must(t, err)
	defer f.Close()
	for n := byte(2); n < 4; n++ { // one write to each of the two slots
		before, err := os.ReadFile(path)
		must(t, err)
		must(t, f.Update(1, func(h *Head) { *h = head(1, n) }))
		after, err := os.ReadFile(path)
		must(t, err)
		before = append(before, make([]byte, len(after)-len(before))...)
		for end := range len(after) + 1 {
			torn := append(bytes.Clone(after[:end]), before[end:]...)
			must(t, os.WriteFile(path, torn, 0o600))
			if h := all(t, f)[1]; h != head(1, n) && h != head(1, n-1) {
				t.Fatalf("torn at %d: %+v", end, h)
			}
			must(t, f.Update(1, func(h *Head) { *h = head(1, 100) }))
			if h := all(t, f)[1]; h != head(1, 100) {
				t.Fatalf("written after a write that was torn at %d: %+v", end, h)
			}
		}
		must(t, os.WriteFile(path, after, 0o600))
	}
}

// What changes nothing writes nothing.
func TestUpdateOfTheSame(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "heads")
	f, err := Create(path, ID{}, []Head{head(-3, 1)})
	must(t, err)
	defer f.Close()
	before, err := os.ReadFile(path)
	must(t, err)
	must(t, f.Update(-3, func(h *Head) { *h = head(-3, 1) }))
	after, err := os.ReadFile(path)
	must(t, err)
	if !bytes.Equal(before, after) {
		t.Error("the file has changed")
	}
}

// Each chain has a place of its own, and no two the same.
func TestPlaces(t *testing.T) {
	t.Parallel()
	for _, chain := range []int64{1, -1, 2, -2, 3, -700, 8388607, -8388607} {
		if at := place(chain); chainAt(at) != chain || at%slotSize != 0 || at < slotSize {
			t.Errorf("chain %d stands at %d, where chain %d does", chain, at, chainAt(at))
		}
	}
}
