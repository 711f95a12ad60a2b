package tlog

import (
	"fmt"
	"math/bits"

	"golang.org/x/mod/sumdb/tlog"
)

// Frontier is a tree that grows. Roots are those of the perfect subtrees that make it up, one for
// each set bit of Size, the largest first. A Frontier is a value: nobody changes Roots in place.
// The zero Frontier is the tree without leaves.
type Frontier struct {
	Size  int64
	Roots []Hash
}

// Check returns an error unless f fits its own size and gives root. What comes from disk is checked
// before it is built on, for to build on it would hide that it was changed; the other methods
// demand a frontier that fits.
func (f Frontier) Check(root Hash) error {
	if f.Size < 0 || len(f.Roots) != bits.OnesCount64(uint64(f.Size)) {
		return fmt.Errorf("tlog: a frontier of %d hashes does not fit a tree of %d", len(f.Roots), f.Size)
	}
	if f.Root() != root {
		return fmt.Errorf("tlog: the frontier does not give the root of the tree of %d", f.Size)
	}
	return nil
}

// Root costs one node hash for each set bit of the size but the first.
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

// Tree is the size and the root.
func (f Frontier) Tree() Tree { return Tree{f.Size, f.Root()} }

// Append returns the tree with more leaves, given as their hashes, and the nodes to be stored that
// they complete, in the order in which they are completed, lower ones first. It copies the frontier
// once, and computes one node hash a leaf on average.
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
