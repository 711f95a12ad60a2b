package tlog

import (
	"errors"
	"fmt"
)

// topStored is the highest level whose nodes are stored.
const topStored = 32

// Stored reports whether the roots of the perfect subtrees of a level above the leaves are stored:
// those of every eighth, so that 256 of one are enough for any between it and the next.
func Stored(level int) bool { return level%8 == 0 && level > 0 && level <= topStored }

// Subtrees gives the roots of the perfect subtrees of a tree of which the leaves and the nodes of
// [Stored] levels can be read, whatever its node hash. It serves one call, and remembers the ranges
// that it has read.
type Subtrees[Hash any] struct {
	Size int64 // of the tree
	// leaf hashes (level 0) or stored nodes of [from, to); nobody changes the slice
	Read func(level int, from, to int64) ([]Hash, error)
	Node func(left, right *Hash) Hash

	ranges map[[2]int64][]Hash // by level and number, 256 hashes each
}

// Root returns the root of the perfect subtree over the leaves [index<<level, (index+1)<<level),
// from at most 256 hashes of the next stored level below.
func (s *Subtrees[Hash]) Root(level int, index int64) (root Hash, err error) {
	base := min(level&^7, topStored)
	first, count := index<<(level-base), int64(1)<<(level-base)
	if count > TileWidth {
		return root, errors.New("level beyond those stored")
	}
	hashes, err := s.around(base, first)
	if err != nil {
		return root, err
	}
	place := first % TileWidth
	if count == 1 {
		return hashes[place], nil
	}
	row := append([]Hash(nil), hashes[place:place+count]...)
	for ; len(row) > 1; row = row[:len(row)/2] {
		for i := range len(row) / 2 {
			row[i] = s.Node(&row[2*i], &row[2*i+1])
		}
	}
	return row[0], nil
}

// around returns the 256 hashes of a stored level among which index is, or as many as there are at
// the end of the tree.
func (s *Subtrees[Hash]) around(level int, index int64) ([]Hash, error) {
	key := [2]int64{int64(level), index / TileWidth}
	if hashes, ok := s.ranges[key]; ok {
		return hashes, nil
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
	if s.ranges == nil {
		s.ranges = make(map[[2]int64][]Hash)
	}
	s.ranges[key] = hashes
	return hashes, nil
}
