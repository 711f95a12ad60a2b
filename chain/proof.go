package chain

import (
	"context"
	"errors"
	"fmt"
	"math/bits"

	"attestd/chain/tlog"
)

// Step is a node of an inclusion proof, from the leaf upward.
type Step struct {
	Sibling Hash
	Left    bool // the sibling is on the left
}

// Proof leads from a record to the root of its chain.
type Proof []Step

// Root returns the root that follows from leaf and the proof.
func (p Proof) Root(leaf Hash) Hash {
	current := leaf
	for i := range p {
		if p[i].Left {
			current = nodeHash(&p[i].Sibling, &current)
		} else {
			current = nodeHash(&current, &p[i].Sibling)
		}
	}
	return current
}

// Prove builds the proof of record index in the tree of head, whose length n must be greater than
// index. It reads at most 256 hashes of each stored level below log₂ n and computes as many (three
// levels at a million records); the rest of the path comes from the frontier. The result has been
// checked against head.Root; a mismatch is an error.
func Prove(ctx context.Context, r Reader, chain, index int64, head Head) (Proof, error) {
	if index < 0 || index >= head.Length {
		return nil, fmt.Errorf("chain: no record %d in a tree of %d", index, head.Length)
	}
	if _, err := treeAt(head); err != nil {
		return nil, fmt.Errorf("chain: head of chain %d: %w", chain, err)
	}
	place, height := perfectSubtree(index, head.Length)
	proof, leaf, err := proveWithin(ctx, r, chain, index, height)
	if err != nil {
		return nil, fmt.Errorf("chain: proof of record %d: %w", index, err)
	}
	if right := head.Frontier[place+1:]; len(right) > 0 {
		proof = append(proof, Step{Sibling: join(right)})
	}
	for i := place - 1; i >= 0; i-- {
		proof = append(proof, Step{Sibling: head.Frontier[i], Left: true})
	}
	if proof.Root(leaf) != head.Root {
		return nil, fmt.Errorf("chain: hashes on disk do not lead from record %d to the root", index)
	}
	return proof, nil
}

// ProveAt is Prove in the tree of the first size records, index < size ≤ head.Length, whose root it
// returns. It reads at most 512 hashes of each level that is stored below log₂ n.
func ProveAt(ctx context.Context, r Reader, chain, index, size int64, head Head) (Proof, Hash, error) {
	fail := func(err error) (Proof, Hash, error) {
		return nil, Hash{}, fmt.Errorf("chain: proof of record %d in a tree of %d: %w", index, size, err)
	}
	if index < 0 || index >= size || size > head.Length {
		return fail(fmt.Errorf("the chain has %d records", head.Length))
	}
	if size == head.Length {
		proof, err := Prove(ctx, r, chain, index, head)
		return proof, head.Root, err
	}
	// returns the root of that size, checked against the head's
	c, err := ProveConsistency(ctx, r, chain, size, size, head)
	if err != nil {
		return fail(err)
	}
	s := newSubtrees(ctx, r, chain, head)
	proof, err := s.path(index, 0, size)
	if err != nil {
		return fail(err)
	}
	leaf, err := s.root(index, index+1)
	if err != nil {
		return fail(err)
	}
	if proof.Root(leaf) != c.FromRoot {
		return fail(errors.New("hashes on disk do not lead to the root"))
	}
	return proof, c.FromRoot, nil
}

// perfectSubtree finds the frontier's subtree that contains a record, and returns its index in the
// frontier and its height.
func perfectSubtree(index, length int64) (place, height int) {
	for {
		height = bits.Len64(uint64(length)) - 1
		size := int64(1) << height
		if index < size {
			return place, height
		}
		index, length, place = index-size, length-size, place+1
	}
}

// proveWithin returns the siblings of a record inside its perfect subtree, and the record's hash.
// Of each stored level it reads the 256 hashes around the path, or fewer at the top, and halves
// them level by level.
func proveWithin(ctx context.Context, r Reader, chain, index int64, height int) (proof Proof, leaf Hash, err error) {
	proof = make(Proof, 0, 48)
	for level := 0; level == 0 || level < height; level += 8 {
		levels := min(8, height-level)
		at := index >> level
		first := at >> levels << levels
		tile, err := readHashes(ctx, r, chain, level, first, first+1<<levels)
		if err != nil {
			return nil, leaf, err
		}
		place := at - first
		if level == 0 {
			leaf = tile[place]
		}
		for ; len(tile) > 1; place >>= 1 {
			proof = append(proof, Step{Sibling: tile[place^1], Left: place&1 == 1})
			for i := range len(tile) / 2 {
				tile[i] = nodeHash(&tile[2*i], &tile[2*i+1])
			}
			tile = tile[:len(tile)/2]
		}
	}
	return proof, leaf, nil
}

// readHashes reads all the hashes of a range, or else returns an error.
func readHashes(ctx context.Context, r Reader, chain int64, level int, from, to int64) ([]Hash, error) {
	hashes, err := r.Hashes(ctx, chain, level, from, to)
	if missing := to - from - int64(len(hashes)); err == nil && missing != 0 {
		err = fmt.Errorf("%w: %d of %d at level %d", ErrMissing, missing, to-from, level)
	}
	return hashes, err
}

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
	within, other := [2]int64{low, middle}, [2]int64{middle, high}
	if from > middle {
		within, other = other, within
	}
	proof, err := s.proof(from, within[0], within[1])
	if err != nil {
		return nil, err
	}
	root, err := s.root(other[0], other[1])
	return append(proof, root), err
}

// path is PATH of RFC 6962 §2.1.1 for a record of [low, high).
func (s *subtrees) path(index, low, high int64) (Proof, error) {
	if high-low == 1 {
		return nil, nil
	}
	middle := low + 1<<(bits.Len64(uint64(high-low-1))-1)
	within, other := [2]int64{low, middle}, [2]int64{middle, high}
	if index >= middle {
		within, other = other, within
	}
	proof, err := s.path(index, within[0], within[1])
	if err != nil {
		return nil, err
	}
	root, err := s.root(other[0], other[1])
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
