package tlog_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"

	"attestd/chain/tlog"
)

// Proofs verify and read no more hashes than documented, at sizes around those at which stored
// nodes appear.
func TestProofsReadFewHashes(t *testing.T) {
	t.Parallel()
	const n = 65536 + 700
	g := grow(n)
	sizes := []int64{0, 1, 255, 256, 257, 511, 512, 1000, 32768, 65535, 65536, 65537, 65536 + 256, n - 1, n}
	within := func(what string, most int, a, b int64) {
		t.Helper()
		for level, read := range g.read {
			if read > most {
				t.Errorf("%s %d %d: read %d hashes of level %d", what, a, b, read, level)
			}
		}
		clear(g.read)
	}
	for i, size := range sizes {
		root, err := tlog.Root(t.Context(), g, size)
		if err != nil || root != g.roots[size] {
			t.Fatalf("root of size %d: %v", size, err)
		}
		within("root", 256, size, size)
		for _, other := range sizes[:i+1] {
			proof, err := tlog.ProveConsistency(t.Context(), g, other, g.tree(size))
			if err != nil {
				t.Fatal(err)
			}
			within("consistency", 512, other, size)
			if err := tlog.CheckConsistency(proof, g.tree(other), g.tree(size)); err != nil {
				t.Error(err)
			}
			if other == size {
				continue
			}
			if proof, err = tlog.ProveInclusion(t.Context(), g, g.tree(size), other); err != nil {
				t.Fatal(err)
			}
			within("inclusion", 512, other, size)
			if err := tlog.CheckInclusion(proof, g.tree(size), other, g.leaves[other]); err != nil {
				t.Error(err)
			}
		}
	}
}

// A missing or changed node or leaf makes an error, never a proof.
func TestNoProofFromDamagedStorage(t *testing.T) {
	t.Parallel()
	g := grow(600)
	tree := g.tree(600)
	other := tlog.Tree{Size: 600, Root: flip(tree.Root, 5)}
	if _, err := tlog.ProveInclusion(t.Context(), g, other, 7); err == nil {
		t.Error("an inclusion proof for another root")
	}
	if _, err := tlog.ProveConsistency(t.Context(), g, 300, other); err == nil {
		t.Error("a consistency proof for another root")
	}
	for name, damage := range map[string]func(){
		"a wrong node":   func() { g.nodes[[2]int64{8, 1}] = flip(g.nodes[[2]int64{8, 1}], 9) },
		"a missing node": func() { delete(g.nodes, [2]int64{8, 1}) },
	} {
		saved := g.nodes[[2]int64{8, 1}]
		damage()
		_, err := tlog.ProveInclusion(t.Context(), g, tree, 7)
		if err == nil || errors.Is(err, errMissing) != (name == "a missing node") || errors.Is(err, tlog.ErrProof) {
			t.Errorf("%s: inclusion: %v", name, err)
		}
		if _, err = tlog.ProveConsistency(t.Context(), g, 520, tree); err == nil {
			t.Errorf("%s: a consistency proof", name)
		}
		g.nodes[[2]int64{8, 1}] = saved
	}
	g.leaves = g.leaves[:590]
	if _, err := tlog.Root(t.Context(), g, 600); !errors.Is(err, errMissing) {
		t.Errorf("root over missing leaves: %v", err)
	}
}

// Sizes and indices out of range make errors, and proofs for them do not verify.
func TestProofOutOfRange(t *testing.T) {
	t.Parallel()
	g := grow(10)
	for _, index := range []int64{-1, 10, 11, 1 << 62} {
		if _, err := tlog.ProveInclusion(t.Context(), g, g.tree(10), index); err == nil {
			t.Errorf("a proof of leaf %d of 10", index)
		}
	}
	for _, from := range []int64{-1, 11} {
		if _, err := tlog.ProveConsistency(t.Context(), g, from, g.tree(10)); err == nil {
			t.Errorf("consistency from %d to 10", from)
		}
	}
	for _, size := range []int64{-1, 1<<40 + 1, 1<<62 + 1, 1<<63 - 1} {
		if _, err := tlog.Root(t.Context(), g, size); err == nil {
			t.Errorf("a root of size %d", size)
		}
		huge := tlog.Tree{Size: size, Root: g.roots[10]}
		if _, err := tlog.ProveInclusion(t.Context(), g, huge, 0); err == nil {
			t.Errorf("a proof in a tree of %d", size)
		}
		if _, err := tlog.ProveConsistency(t.Context(), g, 5, huge); err == nil {
			t.Errorf("consistency with a tree of %d", size)
		}
		proof := make([]tlog.Hash, 63)
		if err := tlog.CheckInclusion(proof, huge, 5, g.leaves[5]); !errors.Is(err, tlog.ErrProof) {
			t.Errorf("inclusion in a tree of %d: %v", size, err)
		}
		if err := tlog.CheckConsistency(proof, g.tree(5), huge); !errors.Is(err, tlog.ErrProof) {
			t.Errorf("consistency with a tree of %d: %v", size, err)
		}
	}
}

// The empty tree is a prefix of every tree. Its only proof is empty, and it has one root.
func TestConsistencyFromEmptyTree(t *testing.T) {
	t.Parallel()
	g := grow(10)
	for size := range int64(11) {
		proof, err := tlog.ProveConsistency(t.Context(), g, 0, g.tree(size))
		if err != nil || len(proof) > 0 {
			t.Fatalf("from 0 to %d: %d hashes, %v", size, len(proof), err)
		}
		if err := tlog.CheckConsistency(proof, g.tree(0), g.tree(size)); err != nil {
			t.Error(err)
		}
		if tlog.CheckConsistency(g.roots[1:2], g.tree(0), g.tree(size)) == nil {
			t.Errorf("from 0 to %d: a proof with a hash is accepted", size)
		}
		if tlog.CheckConsistency(nil, tlog.Tree{Root: g.roots[1]}, g.tree(size)) == nil {
			t.Errorf("from 0 to %d: another root of the empty tree is accepted", size)
		}
	}
	wrong := tlog.Tree{Root: g.roots[1]}
	if tlog.CheckConsistency(nil, wrong, wrong) == nil || tlog.CheckConsistency(nil, g.tree(0), wrong) == nil {
		t.Error("a tree of no leaves with another root is accepted")
	}
}

// A proof with a hash more or less does not verify.
func TestProofOfWrongLength(t *testing.T) {
	t.Parallel()
	g := grow(70)
	tree := g.tree(70)
	for i := range int64(70) {
		proof, err := tlog.ProveInclusion(t.Context(), g, tree, i)
		if err != nil {
			t.Fatal(err)
		}
		if tlog.CheckInclusion(append(slices.Clone(proof), tree.Root), tree, i, g.leaves[i]) == nil ||
			tlog.CheckInclusion(proof[1:], tree, i, g.leaves[i]) == nil ||
			tlog.CheckInclusion(proof, tree, i^1, g.leaves[i]) == nil {
			t.Errorf("leaf %d: another proof, or another index, is accepted", i)
		}
	}
}

// uniform is a Reader of a tree of any size. All its leaves are equal.
type uniform struct {
	levels []tlog.Hash
	read   map[int]int
}

func newUniform() uniform {
	l := leaf(0)
	u := uniform{[]tlog.Hash{l.Hash()}, make(map[int]int)}
	for level := range 40 {
		var f tlog.Frontier
		f, _ = f.Append(u.levels[level], u.levels[level])
		u.levels = append(u.levels, f.Root())
	}
	return u
}

func (u uniform) Hashes(_ context.Context, level int, from, to int64) ([]tlog.Hash, error) {
	if level > 32 {
		return nil, errMissing
	}
	u.read[level] += int(to - from)
	return slices.Repeat(u.levels[level:level+1], int(to-from)), nil
}

// Proofs in the largest trees that can be read verify, and read no more hashes than documented.
func TestLargestTrees(t *testing.T) {
	t.Parallel()
	u := newUniform()
	for _, size := range []int64{1<<32 - 1, 1<<32 + 1, 1<<40 - 1, 1 << 40} {
		root, err := tlog.Root(t.Context(), u, size)
		if err != nil || size == 1<<40 && root != u.levels[40] {
			t.Fatalf("size %d: %v", size, err)
		}
		tree := tlog.Tree{Size: size, Root: root}
		for _, index := range []int64{0, 1, size / 3, size - 1} {
			clear(u.read)
			proof, err := tlog.ProveInclusion(t.Context(), u, tree, index)
			if err == nil {
				err = tlog.CheckInclusion(proof, tree, index, u.levels[0])
			}
			if err != nil || slices.Max(slices.Collect(maps.Values(u.read))) > 512 {
				t.Errorf("leaf %d of %d: %v, read %v", index, size, err, u.read)
			}
			first, err := tlog.Root(t.Context(), u, index+1)
			if err != nil {
				t.Fatal(err)
			}
			clear(u.read)
			proof, err = tlog.ProveConsistency(t.Context(), u, index+1, tree)
			if err == nil {
				err = tlog.CheckConsistency(proof, tlog.Tree{Size: index + 1, Root: first}, tree)
			}
			if err != nil || len(u.read) > 0 && slices.Max(slices.Collect(maps.Values(u.read))) > 512 {
				t.Errorf("from %d to %d: %v, read %v", index+1, size, err, u.read)
			}
		}
	}
	for level, width := range []int{256, 256, 256, 256, 256, 1} {
		tile, err := tlog.ReadTile(t.Context(), u, tlog.Tile{Level: level, Width: width}, 1<<40)
		if err != nil || !slices.Equal(tile[:32], u.levels[8*level][:]) || len(tile) != 32*width {
			t.Errorf("tile of level %d: %v", level, err)
		}
	}
}
