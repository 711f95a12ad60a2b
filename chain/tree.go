package chain

import (
	"errors"
	"math/bits"
	"slices"

	"attestd/chain/tlog"
)

// tree is an append-only Merkle tree. It stores only its frontier: one hash for each set bit of its
// length.
type tree struct {
	length   int64
	frontier []Hash // largest subtree first
}

// treeAt returns the tree of a head in memory of its own. An inconsistent head is an error, because
// an extension would hide the change.
func treeAt(h Head) (tree, error) {
	if h.Length < 0 || len(h.Frontier) != bits.OnesCount64(uint64(h.Length)) {
		return tree{}, errors.New("frontier does not match the length")
	}
	t := tree{h.Length, h.Frontier}.clone()
	if t.root() != h.Root {
		return tree{}, errors.New("frontier does not match the root")
	}
	return t, nil
}

// clone returns a copy with capacity for the levels that a batch may add, so that appends to it
// rarely allocate.
func (t tree) clone() tree {
	frontier := make([]Hash, len(t.frontier), len(t.frontier)+8)
	copy(frontier, t.frontier)
	return tree{t.length, frontier}
}

// is reports whether t is the tree of h.
func (t tree) is(h Head) bool { return t.length == h.Length && slices.Equal(t.frontier, h.Frontier) }

// append adds a leaf, with one node hash on average and at most log₂ n. It appends the completed
// nodes of stored levels, the lowest first.
func (t *tree) append(leaf Hash, completed []Node) []Node {
	subtree := leaf
	for level := 0; ; level++ {
		if tlog.Stored(level) { // the log tree has the same stored levels
			completed = append(completed, Node{Level: level, Index: t.length >> level, Hash: subtree})
		}
		if t.length>>level&1 == 0 {
			break
		}
		last := len(t.frontier) - 1
		subtree = nodeHash(&t.frontier[last], &subtree)
		t.frontier = t.frontier[:last]
	}
	t.frontier = append(t.frontier, subtree)
	t.length++
	return completed
}

// root computes one node hash less than the length has set bits.
func (t tree) root() Hash { return join(t.frontier) }

// join returns the root over adjacent subtrees of decreasing size.
func join(subtrees []Hash) Hash {
	last := len(subtrees) - 1
	if last < 0 {
		return emptyRoot
	}
	root := subtrees[last]
	for i := last - 1; i >= 0; i-- {
		root = nodeHash(&subtrees[i], &root)
	}
	return root
}
