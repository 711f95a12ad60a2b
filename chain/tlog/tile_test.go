package tlog_test

import (
	"bytes"
	"errors"
	"testing"

	"attestd/chain/tlog"
)

func TestTilePath(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]tlog.Tile{
		"tile/0/000":                               {Level: 0, Index: 0, Width: 256},
		"tile/0/x001/x234/067":                     {Level: 0, Index: 1234067, Width: 256},
		"tile/0/273.p/112":                         {Level: 0, Index: 273, Width: 112},
		"tile/2/000.p/1":                           {Level: 2, Index: 0, Width: 1},
		"tile/63/999.p/255":                        {Level: 63, Index: 999, Width: 255},
		"tile/1/x001/000":                          {Level: 1, Index: 1000, Width: 256},
		"tile/entries/x123/456":                    {Level: tlog.Entries, Index: 123456, Width: 256},
		"tile/entries/000.p/7":                     {Level: tlog.Entries, Index: 0, Width: 7},
		"tile/0/x001/x152/x921/x504/x606/x846/976": {Level: 0, Index: 1 << 60, Width: 256},
	} {
		tile, err := tlog.ParseTilePath(path)
		if err != nil || tile != want {
			t.Errorf("%s: %v, %v", path, tile, err)
		}
		if got := want.Path(); got != path {
			t.Errorf("%v: %s, want %s", want, got, path)
		}
	}
}

// Paths in any other than the canonical form are refused.
func TestTilePathRefused(t *testing.T) {
	t.Parallel()
	for _, path := range []string{
		"", "tile", "tile/", "tile/0", "tile/0/", "tile//000", "/tile/0/000", "tile/0/000/", "tiles/0/000", "Tile/0/000",
		"tile/00/000", "tile/01/000", "tile/-1/000", "tile/+1/000", "tile/64/000", "tile/256/000", "tile/data/000", "tile/8/0/000",
		"tile/0/0", "tile/0/00", "tile/0/0000", "tile/0/1000", "tile/0/001000", "tile/0/x000/001", "tile/0/001/000", "tile/0/x001/x000",
		"tile/0/x01/000", "tile/0/x0001/000", "tile/0/X001/000", "tile/0/xx001/000", "tile/0/x001//000", "tile/0/-01", "tile/0/+01",
		"tile/0/000.p", "tile/0/000.p/", "tile/0/000.p/0", "tile/0/000.p/00", "tile/0/000.p/01", "tile/0/000.p/256", "tile/0/000.p/257",
		"tile/0/000.p/-1", "tile/0/000.p/+1", "tile/0/000.p/1/", "tile/0/000.p/1.p/1", "tile/0/000.P/1", "tile/0/000.p/x", "tile/0/.p/1",
		"tile/Entries/000", "tile/entries", "tile/entries/", "tile/entries/0", "tile/entries/000.p/256", "tile/entries/000.p/0",
		"tile/0/000 ", " tile/0/000", "tile/0/000\n", "tile/0/٠٠٠", "tile/0/0x0", "tile/0/1e3",
		"tile/0/x001/x152/x921/x504/x606/x846/977", "tile/0/x009/x223/x372/x036/x854/x775/808", "tile/0/x999/x999/x999/x999/x999/x999/x999/999",
	} {
		if tile, err := tlog.ParseTilePath(path); !errors.Is(err, tlog.ErrMalformed) {
			t.Errorf("%q is accepted as %v: %v", path, tile, err)
		}
	}
}

// At every level and width a tile has the hashes of RFC 6962, reads no more hashes than its width,
// and is refused beyond the size.
func TestReadTile(t *testing.T) {
	t.Parallel()
	const size = 65536 + 512 + 17
	g := grow(size)
	for level, hashes := range map[int]int64{0: size, 1: size >> 8, 2: size >> 16, 3: 0, 5: 0, 63: 0} {
		for index := range hashes/256 + 2 {
			for _, width := range []int{1, 2, 17, 255, 256} {
				tile := tlog.Tile{Level: level, Index: index, Width: width}
				from, to := tile.Range()
				clear(g.read)
				data, err := tlog.ReadTile(t.Context(), g, tile, size)
				if within := to <= hashes; tile.Within(size) != within || (err == nil) != within {
					t.Fatalf("%s in a tree of %d hashes of its level: %v", tile.Path(), hashes, err)
				}
				if err != nil {
					continue
				}
				if len(data) != 32*width || g.read[8*level] != width || len(g.read) != 1 {
					t.Fatalf("%s: %d bytes, read %v", tile.Path(), len(data), g.read)
				}
				for i := from; i < to; i++ {
					want := g.leaves[min(i, size-1)]
					if level > 0 {
						want = g.nodes[[2]int64{int64(8 * level), i}]
					}
					if !bytes.Equal(data[32*(i-from):32*(i-from+1)], want[:]) {
						t.Fatalf("%s: hash %d differs", tile.Path(), i)
					}
				}
			}
		}
	}
	for _, tile := range []tlog.Tile{
		{Level: tlog.Entries, Width: 1}, {Level: -2, Width: 1}, {Index: -1, Width: 1}, {Index: -1, Width: 256}, {Width: 0}, {Width: -1},
		{Width: 257}, {Index: 1 << 55, Width: 1}, {Index: 1<<63 - 1, Width: 256}, {Level: 63, Index: 1 << 52, Width: 1},
	} {
		if _, err := tlog.ReadTile(t.Context(), g, tile, size); err == nil || tile.Level >= 0 && tile.Within(size) {
			t.Errorf("%+v was read, or is reported as present", tile)
		}
	}
	g.leaves = g.leaves[:100]
	if _, err := tlog.ReadTile(t.Context(), g, tlog.Tile{Width: 256}, size); !errors.Is(err, errMissing) {
		t.Errorf("tile over missing leaves: %v", err)
	}
}

// The example of the standard: a tree of 70,000.
func TestTilesExampleOfStandard(t *testing.T) {
	t.Parallel()
	within := func(level int, index int64, width int) bool {
		return tlog.Tile{Level: level, Index: index, Width: width}.Within(70_000)
	}
	if !within(0, 272, 256) || !within(0, 273, 112) || within(0, 273, 113) || !within(1, 0, 256) || !within(1, 1, 17) || within(1, 1, 18) ||
		!within(2, 0, 1) || within(2, 0, 2) || within(3, 0, 1) || !within(tlog.Entries, 273, 112) || within(tlog.Entries, 273, 113) {
		t.Error("not the tiles of c2sp.org/tlog-tiles")
	}
}

// ParseTilePath accepts exactly the grammar, and Path restores the input.
func FuzzTilePath(f *testing.F) {
	for _, path := range []string{"tile/0/000", "tile/entries/x001/x234/067.p/9", "tile/63/000.p/255", "tile/data/000", "tile/0/x001/x152/x921/x504/x606/x846/976"} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		tile, err := tlog.ParseTilePath(path)
		if (err == nil) != isTilePath(path) || err == nil && tile.Path() != path {
			t.Errorf("%q is read as %+v: %v", path, tile, err)
		}
	})
}
