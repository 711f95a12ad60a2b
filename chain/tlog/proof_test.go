package tlog_test

import (
	"bytes"
	"encoding/base64"
	"errors"
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
