package tlog_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"attestd/chain/tlog"
)

// proofOf returns the tlog-proof of a leaf in the tree of size.
func proofOf(t testing.TB, g *memoryTree, size, index int64) tlog.Proof {
	t.Helper()
	hashes, err := tlog.ProveInclusion(t.Context(), g, g.tree(size), index)
	if err != nil {
		t.Fatal(err)
	}
	return tlog.Proof{Index: index, Hashes: hashes, Checkpoint: g.checkpoint(t, size)}
}

// proofText writes a proof as c2sp.org/tlog-proof specifies it.
func proofText(p tlog.Proof, extra string) string {
	text := "c2sp.org/tlog-proof@v1\n" + extra + "index " + strconv.FormatInt(p.Index, 10) + "\n"
	for _, hash := range p.Hashes {
		text += base64.StdEncoding.EncodeToString(hash[:]) + "\n"
	}
	return text + "\n" + string(p.Checkpoint)
}

// A formatted proof has the form of the standard, and parses to the same proof.
func TestProofText(t *testing.T) {
	t.Parallel()
	g := grow(40)
	for size := int64(1); size <= 40; size++ {
		for index := range size {
			p := proofOf(t, g, size, index)
			text := p.Format()
			if want := proofText(p, ""); string(text) != want {
				t.Fatalf("proof %q, want %q", text, want)
			}
			again, err := tlog.ParseProof(text)
			if err != nil || again.Index != index || !slices.Equal(again.Hashes, p.Hashes) || !bytes.Equal(again.Checkpoint, p.Checkpoint) || again.Extra != nil {
				t.Fatalf("%q is read as %+v: %v", text, again, err)
			}
			l := leaf(index)
			if c, err := again.Check(l.Hash(), vkey); err != nil || c.Tree != g.tree(size) || c.Origin != origin {
				t.Fatalf("leaf %d of %d: %+v, %v", index, size, c, err)
			}
		}
	}
	p := proofOf(t, g, 7, 3)
	p.Extra = []byte("from elsewhere")
	text := p.Format()
	if want := proofText(p, "extra ZnJvbSBlbHNld2hlcmU=\n"); string(text) != want {
		t.Errorf("proof %q, want %q", text, want)
	}
	if again, err := tlog.ParseProof(text); err != nil || !bytes.Equal(again.Extra, p.Extra) {
		t.Errorf("extra %q: %v", again.Extra, err)
	}
}

// A proof with any bit flipped is refused.
func TestProofWithFlippedBit(t *testing.T) {
	t.Parallel()
	l := leaf(9)
	good := proofOf(t, grow(21), 21, 9).Format()
	for i := range len(good) * 8 {
		changed := slices.Clone(good)
		changed[i/8] ^= 1 << (i % 8)
		p, err := tlog.ParseProof(changed)
		if err == nil {
			_, err = p.Check(l.Hash(), vkey)
		}
		if !errors.Is(err, tlog.ErrMalformed) && !errors.Is(err, tlog.ErrSignature) && !errors.Is(err, tlog.ErrProof) {
			t.Fatalf("bit %d: %q: %v", i, changed, err)
		}
	}
}

// Check refuses another leaf, key, checkpoint and index.
func TestProofChecks(t *testing.T) {
	t.Parallel()
	g := grow(21)
	l, other := leaf(9), leaf(10)
	p := proofOf(t, g, 21, 9)
	if _, err := p.Check(other.Hash(), vkey); !errors.Is(err, tlog.ErrProof) {
		t.Errorf("another leaf: %v", err)
	}
	if _, err := p.Check(l.Hash(), otherVKey); !errors.Is(err, tlog.ErrSignature) {
		t.Errorf("another key: %v", err)
	}
	p.Checkpoint = g.checkpoint(t, 20)
	if _, err := p.Check(l.Hash(), vkey); !errors.Is(err, tlog.ErrProof) {
		t.Errorf("another checkpoint: %v", err)
	}
	p.Index = 21
	if c, err := p.Check(l.Hash(), vkey); !errors.Is(err, tlog.ErrProof) || c != (tlog.Checkpoint{}) {
		t.Errorf("an index beyond the tree: %+v, %v", c, err)
	}
}

func TestProofRefused(t *testing.T) {
	t.Parallel()
	const header, hash = "c2sp.org/tlog-proof@v1\n", "CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n"
	checkpoint := "\n" + string(grow(5).checkpoint(t, 5))
	long := base64.StdEncoding.EncodeToString(make([]byte, 64<<10+1))
	for name, text := range map[string]string{
		"nothing":                   "",
		"no header":                 "index 1\n" + hash + checkpoint,
		"another version":           "c2sp.org/tlog-proof@v2\nindex 1\n" + hash + checkpoint,
		"a carriage return":         "c2sp.org/tlog-proof@v1\r\nindex 1\n" + hash + checkpoint,
		"no index":                  header + hash + checkpoint,
		"only a header":             header + checkpoint,
		"an empty index":            header + "index \n" + hash + checkpoint,
		"a leading zero":            header + "index 01\n" + hash + checkpoint,
		"a sign":                    header + "index +1\n" + hash + checkpoint,
		"a negative index":          header + "index -1\n" + hash + checkpoint,
		"an index beyond all trees": header + "index 1152921504606846977\n" + hash + checkpoint,
		"a space behind the index":  header + "index 1 \n" + hash + checkpoint,
		"two indices":               header + "index 1\nindex 1\n" + hash + checkpoint,
		"an empty extra":            header + "extra \nindex 1\n" + hash + checkpoint,
		"extra without a space":     header + "extra\nindex 1\n" + hash + checkpoint,
		"extra that is no base64":   header + "extra ?\nindex 1\n" + hash + checkpoint,
		"extra with stray bits":     header + "extra QR==\nindex 1\n" + hash + checkpoint,
		"extra behind the index":    header + "index 1\nextra QQ==\n" + hash + checkpoint,
		"extra twice":               header + "extra QQ==\nextra QQ==\nindex 1\n" + hash + checkpoint,
		"extra alone":               header + "extra QQ==\n" + checkpoint,
		"extra over 64 KiB":         header + "extra " + long + "\nindex 1\n" + hash + checkpoint,
		"a hash with stray bits":    header + "index 1\n" + strings.Replace(hash, "I=", "J=", 1) + checkpoint,
		"a short hash":              header + "index 1\n" + hash[4:] + checkpoint,
		"61 hashes":                 header + "index 1\n" + strings.Repeat(hash, 61) + checkpoint,
		"no checkpoint":             header + "index 1\n" + hash + "\n",
		"no empty line":             header + "index 1\n" + hash + checkpoint[1:],
		"two empty lines":           header + "index 1\n" + hash + "\n" + checkpoint,
		"a checkpoint not signed":   header + "index 1\n" + hash + "\n" + tlog.Checkpoint{Origin: origin}.Text(),
		"something behind the end":  header + "index 1\n" + hash + checkpoint + "x",
	} {
		if p, err := tlog.ParseProof([]byte(text)); !errors.Is(err, tlog.ErrMalformed) {
			t.Errorf("%s: accepted as %+v: %v", name, p, err)
		}
	}
	for _, text := range []string{header + "index 0\n" + checkpoint, header + "extra QQ==\nindex 1\n" + strings.Repeat(hash, 60) + checkpoint} {
		if _, err := tlog.ParseProof([]byte(text)); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Every proof that parses is formatted as it was.
func FuzzProof(f *testing.F) {
	good := proofOf(f, grow(5), 5, 2)
	f.Add(good.Format())
	good.Extra = []byte("extra")
	f.Add(good.Format())
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := tlog.ParseProof(text)
		if err == nil && !bytes.Equal(p.Format(), text) {
			t.Errorf("%q is read as %+v", text, p)
		}
	})
}

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
