package tlog

import "fmt"

// topStored is the highest level with stored nodes.
const topStored = 32

// Stored reports whether the nodes of a level are stored: those of every eighth level above the
// leaves. So 256 nodes of one stored level are enough for any node below the next.
func Stored(level int) bool { return level%8 == 0 && level > 0 && level <= topStored }

// Subtrees computes the roots of perfect subtrees from leaf hashes and the nodes of [Stored]
// levels, for any type and function of node hashes. It caches the ranges that it has read, so it
// MUST NOT outlive the call that made it.
type Subtrees[Hash any] struct {
	Size int64 // leaves of the tree
	// Read returns the leaf hashes (level 0) or stored nodes with index in [from, to).
	Read func(level int, from, to int64) ([]Hash, error)
	Node func(left, right *Hash) Hash // the hash of an inner node

	ranges map[[2]int64][]Hash // 256 hashes each, by level and index / 256
}

// Root returns the root of the perfect subtree over the leaves [index<<level, (index+1)<<level),
// from at most 256 hashes of the next stored level below. It returns an error above level 40.
func (s *Subtrees[Hash]) Root(level int, index int64) (root Hash, err error) {
	base := min(level&^7, topStored)
	first, count := index<<(level-base), int64(1)<<(level-base)
	if count > TileWidth {
		return root, fmt.Errorf("level %d is too far above those stored", level)
	}
	hashes, err := s.rangeOf(base, first)
	if err != nil {
		return root, err
	}
	offset := first % TileWidth
	if count == 1 {
		return hashes[offset], nil
	}
	row := append([]Hash(nil), hashes[offset:offset+count]...)
	for ; len(row) > 1; row = row[:len(row)/2] {
		for i := range len(row) / 2 {
			row[i] = s.Node(&row[2*i], &row[2*i+1])
		}
	}
	return row[0], nil
}

// rangeOf returns the aligned range of 256 hashes of a stored level that holds index. At the end of
// the tree the range is shorter.
func (s *Subtrees[Hash]) rangeOf(level int, index int64) ([]Hash, error) {
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
