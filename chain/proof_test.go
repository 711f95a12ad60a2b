package chain

import (
	"context"
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"attestd/internal/testenv"
)

// refConsistency is PROOF(m, D[n]) of RFC 6962 §2.1.2 word for word, for 0 < m ≤ n.
func refConsistency(leaves []Hash, m int) []string { return refSubproof(leaves, m, true) }

func refSubproof(leaves []Hash, m int, known bool) []string {
	n := len(leaves)
	if m == n {
		if known {
			return nil
		}
		return []string{refRoot(leaves)}
	}
	if k := refSplit(n); m <= k {
		return append(refSubproof(leaves[:k], m, known), refRoot(leaves[k:]))
	} else {
		return append(refSubproof(leaves[k:], m-k, false), refRoot(leaves[:k]))
	}
}

// checkConsistency compares the proof between two sizes with the reference.
func checkConsistency(t interface {
	Helper()
	Fatalf(string, ...any)
}, f *forest, all []Hash, from, to int) Consistency {
	t.Helper()
	c, err := ProveConsistency(context.Background(), f, 1, int64(from), int64(to), f.head())
	if err != nil {
		t.Fatalf("from %d to %d of %d: %v", from, to, f.tree.length, err)
	}
	if got, want := c.FromRoot.String(), refRoot(all[:from]); got != want {
		t.Fatalf("from %d to %d: old root %s, want %s", from, to, got, want)
	}
	if got, want := c.ToRoot.String(), refRoot(all[:to]); got != want {
		t.Fatalf("from %d to %d: new root %s, want %s", from, to, got, want)
	}
	var want []string
	if from > 0 {
		want = refConsistency(all[:to], from)
	}
	var got []string
	for _, h := range c.Proof {
		got = append(got, h.String())
	}
	if !slices.Equal(got, want) {
		t.Fatalf("from %d to %d: proof %v, want %v", from, to, got, want)
	}
	if !c.Holds() {
		t.Fatalf("from %d to %d: the proof does not hold", from, to)
	}
	return c
}

// For all pairs of sizes up to 70 and heads of several lengths, the proof equals that of the
// reference, and every changed proof is refused.
func TestEveryConsistency(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	for _, n := range []int64{0, 1, 64, 70} {
		f, all := plant(n), leaves(int(n))
		for to := range int(n) + 1 {
			for from := range to + 1 {
				refuseOtherConsistency(t, checkConsistency(t, f, all, from, to))
			}
		}
	}
}

// refuseOtherConsistency checks that a proof with any single change is refused.
func refuseOtherConsistency(t *testing.T, c Consistency) {
	t.Helper()
	refuse := func(what string, changed Consistency) {
		t.Helper()
		if changed.Holds() {
			t.Fatalf("from %d to %d: %s is accepted", c.From, c.To, what)
		}
	}
	bit := int(7*c.From+13*c.To) % 256 // another one each time
	flip := func(h *Hash) { h[bit/8] ^= 1 << (bit % 8) }

	changed := c
	flip(&changed.FromRoot)
	refuse("another old root", changed)
	if c.From > 0 { // any tree extends the empty one
		changed = c
		flip(&changed.ToRoot)
		refuse("another new root", changed)
	}
	for i := range c.Proof {
		changed = c
		changed.Proof = slices.Clone(c.Proof)
		flip(&changed.Proof[i])
		refuse("a flipped bit of the proof", changed)
		changed.Proof = slices.Delete(slices.Clone(c.Proof), i, i+1)
		refuse("a proof with a hash left out", changed)
	}
	changed = c
	changed.Proof = append(slices.Clone(c.Proof), c.ToRoot)
	refuse("a proof with a hash too many", changed)
	changed = c
	changed.To = 2*c.To + 1
	if c.From > 0 {
		refuse("a proof that ends a level too low", changed)
	}
	changed = c
	changed.Proof = append(slices.Clone(c.Proof), leaf(0))
	changed.FromRoot, changed.ToRoot = nodeHash(&changed.Proof[len(c.Proof)], &c.FromRoot), nodeHash(&changed.Proof[len(c.Proof)], &c.ToRoot)
	refuse("a proof that goes on above both roots", changed)
	changed = c
	changed.From, changed.To = c.To+1, c.To
	refuse("an old tree larger than the new one", changed)
	changed.From = -1
	refuse("a negative size", changed)
}

// Around the sizes at which stored nodes appear, proofs lead to the former roots and read few
// hashes.
func TestConsistencyReadsLittle(t *testing.T) {
	t.Parallel()
	const n = 65536 + 700
	sizes := []int64{0, 1, 255, 256, 257, 511, 512, 1000, 32768, 65535, 65536, 65537, 65536 + 256, n - 1, n}
	f, roots := plant(0), make(map[int64]Hash)
	for _, size := range sizes {
		f.growTo(size)
		roots[size] = f.tree.root()
	}
	for i, to := range sizes {
		for _, from := range sizes[:i+1] {
			clear(f.read)
			c, err := ProveConsistency(t.Context(), f, 1, from, to, f.head())
			if err != nil {
				t.Fatalf("from %d to %d: %v", from, to, err)
			}
			if c.FromRoot != roots[from] || c.ToRoot != roots[to] || !c.Holds() {
				t.Fatalf("from %d to %d: the proof does not lead from root to root", from, to)
			}
			most := 512
			if to == n {
				most = 256
			}
			for level, read := range f.read {
				if read > most {
					t.Errorf("from %d to %d: read %d hashes of level %d, want at most %d", from, to, read, level, most)
				}
			}
		}
	}
}

func TestConsistencyAgainstReference(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 1500).Draw(t, "size")
		to := rapid.IntRange(0, n).Draw(t, "to")
		from := rapid.IntRange(0, to).Draw(t, "from")
		checkConsistency(t, plant(int64(n)), leaves(n), from, to)
	})
}

func TestProveConsistencyRefuses(t *testing.T) {
	t.Parallel()
	f := plant(600)
	good := f.head()
	for name, change := range map[string]func(h *Head, from, to *int64){
		"a negative size":            func(_ *Head, from, _ *int64) { *from = -1 },
		"sizes the wrong way round":  func(_ *Head, from, to *int64) { *from, *to = 9, 8 },
		"a size beyond the chain":    func(_ *Head, _, to *int64) { *to = 601 },
		"another root":               func(h *Head, _, _ *int64) { h.Root[0] ^= 1 },
		"a frontier that is short":   func(h *Head, _, _ *int64) { h.Frontier = h.Frontier[1:] },
		"a head of another chain":    func(h *Head, _, _ *int64) { *h = plantOther(600) },
		"a length that outruns disk": func(h *Head, _, to *int64) { *h = plant(900).head(); *to = 700 },
	} {
		head, from, to := good, int64(7), int64(300)
		head.Frontier = slices.Clone(good.Frontier)
		change(&head, &from, &to)
		if _, err := ProveConsistency(t.Context(), f, 1, from, to, head); err == nil {
			t.Errorf("no error for %s", name)
		}
	}
	f.byID[[2]int64{8, 0}] = Hash{}
	if _, err := ProveConsistency(t.Context(), f, 1, 300, 400, good); err == nil {
		t.Error("a proof was built over a wrong stored node")
	}
	delete(f.byID, [2]int64{8, 0})
	if _, err := ProveConsistency(t.Context(), f, 1, 300, 400, good); !errors.Is(err, ErrMissing) {
		t.Errorf("proof over a missing stored node: %v", err)
	}
}

// plantOther returns the head of a chain with other records.
func plantOther(n int64) Head {
	var t tree
	for i := range n {
		t.append(leaf(-1-i), nil)
	}
	return Head{Length: n, Root: t.root(), Frontier: t.frontier}
}

// The costliest pair: neither size is the head's.
func BenchmarkProveConsistencyAtMillion(b *testing.B) {
	const n = 1_000_000
	f := plant(n)
	m := million{f, leaves(n)}
	head := f.head()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ProveConsistency(context.Background(), m, 1, 524_287, 999_935, head); err != nil {
			b.Fatal(err)
		}
	}
}

// ProveAt returns, for every former size, the proof of that time.
func TestProveAt(t *testing.T) {
	t.Parallel()
	f := plant(600)
	for _, size := range []int64{1, 2, 3, 5, 8, 255, 256, 257, 300, 511, 512, 513, 599, 600} {
		then := plant(size)
		for index := int64(0); index < size; index += 1 + index/7 {
			want, err := Prove(t.Context(), then, 1, index, then.head())
			if err != nil {
				t.Fatal(err)
			}
			got, root, err := ProveAt(t.Context(), f, 1, index, size, f.head())
			if err != nil || root != then.head().Root || !slices.Equal(got, want) {
				t.Fatalf("record %d at size %d: %v, root %v, %v", index, size, got, root, err)
			}
		}
	}
	for _, c := range [][2]int64{{-1, 5}, {5, 5}, {5, 601}, {0, 0}} {
		if _, _, err := ProveAt(t.Context(), f, 1, c[0], c[1], f.head()); err == nil {
			t.Errorf("a proof of record %d at size %d", c[0], c[1])
		}
	}
	f.byID[[2]int64{8, 0}] = Hash{}
	if _, _, err := ProveAt(t.Context(), f, 1, 300, 400, f.head()); err == nil {
		t.Error("a proof was built over a wrong stored node")
	}
}
