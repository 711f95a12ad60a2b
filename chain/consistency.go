package chain

import (
	"context"
	"fmt"
	"math/bits"

	"attestd/chain/tlog"
)

// Consistency proves that the tree of the first From records is a prefix of the tree of the first
// To: the proof of RFC 6962 §2.1.2 with this tree's node hash, lowest node first. It is empty
// between equal sizes, and from an empty tree.
type Consistency struct {
	From, To         int64
	FromRoot, ToRoot Hash
	Proof            []Hash
}

// ProveConsistency builds the proof between two sizes, 0 ≤ from ≤ to ≤ head.Length. It reads at
// most 512 hashes of each stored level below log₂ n, or 256 if to is head.Length. It checks both
// roots against head.Root and returns an error on a mismatch.
func ProveConsistency(ctx context.Context, r Reader, chain, from, to int64, head Head) (Consistency, error) {
	if from < 0 || from > to || to > head.Length {
		return Consistency{}, fmt.Errorf("chain: no consistency from %d to %d in a tree of %d: %w", from, to, head.Length, errContradiction)
	}
	if _, err := treeAt(head); err != nil {
		return Consistency{}, fmt.Errorf("chain: head of chain %d: %w: %w", chain, errContradiction, err)
	}
	s := newSubtrees(ctx, r, chain, head)
	c, err := s.consistency(from, to)
	if err != nil {
		return Consistency{}, fmt.Errorf("chain: consistency from %d to %d: %w", from, to, err)
	}
	whole, err := s.consistency(to, head.Length)
	if err != nil {
		return Consistency{}, fmt.Errorf("chain: consistency from %d to %d: %w", to, head.Length, err)
	}
	// the new root of whole is that of the frontier, which gives head.Root
	if !c.Holds() || !whole.Holds() {
		return Consistency{}, fmt.Errorf("chain: hashes on disk do not lead from sizes %d and %d to the root: %w", from, to, errContradiction)
	}
	return c, nil
}

// Holds reports whether the proof leads to both roots (RFC 9162 §2.1.4.2). The caller MUST
// authenticate the roots.
func (c Consistency) Holds() bool {
	switch {
	case c.From < 0 || c.From > c.To:
		return false
	case c.From == 0 && c.FromRoot != emptyRoot:
		return false
	case c.From == c.To:
		return len(c.Proof) == 0 && c.FromRoot == c.ToRoot
	case c.From == 0:
		return len(c.Proof) == 0
	}
	// The walk starts at the largest perfect subtree that ends where the old tree ends. It is the
	// old tree when that is perfect itself.
	shift := bits.TrailingZeros64(uint64(c.From))
	from, to := (c.From-1)>>shift, (c.To-1)>>shift
	rest, old := c.Proof, c.FromRoot
	if from > 0 {
		if len(rest) == 0 {
			return false
		}
		old, rest = rest[0], rest[1:]
	}
	current := old
	for i := range rest {
		if to == 0 {
			return false
		}
		if from&1 == 1 || from == to {
			old, current = nodeHash(&rest[i], &old), nodeHash(&rest[i], &current)
			for from&1 == 0 && from > 0 {
				from, to = from>>1, to>>1
			}
		} else {
			current = nodeHash(&current, &rest[i])
		}
		from, to = from>>1, to>>1
	}
	return to == 0 && old == c.FromRoot && current == c.ToRoot
}

// subtrees computes roots of subtrees of a chain, for one proof.
type subtrees struct {
	tlog.Subtrees[Hash]
	head Head
}

func newSubtrees(ctx context.Context, r Reader, chain int64, head Head) *subtrees {
	read := func(level int, from, to int64) ([]Hash, error) { return readHashes(ctx, r, chain, level, from, to) }
	return &subtrees{tlog.Subtrees[Hash]{Size: head.Length, Read: read, Node: nodeHash}, head}
}

func (s *subtrees) consistency(from, to int64) (c Consistency, err error) {
	c = Consistency{From: from, To: to}
	if c.FromRoot, err = s.root(0, from); err != nil {
		return c, err
	}
	if c.ToRoot, err = s.root(0, to); err != nil {
		return c, err
	}
	if from > 0 {
		c.Proof, err = s.proof(from, 0, to)
	}
	return c, err
}

// proof is SUBPROOF of RFC 6962 §2.1.2 for the records [low, high), of which those below from
// belong to the old tree, at least one. The verifier knows the root of an old tree that starts at
// 0, so that is left out.
func (s *subtrees) proof(from, low, high int64) ([]Hash, error) {
	if from == high {
		if low == 0 {
			return nil, nil
		}
		root, err := s.root(low, high)
		return []Hash{root}, err
	}
	middle := low + 1<<(bits.Len64(uint64(high-low-1))-1)
	within, beside := [2]int64{low, middle}, [2]int64{middle, high}
	if from > middle {
		within, beside = beside, within
	}
	proof, err := s.proof(from, within[0], within[1])
	if err != nil {
		return nil, err
	}
	root, err := s.root(beside[0], beside[1])
	return append(proof, root), err
}

// path is PATH of RFC 6962 §2.1.1 for a record of [low, high).
func (s *subtrees) path(index, low, high int64) (Proof, error) {
	if high-low == 1 {
		return nil, nil
	}
	middle := low + 1<<(bits.Len64(uint64(high-low-1))-1)
	within, beside := [2]int64{low, middle}, [2]int64{middle, high}
	if index >= middle {
		within, beside = beside, within
	}
	proof, err := s.path(index, within[0], within[1])
	if err != nil {
		return nil, err
	}
	root, err := s.root(beside[0], beside[1])
	return append(proof, Step{Sibling: root, Left: index >= middle}), err
}

// root returns the root over the records [low, high), where low is a multiple of the largest power
// of two that fits in between.
func (s *subtrees) root(low, high int64) (Hash, error) {
	var perfect []Hash
	for low < high {
		level := bits.Len64(uint64(high-low)) - 1
		hash, err := s.perfect(level, low>>level)
		if err != nil {
			return Hash{}, err
		}
		perfect, low = append(perfect, hash), low+1<<level
	}
	return join(perfect), nil
}

// perfect returns the root of the perfect subtree over the records [index<<level,
// (index+1)<<level), from the frontier where that has it.
func (s *subtrees) perfect(level int, index int64) (Hash, error) {
	if n := s.head.Length >> level; n&1 == 1 && index == n-1 {
		return s.head.Frontier[bits.OnesCount64(uint64(n))-1], nil
	}
	return s.Root(level, index)
}
