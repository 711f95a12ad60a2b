package chain

import (
	"errors"
	"math/bits"
	"slices"

	"attestd/chain/tlog"
)

// tree is a Merkle tree that grows. It keeps only its frontier: one hash for each set bit of its
// length.
type tree struct {
	length   int64
	frontier []Hash // the largest subtree first
}

// treeAt returns the tree of a head, which it does not share memory with. A head that does not fit
// itself is an error: to build on it would hide that it was changed.
func treeAt(h Head) (tree, error) {
	if h.Length < 0 || len(h.Frontier) != bits.OnesCount64(uint64(h.Length)) {
		return tree{}, errors.New("frontier does not fit the length")
	}
	t := tree{h.Length, h.Frontier}.clone()
	if t.root() != h.Root {
		return tree{}, errors.New("frontier does not give the root")
	}
	return t, nil
}

// clone leaves room for as many more levels as a batch may add, so that appends to the copy rarely
// allocate.
func (t tree) clone() tree {
	frontier := make([]Hash, len(t.frontier), len(t.frontier)+8)
	copy(frontier, t.frontier)
	return tree{t.length, frontier}
}

// is reports whether t is the tree of h.
func (t tree) is(h Head) bool { return t.length == h.Length && slices.Equal(t.frontier, h.Frontier) }

// append adds a leaf, with one node hash on average and at most log₂ n. It appends the nodes to be
// stored that the leaf completes, the lowest first.
func (t *tree) append(leaf Hash, completed []Node) []Node {
	subtree := leaf
	for level := 0; ; level++ {
		if tlog.Stored(level) { // those of the log tree too, whose nodes stand in the same rows
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

// root costs one node hash for each set bit of the length but the first.
func (t tree) root() Hash { return join(t.frontier) }

// join returns the root over a run of subtrees, each smaller than the one before it.
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
