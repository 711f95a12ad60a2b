package tlog

import (
	"context"
	"fmt"

	"filippo.io/torchwood"
	"golang.org/x/mod/sumdb/tlog"
)

const (
	// TileWidth is the number of hashes of a full tile, and of leaves of a full entry bundle.
	TileWidth = 256

	// Entries is the level of an entry bundle.
	Entries = -1

	maxTileLevel = 63 // of c2sp.org/tlog-tiles
	maxTilePath  = 64 // bytes; the longest with an index of 2⁶⁰ has 54
)

var errTilePath = fmt.Errorf("%w: tile path", ErrMalformed)

// Tile names a tile or an entry bundle: its level (0 to 63, or Entries), its number in the level,
// and its width, 1 to 256.
type Tile struct {
	Level int
	Index int64
	Width int
}

// Path is the canonical path below a log's prefix.
func (t Tile) Path() string {
	return torchwood.TilePath(tlog.Tile{H: torchwood.TileHeight, L: t.Level, N: t.Index, W: t.Width})
}

// ParseTilePath reads a canonical path and refuses all others with an error that wraps
// ErrMalformed.
func ParseTilePath(path string) (Tile, error) {
	if len(path) > maxTilePath {
		return Tile{}, errTilePath
	}
	read, err := torchwood.ParseTilePath(path)
	t := Tile{read.L, read.N, read.W}
	// torchwood accepts tile/data of Go's checksum database too; Path writes tile/entries
	if err != nil || t.Level > maxTileLevel || t.Index > maxSize || t.Path() != path {
		return Tile{}, errTilePath
	}
	return t, nil
}

// Within reports whether a tree of size has everything that the tile holds. What is not within it
// is not served.
func (t Tile) Within(size int64) bool {
	_, to := t.Range()
	return t.Index >= 0 && t.Index <= maxSize/TileWidth && t.Width >= 1 && t.Width <= TileWidth && to <= size>>(8*max(0, t.Level))
}

// Range returns the numbers [from, to) of the tile's hashes in the level 8·Level of the tree; those
// of the leaves in a bundle.
func (t Tile) Range() (from, to int64) {
	from = t.Index * TileWidth
	return from, from + int64(t.Width)
}

// ReadTile returns the content of a tile of hashes that is within size. It reads the Width hashes
// of the tile and no others.
func ReadTile(ctx context.Context, r Reader, t Tile, size int64) ([]byte, error) {
	if t.Level < 0 || size > maxProvable || !t.Within(size) {
		return nil, fmt.Errorf("tlog: no %s in a tree of %d", t.Path(), size)
	}
	from, to := t.Range()
	level := 8 * t.Level
	s := newSubtrees(ctx, r, to<<level)
	data := make([]byte, 0, t.Width*len(Hash{}))
	for i := from; i < to; i++ {
		hash, err := s.Root(level, i)
		if err != nil {
			return nil, fmt.Errorf("tlog: %s: %w", t.Path(), err)
		}
		data = append(data, hash[:]...)
	}
	return data, nil
}
