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

	maxTileLevel = 63 // from c2sp.org/tlog-tiles
	maxTilePath  = 64 // bytes; the longest path with an index up to 2⁶⁰ has 54
)

var errTilePath = fmt.Errorf("%w tile path", ErrMalformed)

// Tile identifies a tile of hashes or an entry bundle.
type Tile struct {
	Level int   // 0 to 63, or Entries
	Index int64 // in its level
	Width int   // hashes or entries, 1 to 256
}

// Path returns the canonical path of the tile below a log's prefix.
func (t Tile) Path() string {
	return torchwood.TilePath(tlog.Tile{H: torchwood.TileHeight, L: t.Level, N: t.Index, W: t.Width})
}

// ParseTilePath parses a canonical path. Errors wrap ErrMalformed.
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

// Within reports whether a tree of size leaves has every hash or entry of the tile. A log MUST NOT
// serve any other tile.
func (t Tile) Within(size int64) bool {
	_, to := t.Range()
	return t.Index >= 0 && t.Index <= maxSize/TileWidth && t.Width >= 1 && t.Width <= TileWidth && to <= size>>(8*max(0, t.Level))
}

// Range returns the indices [from, to) of the tile's hashes in level 8·Level of the tree, or of a
// bundle's leaves.
func (t Tile) Range() (from, to int64) {
	from = t.Index * TileWidth
	return from, from + int64(t.Width)
}

// ReadTile returns the content of a tile of hashes, 32 bytes each. It reads these hashes and no
// others. It returns an error for an entry bundle, and for a tile that is not [Tile.Within] size.
func ReadTile(ctx context.Context, r Reader, t Tile, size int64) ([]byte, error) {
	if t.Level < 0 || size > maxProvable || !t.Within(size) {
		return nil, fmt.Errorf("tlog: %s is outside a tree of %d", t.Path(), size)
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
