package tlog

import (
	"fmt"
	"math/bits"

	"golang.org/x/mod/sumdb/tlog"
)

// Frontier is all that an append to a tree needs: its size, in leaves, and the roots of the perfect
// subtrees that make it up. There is one root for each set bit of Size, the largest subtree first.
// A Frontier is a value: callers MUST NOT change Roots in place. The zero Frontier is the tree
// without leaves.
type Frontier struct {
	Size  int64
	Roots []Hash
}

// Check returns an error unless f has as many roots as its size demands, and they give root.
// Callers MUST check a frontier from disk before they use its other methods: to append to one that
// was changed would hide the change.
func (f Frontier) Check(root Hash) error {
	if f.Size < 0 || len(f.Roots) != bits.OnesCount64(uint64(f.Size)) {
		return fmt.Errorf("tlog: the frontier of a tree of %d has %d roots", f.Size, len(f.Roots))
	}
	if f.Root() != root {
		return fmt.Errorf("tlog: the frontier does not give the root of the tree of %d", f.Size)
	}
	return nil
}

// Root returns the root of the tree. It computes one node hash for each set bit of the size but the
// first.
func (f Frontier) Root() Hash {
	last := len(f.Roots) - 1
	if last < 0 {
		return EmptyRoot()
	}
	root := f.Roots[last]
	for i := last - 1; i >= 0; i-- {
		root = tlog.NodeHash(f.Roots[i], root)
	}
	return root
}

// Tree returns the size and the root.
func (f Frontier) Tree() Tree { return Tree{f.Size, f.Root()} }

// Append returns the frontier of the tree with more leaves, which are given as leaf hashes. It also
// returns the nodes to store that they complete, in the order of completion, lower levels first. It
// copies the frontier once, and computes one node hash for each leaf on average.
func (f Frontier) Append(leaves ...Hash) (Frontier, []Node) {
	roots := make([]Hash, len(f.Roots), len(f.Roots)+bits.Len(uint(len(leaves)))+1)
	copy(roots, f.Roots)
	var completed []Node
	size := f.Size
	for _, subtree := range leaves {
		for level := 0; ; level++ {
			if Stored(level) {
				completed = append(completed, Node{level, size >> level, subtree})
			}
			if size>>level&1 == 0 {
				break
			}
			last := len(roots) - 1
			subtree = tlog.NodeHash(roots[last], subtree)
			roots = roots[:last]
		}
		roots = append(roots, subtree)
		size++
	}
	return Frontier{size, roots}, completed
}
