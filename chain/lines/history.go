package lines

import (
	"slices"

	"attestd/chain/tlog"
)

const (
	// remembered is how many records may come again.
	remembered = 1 << 18
	// every so many records the frontier is remembered
	snapshotEvery = 1 << 10
)

// history has the leaves of the last records of a log, so that records that come again are compared
// with them, and frontiers among them.
type history struct {
	base      int64 // index of leaves[0]
	leaves    []tlog.Hash
	snapshots []tlog.Frontier // ascending
}

// end returns the index after the last leaf.
func (h *history) end() int64 { return h.base + int64(len(h.leaves)) }

// add appends the leaf of the record with index end.
func (h *history) add(leaf tlog.Hash) {
	if len(h.leaves) >= remembered+remembered/4 {
		drop := len(h.leaves) - remembered
		h.base += int64(drop)
		h.leaves = append(h.leaves[:0], h.leaves[drop:]...)
		h.snapshots = slices.DeleteFunc(h.snapshots, func(f tlog.Frontier) bool { return f.Size < h.base })
	}
	h.leaves = append(h.leaves, leaf)
}

// snapshot remembers the frontier of a size.
func (h *history) snapshot(f tlog.Frontier) {
	if n := len(h.snapshots); n == 0 || h.snapshots[n-1].Size < f.Size {
		h.snapshots = append(h.snapshots, f)
	}
}

// leaf returns the leaf of a record before end.
func (h *history) leaf(index int64) (leaf tlog.Hash, ok bool) {
	if index < h.base || index >= h.end() {
		return leaf, false
	}
	return h.leaves[index-h.base], true
}

// at returns the frontier of the first size records, size from base to end.
func (h *history) at(size int64) (f tlog.Frontier, ok bool) {
	for _, s := range slices.Backward(h.snapshots) {
		if s.Size >= h.base && s.Size <= size {
			f, _ = s.Append(h.leaves[s.Size-h.base : size-h.base]...)
			return f, true
		}
	}
	return f, false
}
