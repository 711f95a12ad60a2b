package tlog_test

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/transparency-dev/merkle/rfc6962"

	"attestd/chain/tlog"
)

// refRoot is the reference: MTH of RFC 6962 §2.1, word for word.
func refRoot(leaves []tlog.Leaf) tlog.Hash {
	switch n := len(leaves); n {
	case 0:
		return sha256.Sum256(nil)
	case 1:
		return sha256.Sum256(append([]byte{0}, leaves[0][:]...))
	default:
		k := 1
		for 2*k < n {
			k *= 2
		}
		left, right := refRoot(leaves[:k]), refRoot(leaves[k:])
		return sha256.Sum256(slices.Concat([]byte{1}, left[:], right[:]))
	}
}

func TestLeaf(t *testing.T) {
	t.Parallel()
	var signature [ed25519.SignatureSize]byte
	copy(signature[:], "a signature")
	hash := sha256.Sum256([]byte("a record"))
	l := tlog.NewLeaf(hash, signature, tlog.KeyDigest(vkey.Public))
	digest := sha256.Sum256(vkey.Public)
	if want := slices.Concat(hash[:], signature[:], digest[:]); !slices.Equal(l[:], want) || len(want) != 128 {
		t.Errorf("leaf %x, want %x", l, want)
	}
	if got, want := l.Hash(), rfc6962.DefaultHasher.HashLeaf(l[:]); !slices.Equal(got[:], want) {
		t.Errorf("leaf hash %x, want %x", got, want)
	}
}

// The Certificate Transparency project publishes the roots of these leaves.
func TestPublishedCTRoots(t *testing.T) {
	t.Parallel()
	var f tlog.Frontier
	want := []string{
		"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
		"6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
		"fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
		"aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
		"d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
		"4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
		"76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
		"ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
		"5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
	}
	for i, entry := range []string{"", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f", "end"} {
		if root := f.Root(); hex.EncodeToString(root[:]) != want[i] {
			t.Fatalf("root of %d leaves = %x, want %s", i, root, want[i])
		}
		data, _ := hex.DecodeString(entry)
		f, _ = f.Append(sha256.Sum256(append([]byte{0}, data...)))
	}
}

// Up to size 300 every root equals the reference, and Check refuses other roots and lengths.
func TestFrontier(t *testing.T) {
	t.Parallel()
	g := grow(300)
	var leaves []tlog.Leaf
	var f tlog.Frontier
	for n := range int64(301) {
		if want := refRoot(leaves); g.roots[n] != want || f.Root() != want || f.Tree() != (tlog.Tree{Size: n, Root: want}) {
			t.Fatalf("root of %d leaves = %x, want %x", n, f.Root(), want)
		}
		if err := f.Check(g.roots[n]); err != nil {
			t.Fatal(err)
		}
		if f.Check(flip(g.roots[n], int(n))) == nil {
			t.Fatalf("size %d: another root fits", n)
		}
		if (tlog.Frontier{Size: n, Roots: append(slices.Clone(f.Roots), tlog.Hash{})}).Check(g.roots[n]) == nil {
			t.Fatalf("size %d: a frontier that is too long fits", n)
		}
		leaves = append(leaves, leaf(n))
		l := leaf(n)
		f, _ = f.Append(l.Hash())
	}
	if (tlog.Frontier{Size: -1, Roots: make([]tlog.Hash, 64)}).Check(tlog.Hash{}) == nil {
		t.Error("a negative size fits")
	}
}

// Tree and stored nodes do not depend on how leaves are cut into batches. Each node is the root of
// its leaves, and Append changes no earlier frontier.
func TestAppendInBatches(t *testing.T) {
	t.Parallel()
	const n = 65536 + 300
	g := grow(n)
	if len(g.nodes) != 257+1 {
		t.Fatalf("%d stored nodes, want 258", len(g.nodes))
	}
	r := rand.New(rand.NewPCG(5, 6))
	for range 8 {
		var f tlog.Frontier
		for f.Size < n {
			batch := 1 + r.Int64N(min(n-f.Size, 1<<(1+r.IntN(16))))
			before, roots := f, slices.Clone(f.Roots)
			other, _ := f.Append(tlog.Hash{1}, tlog.Hash{2}, tlog.Hash{3})
			var nodes []tlog.Node
			f, nodes = f.Append(g.leaves[f.Size : f.Size+batch]...)
			for _, node := range nodes {
				if node.Hash != g.nodes[[2]int64{int64(node.Level), node.Index}] {
					t.Fatalf("node %d of level %d differs", node.Index, node.Level)
				}
			}
			if want := f.Size>>8 - before.Size>>8 + f.Size>>16 - before.Size>>16; int64(len(nodes)) != want {
				t.Fatalf("from %d to %d: %d nodes, want %d", before.Size, f.Size, len(nodes), want)
			}
			if f.Root() != g.roots[f.Size] || !slices.Equal(before.Roots, roots) || other.Size != before.Size+3 {
				t.Fatalf("from %d to %d: another tree, or the old one was changed", before.Size, f.Size)
			}
		}
	}
	for id, hash := range g.nodes {
		var f tlog.Frontier
		f, _ = f.Append(g.leaves[id[1]<<id[0] : (id[1]+1)<<id[0]]...)
		if f.Root() != hash {
			t.Fatalf("node %d of level %d is not the root of its leaves", id[1], id[0])
		}
	}
}
