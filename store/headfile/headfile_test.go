package headfile

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"attestd/internal/must"
	"attestd/internal/testenv"
)

// head returns a state of a log that differs from every other in all fields.
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
	must.OK(t, f.Each(func(h *Head) error {
		found[h.Chain] = *h
		return nil
	}))
	return found
}

// States that were created or updated are found when the file is opened again, for both logs of
// companies with small and large numbers.
func TestHeadsAreKept(t *testing.T) {
	t.Parallel()
	path, id := filepath.Join(t.TempDir(), "heads"), ID{1, 2, 3}
	f, err := Create(path, id, []Head{head(1, 1), head(-1, 2), head(700, 3)}, nil)
	must.OK(t, err)
	for n := byte(10); n < 20; n++ {
		for _, chain := range []int64{1, -2, -700, 701} {
			must.OK(t, f.Update(chain, func(h *Head) { *h = head(chain, n) }))
		}
	}
	must.OK(t, errors.Join(f.Sync(), f.Close()))
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

// A write that is interrupted after any byte leaves the old or the new state, and the next write is
// found.
func TestTornWrites(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	path, id := filepath.Join(t.TempDir(), "heads"), ID{1}
	f, err := Create(path, id, []Head{head(1, 1)}, nil)
	must.OK(t, err)
	defer f.Close()
	for n := byte(2); n < 4; n++ { // one write to each of the two slots
		before, err := os.ReadFile(path)
		must.OK(t, err)
		must.OK(t, f.Update(1, func(h *Head) { *h = head(1, n) }))
		after, err := os.ReadFile(path)
		must.OK(t, err)
		before = append(before, make([]byte, len(after)-len(before))...)
		for end := range len(after) + 1 {
			torn := append(bytes.Clone(after[:end]), before[end:]...)
			must.OK(t, os.WriteFile(path, torn, 0o600))
			if h := all(t, f)[1]; h != head(1, n) && h != head(1, n-1) {
				t.Fatalf("torn at %d: %+v", end, h)
			}
			must.OK(t, f.Update(1, func(h *Head) { *h = head(1, 100) }))
			if h := all(t, f)[1]; h != head(1, 100) {
				t.Fatalf("written after a write that was torn at %d: %+v", end, h)
			}
		}
		must.OK(t, os.WriteFile(path, after, 0o600))
	}
}

// An update without a change writes nothing.
func TestUpdateOfTheSame(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "heads")
	f, err := Create(path, ID{}, []Head{head(-3, 1)}, nil)
	must.OK(t, err)
	defer f.Close()
	before, err := os.ReadFile(path)
	must.OK(t, err)
	must.OK(t, f.Update(-3, func(h *Head) { *h = head(-3, 1) }))
	after, err := os.ReadFile(path)
	must.OK(t, err)
	if !bytes.Equal(before, after) {
		t.Error("the file has changed")
	}
}

// Each chain has its own place in both formats, and no two chains share one.
func TestPlaces(t *testing.T) {
	t.Parallel()
	for _, of := range []form{first, second, newest} {
		for _, chain := range []int64{1, -1, 2, -2, 3, -700, 8388607, -8388607} {
			if at := of.place(chain); of.chainAt(at) != chain || at%slotSize != 0 || at < slotSize {
				t.Errorf("form %c: chain %d stands at %d, where chain %d does", of, chain, at, of.chainAt(at))
			}
		}
	}
	if at := newest.placeOf(2, 700); newest.chainAt(at) != 0 {
		t.Errorf("a log of others stands where chain %d does", newest.chainAt(at))
	}
}

func cosigned(origin, n byte) Cosigned {
	return Cosigned{Origin: [32]byte{origin}, Size: int64(n), Root: [32]byte{n, 1}}
}

func allCosigned(t *testing.T, f *File) map[[32]byte]Cosigned {
	t.Helper()
	found := map[[32]byte]Cosigned{}
	must.OK(t, f.EachCosigned(func(c Cosigned) error {
		found[c.Origin] = c
		return nil
	}))
	return found
}

// The cosigned trees of other logs are stored with the heads of chains, from the creation of the
// file on, after it, and across a torn write.
func TestCosignedLogsAreKept(t *testing.T) {
	t.Parallel()
	path, id := filepath.Join(t.TempDir(), "heads"), ID{1}
	f, err := Create(path, id, []Head{head(1, 1), head(-2, 2)}, []Cosigned{cosigned(1, 1), cosigned(2, 2)})
	must.OK(t, err)
	for n := byte(3); n < 6; n++ {
		must.OK(t, errors.Join(f.Cosigned(cosigned(2, n)), f.Cosigned(cosigned(3, n)), f.Update(3, func(h *Head) { *h = head(3, n) })))
	}
	must.OK(t, f.Close())
	f, err = Open(path, id)
	must.OK(t, err)
	defer f.Close()
	must.OK(t, f.Cosigned(cosigned(4, 9)))
	want := map[[32]byte]Cosigned{}
	for _, c := range []Cosigned{cosigned(1, 1), cosigned(2, 5), cosigned(3, 5), cosigned(4, 9)} {
		want[c.Origin] = c
	}
	if have := allCosigned(t, f); !maps.Equal(have, want) {
		t.Errorf("cosigned: %+v", have)
	}
	if have := all(t, f); len(have) != 3 || have[3] != head(3, 5) || have[-2] != head(-2, 2) {
		t.Errorf("heads: %+v", have)
	}
	before, err := os.ReadFile(path)
	must.OK(t, err)
	must.OK(t, f.Cosigned(cosigned(4, 10)))
	after, err := os.ReadFile(path)
	must.OK(t, err)
	before = append(before, make([]byte, len(after)-len(before))...)
	for end := range len(after) + 1 {
		if end > 0 && before[end-1] == after[end-1] {
			continue // the same bytes as in the previous case
		}
		must.OK(t, os.WriteFile(path, append(bytes.Clone(after[:end]), before[end:]...), 0o600))
		if c := allCosigned(t, f)[[32]byte{4}]; c != cosigned(4, 9) && c != cosigned(4, 10) {
			t.Fatalf("torn at %d: %+v", end, c)
		}
	}
}

// A file of the first format is read and updated in that format, which has no place for cosigned
// trees.
func TestFirstHeadFileFormatIsRead(t *testing.T) {
	t.Parallel()
	path, id := filepath.Join(t.TempDir(), "heads"), ID{1}
	old, err := create(path, id, first, []Head{head(1, 1), head(-1, 2), head(2, 3)}, nil)
	must.OK(t, err)
	must.OK(t, old.Close())
	f, err := Open(path, id)
	must.OK(t, err)
	defer f.Close()
	must.OK(t, f.Update(-1, func(h *Head) { *h = head(-1, 7) }))
	if have := all(t, f); f.HasCosigned() || len(have) != 3 || have[1] != head(1, 1) || have[-1] != head(-1, 7) || have[2] != head(2, 3) {
		t.Errorf("heads: %+v", have)
	}
	if len(allCosigned(t, f)) != 0 || f.Cosigned(cosigned(1, 1)) == nil {
		t.Error("it has a place for what was cosigned")
	}
}
