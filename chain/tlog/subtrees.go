package tlog

import (
	"fmt"

	"attestd/internal/bounded"
)

// topStored is the highest level with stored nodes.
const topStored = 32

// Stored reports whether the nodes of a level are stored: those of every eighth level above the
// leaves. So 256 nodes of one stored level are enough for any node below the next.
func Stored(level int) bool { return level%8 == 0 && level > 0 && level <= topStored }

// Subtrees computes the roots of perfect subtrees from leaf hashes and the nodes of [Stored]
// levels, for any type and function of node hashes. It caches some of the ranges that it has
// read, and what it has computed of them, so it MUST NOT outlive the call that made it.
type Subtrees[Hash any] struct {
	Size int64 // leaves of the tree
	// Read returns the leaf hashes (level 0) or stored nodes with index in [from, to).
	Read func(level int, from, to int64) ([]Hash, error)
	Node func(left, right *Hash) Hash // the hash of an inner node

	// by level and index / 256; the first row has 256 hashes, each further one half
	ranges *bounded.Map[[2]int64, [][]Hash]
}

// maxRanges is how many ranges are cached, of at most 16 KiB each.
const maxRanges = 128

// Root returns the root of the perfect subtree over the leaves [index<<level, (index+1)<<level),
// from at most 256 hashes of the next stored level below. It returns an error above level 40.
func (s *Subtrees[Hash]) Root(level int, index int64) (root Hash, err error) {
	base := min(level&^7, topStored)
	first, count := index<<(level-base), int64(1)<<(level-base)
	if count > TileWidth {
		return root, fmt.Errorf("level %d is too far above those stored", level)
	}
	rows, err := s.rangeOf(base, first)
	if err != nil {
		return root, err
	}
	place := (first % TileWidth) >> (level - base)
	if row := rows[level-base]; place < int64(len(row)) {
		return row[place], nil
	}
	return root, fmt.Errorf("no perfect subtree %d of level %d in a tree of %d", index, level, s.Size)
}

// rangeOf returns the aligned range of 256 hashes of a stored level that holds index, and the rows
// of nodes above it, up to the next stored level. At the end of the tree the range is shorter.
func (s *Subtrees[Hash]) rangeOf(level int, index int64) ([][]Hash, error) {
	key := [2]int64{int64(level), index / TileWidth}
	if rows, ok := s.ranges.Get(key); ok {
		return rows, nil
	}
	from := index &^ (TileWidth - 1)
	to := min(from+TileWidth, s.Size>>level)
	hashes, err := s.Read(level, from, to)
	if err != nil {
		return nil, err
	}
	if int64(len(hashes)) != to-from {
		return nil, fmt.Errorf("%d of %d hashes at level %d", len(hashes), to-from, level)
	}
	rows := [][]Hash{hashes}
	for row := hashes; len(rows) <= 8; rows = append(rows, row) {
		above := make([]Hash, len(row)/2)
		for i := range above {
			above[i] = s.Node(&row[2*i], &row[2*i+1])
		}
		row = above
	}
	if s.ranges == nil {
		s.ranges = bounded.NewMap[[2]int64, [][]Hash](maxRanges)
	}
	s.ranges.Put(key, rows)
	return rows, nil
}
