package chain

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"attestd/internal/testenv"
)

// The reference: RFC 6962 §2.1 word for word, on hex strings, slow and recursive.

func refSplit(n int) int {
	k := 1
	for 2*k < n {
		k *= 2
	}
	return k
}

func refNode(left, right string) string {
	sum := sha256.Sum256([]byte(left + right))
	return hex.EncodeToString(sum[:])
}

func refRoot(leaves []Hash) string {
	switch n := len(leaves); n {
	case 0:
		return fmt.Sprintf("%x", sha256.Sum256(nil))
	case 1:
		return leaves[0].String()
	default:
		k := refSplit(n)
		return refNode(refRoot(leaves[:k]), refRoot(leaves[k:]))
	}
}

type refStep struct {
	sibling  string
	position string
}

func refProof(leaves []Hash, i int) []refStep {
	n := len(leaves)
	if n == 1 {
		return nil
	}
	if k := refSplit(n); i < k {
		return append(refProof(leaves[:k], i), refStep{refRoot(leaves[k:]), "right"})
	} else {
		return append(refProof(leaves[k:], i-k), refStep{refRoot(leaves[:k]), "left"})
	}
}

// leaf is the i-th leaf of all trees in these tests.
func leaf(i int64) Hash { return sha256.Sum256(strconv.AppendInt([]byte("|"), i, 10)) }

// forest is a Reader of the tree over leaf(0), leaf(1), …. It counts the hashes read.
type forest struct {
	Reader
	tree tree
	byID map[[2]int64]Hash
	read map[int]int
}

func plant(n int64) *forest {
	f := &forest{byID: make(map[[2]int64]Hash), read: make(map[int]int)}
	f.growTo(n)
	return f
}

func (f *forest) growTo(n int64) {
	for f.tree.length < n {
		for _, node := range f.tree.append(leaf(f.tree.length), nil) {
			f.byID[[2]int64{int64(node.Level), node.Index}] = node.Hash
		}
	}
}

func (f *forest) head() Head {
	t := f.tree.clone()
	return Head{Length: t.length, Root: t.root(), Frontier: t.frontier}
}

func (f *forest) Hashes(_ context.Context, _ int64, level int, from, to int64) ([]Hash, error) {
	f.read[level] += int(to - from)
	hashes := make([]Hash, 0, to-from)
	for i := from; i < to; i++ {
		h, ok := f.byID[[2]int64{int64(level), i}]
		if level == 0 {
			h, ok = leaf(i), i < f.tree.length
		}
		if !ok {
			return nil, ErrMissing
		}
		hashes = append(hashes, h)
	}
	return hashes, nil
}

func leaves(n int) []Hash {
	all := make([]Hash, n)
	for i := range all {
		all[i] = leaf(int64(i))
	}
	return all
}

func checkAgainstReference(t interface {
	Helper()
	Fatalf(string, ...any)
}, f *forest, all []Hash, i int) Proof {
	t.Helper()
	n := len(all)
	proof, err := Prove(context.Background(), f, 1, int64(i), f.head())
	if err != nil {
		t.Fatalf("size %d, record %d: %v", n, i, err)
	}
	want := refProof(all, i)
	if len(proof) != len(want) {
		t.Fatalf("size %d, record %d: %d steps, want %d", n, i, len(proof), len(want))
	}
	for s, step := range proof {
		position := "right"
		if step.Left {
			position = "left"
		}
		if got := (refStep{step.Sibling.String(), position}); got != want[s] {
			t.Fatalf("size %d, record %d, step %d: %v, want %v", n, i, s, got, want[s])
		}
	}
	return proof
}

func TestRootOfNothingAndOfOne(t *testing.T) {
	t.Parallel()
	if got := (tree{}).root().String(); got != "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" {
		t.Errorf("root of nothing = %s", got)
	}
	f := plant(1)
	if f.tree.root() != leaf(0) {
		t.Error("the root of one record is not its hash")
	}
}

// For every size from 1 to 130 and every index, root and proof equal those of the reference, and
// any flipped bit is refused.
func TestEveryProof(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	f := plant(0)
	for n := 1; n <= 130; n++ {
		f.growTo(int64(n))
		all := leaves(n)
		root := f.tree.root()
		if root.String() != refRoot(all) {
			t.Fatalf("size %d: root %s, want %s", n, root, refRoot(all))
		}
		for i := range n {
			proof := checkAgainstReference(t, f, all, i)
			if proof.Root(leaf(int64(i))) != root {
				t.Fatalf("size %d, record %d: the proof does not lead to the root", n, i)
			}
			refuseFlips(t, proof, leaf(int64(i)), root, n, i)
		}
	}
}

func refuseFlips(t *testing.T, proof Proof, leaf, root Hash, n, i int) {
	t.Helper()
	bit := (7*n + 13*i) % 256 // another one each time
	flip := func(h *Hash) { h[bit/8] ^= 1 << (bit % 8) }

	wrongLeaf, wrongRoot := leaf, root
	flip(&wrongLeaf)
	flip(&wrongRoot)
	if proof.Root(wrongLeaf) == root || proof.Root(leaf) == wrongRoot {
		t.Fatalf("size %d, record %d: bit %d of leaf or root does not matter", n, i, bit)
	}
	for s := range proof {
		flip(&proof[s].Sibling)
		if proof.Root(leaf) == root {
			t.Fatalf("size %d, record %d: bit %d of sibling %d does not matter", n, i, bit, s)
		}
		flip(&proof[s].Sibling)
		proof[s].Left = !proof[s].Left
		if proof.Root(leaf) == root {
			t.Fatalf("size %d, record %d: position %d does not matter", n, i, s)
		}
		proof[s].Left = !proof[s].Left
	}
	if len(proof) > 0 && proof[1:].Root(leaf) == root {
		t.Fatalf("size %d, record %d: a step can be left out", n, i)
	}
}

// Around the sizes at which stored nodes appear, this checks their indexes, the cost of proofs, and
// the errors for damaged nodes.
func TestStoredNodes(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	f := plant(0)
	for _, n := range []int{255, 256, 257, 511, 512, 513, 65535, 65536, 65536 + 256} {
		f.growTo(int64(n))
		if want := n>>8 + n>>16; len(f.byID) != want {
			t.Fatalf("size %d: %d stored nodes, want %d", n, len(f.byID), want)
		}
		all := leaves(n)
		if got, want := f.tree.root().String(), refRoot(all); got != want {
			t.Fatalf("size %d: root %s, want %s", n, got, want)
		}
		for _, i := range []int{0, 256, 65535, n - 1} {
			if i >= n {
				continue
			}
			clear(f.read)
			checkAgainstReference(t, f, all, i)
			for level, read := range f.read {
				if read > 256 {
					t.Errorf("size %d, record %d: read %d hashes of level %d", n, i, read, level)
				}
			}
		}
	}
	for id, h := range f.byID {
		n := Node{Level: int(id[0]), Index: id[1], Hash: h}
		from, to := n.Index<<n.Level, (n.Index+1)<<n.Level
		if got := refRoot(leaves(int(to))[from:]); got != h.String() {
			t.Fatalf("node %d of level %d = %s, want %s", n.Index, n.Level, h, got)
		}
		if n.Index > 3 {
			break // the reference is slow; the map's order makes it other nodes each time
		}
	}

	head := f.head()
	f.byID[[2]int64{8, 3}] = Hash{}
	if _, err := Prove(t.Context(), f, 1, 5, head); err == nil {
		t.Error("a proof was built over a wrong stored node")
	}
	delete(f.byID, [2]int64{8, 3})
	if _, err := Prove(t.Context(), f, 1, 5, head); !errors.Is(err, ErrMissing) {
		t.Errorf("proof over a missing stored node: %v", err)
	}
}

func TestProveRefuses(t *testing.T) {
	t.Parallel()
	f := plant(300)
	good := f.head()
	for name, change := range map[string]func(h *Head, index *int64){
		"a negative index":           func(_ *Head, i *int64) { *i = -1 },
		"an index beyond the chain":  func(_ *Head, i *int64) { *i = 300 },
		"another root":               func(h *Head, _ *int64) { h.Root[0] ^= 1 },
		"another frontier":           func(h *Head, _ *int64) { h.Frontier[1][0] ^= 1 },
		"a frontier that is short":   func(h *Head, _ *int64) { h.Frontier = h.Frontier[1:] },
		"a length of another tree":   func(h *Head, _ *int64) { h.Length = 301 },
		"a negative length":          func(h *Head, i *int64) { h.Length, *i = -1, -2 },
		"a chain of no records":      func(h *Head, _ *int64) { *h = EmptyHead() },
		"a head of another chain":    func(h *Head, _ *int64) { *h = plant(299).head(); h.Root[3] ^= 4 },
		"a length that outruns disk": func(h *Head, i *int64) { *h = plant(600).head(); *i = 400 },
	} {
		head, index := good, int64(7)
		head.Frontier = append([]Hash(nil), good.Frontier...)
		change(&head, &index)
		if _, err := Prove(t.Context(), f, 1, index, head); err == nil {
			t.Errorf("no error for %s", name)
		}
	}
	if _, err := Prove(t.Context(), f, 1, 7, good); err != nil {
		t.Fatal(err)
	}
}

// For random sizes and indexes, proofs equal those of the reference.
func TestTreeAgainstReference(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 1500).Draw(t, "size")
		i := rapid.IntRange(0, n-1).Draw(t, "index")
		f, all := plant(int64(n)), leaves(n)
		if got, want := f.tree.root().String(), refRoot(all); got != want {
			t.Fatalf("size %d: root %s, want %s", n, got, want)
		}
		checkAgainstReference(t, f, all, i)
	})
}

// A tree loaded from a head continues as the original tree would, and does not change the head.
func TestTreeContinuesFromHead(t *testing.T) {
	t.Parallel()
	for n := range int64(70) {
		f := plant(n)
		head := f.head()
		again, err := treeAt(head)
		if err != nil {
			t.Fatal(err)
		}
		for range 70 {
			again.append(leaf(again.length), nil)
		}
		if again.root() != plant(n+70).tree.root() {
			t.Fatalf("from length %d: another root", n)
		}
		if !f.tree.is(head) {
			t.Fatalf("length %d: the head was changed in place", n)
		}
	}
}
