package tlog

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"
)

const (
	// TileWidth is the number of hashes of a full tile, and of leaves of a full entry bundle.
	TileWidth = 256

	// Entries is the level of an entry bundle.
	Entries = -1

	maxTileLevel = 63 // of c2sp.org/tlog-tiles
	maxTilePath  = 64 // bytes; the longest with an index of 2⁶⁰ has 54
)

// Tile names a tile or an entry bundle: its level (0 to 63, or Entries), its number in the level,
// and its width, 1 to 256.
type Tile struct {
	Level int
	Index int64
	Width int
}

// Path is the canonical path below a log's prefix.
func (t Tile) Path() string {
	level := "entries"
	if t.Level != Entries {
		level = strconv.Itoa(t.Level)
	}
	number := fmt.Sprintf("%03d", t.Index%1000)
	for n := t.Index / 1000; n > 0; n /= 1000 {
		number = fmt.Sprintf("x%03d/%s", n%1000, number)
	}
	if t.Width < TileWidth {
		return fmt.Sprintf("tile/%s/%s.p/%d", level, number, t.Width)
	}
	return "tile/" + level + "/" + number
}

// ParseTilePath reads a canonical path and refuses all others with an error that wraps
// ErrMalformed.
func ParseTilePath(path string) (Tile, error) {
	malformed := fmt.Errorf("%w: tile path", ErrMalformed)
	parts := strings.SplitN(path, "/", 3)
	if len(path) > maxTilePath || len(parts) != 3 {
		return Tile{}, malformed
	}
	t := Tile{Level: Entries, Width: TileWidth}
	if parts[1] != "entries" {
		level, ok := parseDecimal(parts[1])
		if !ok || level > maxTileLevel {
			return Tile{}, malformed
		}
		t.Level = int(level)
	}
	number, width, partial := strings.Cut(parts[2], ".p/")
	if partial {
		w, ok := parseDecimal(width)
		if !ok || w < 1 || w >= TileWidth {
			return Tile{}, malformed
		}
		t.Width = int(w)
	}
	var err error
	t.Index, err = strconv.ParseInt(strings.NewReplacer("x", "", "/", "").Replace(number), 10, 64)
	if err != nil || t.Index < 0 || t.Index > maxSize || t.Path() != path {
		return Tile{}, malformed
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

// AppendEntry appends an entry to a bundle. An entry has at most 65,535 bytes.
func AppendEntry(bundle, entry []byte) ([]byte, error) {
	if len(entry) > math.MaxUint16 {
		return nil, fmt.Errorf("tlog: an entry of %d bytes", len(entry))
	}
	bundle = binary.BigEndian.AppendUint16(bundle, uint16(len(entry)))
	return append(bundle, entry...), nil
}

// ParseBundle splits a bundle into its entries, of which there must be exactly width. The entries
// share the memory of bundle.
func ParseBundle(bundle []byte, width int) ([][]byte, error) {
	var entries [][]byte
	for len(bundle) >= 2 && len(entries) < width {
		length := int(binary.BigEndian.Uint16(bundle))
		if length > len(bundle)-2 {
			break
		}
		entries = append(entries, bundle[2:2+length:2+length])
		bundle = bundle[2+length:]
	}
	if len(bundle) > 0 || len(entries) != width {
		return nil, fmt.Errorf("%w: entry bundle", ErrMalformed)
	}
	return entries, nil
}
