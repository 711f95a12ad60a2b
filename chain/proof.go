package chain

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
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
