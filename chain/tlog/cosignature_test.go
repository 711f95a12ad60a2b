package tlog_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/binary"
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"filippo.io/torchwood"
	"golang.org/x/mod/sumdb/note"

	"attestd/chain/tlog"
)

const witnessName = "witness.example/w1"

var (
	witnessKey  = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{9}, ed25519.SeedSize))
	witnessVKey = tlog.VKey{Name: witnessName, Type: tlog.TypeCosignature, Public: witnessKey.Public().(ed25519.PublicKey)}
	noon        = time.Unix(1_772_600_000, 0)
)

// cosign returns a checkpoint of size 5, and the cosignature of a witness on it.
func cosign(t testing.TB, name string, private ed25519.PrivateKey, at time.Time) (tlog.Checkpoint, tlog.Cosignature) {
	t.Helper()
	c := tlog.Checkpoint{Origin: origin, Tree: tlog.Tree{Size: 5, Root: tlog.Hash{5}}}
	cosignature, err := c.Cosign(name, private, at)
	if err != nil {
		t.Fatal(err)
	}
	return c, cosignature
}

// torchwood accepts our cosignatures, and we accept torchwood's.
func TestCosignatureAgreesWithTorchwood(t *testing.T) {
	t.Parallel()
	c, ours := cosign(t, witnessName, witnessKey, noon)
	signed, err := c.Sign(key)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := torchwood.NewCosignatureSigner(witnessName, witnessKey)
	if err != nil {
		t.Fatal(err)
	}
	if witnessVKey.String() != signer.Verifier().String() || ours.Key.String() != witnessVKey.String() || ours.Time != noon.Unix() {
		t.Errorf("our key %s and cosignature %+v, torchwood's key %s", witnessVKey, ours, signer.Verifier())
	}
	n, err := note.Open([]byte(string(signed)+ours.Line), note.VerifierList(signer.Verifier()))
	if err != nil {
		t.Fatalf("torchwood refuses our cosignature: %v", err)
	}
	if at, err := torchwood.CosignatureTimestamp(n.Sigs[0]); err != nil || at != ours.Time {
		t.Errorf("torchwood reads the time as %d: %v", at, err)
	}
	theirs, err := note.Sign(&note.Note{Text: c.Text()}, signer)
	if err != nil {
		t.Fatal(err)
	}
	lines := theirs[len(c.Text())+1:]
	list, err := c.ParseCosignatures(lines, witnessVKey)
	if err != nil || len(list) != 1 || list[0].Line != string(lines) || time.Since(time.Unix(list[0].Time, 0)).Abs() > time.Hour {
		t.Errorf("torchwood's cosignature is read as %+v: %v", list, err)
	}
}

// ParseCosignatures returns exactly those by trusted keys that verify.
func TestParseCosignatures(t *testing.T) {
	t.Parallel()
	c, good := cosign(t, witnessName, witnessKey, noon)
	_, stranger := cosign(t, witnessName, otherKey, noon)
	_, renamed := cosign(t, "witness.example/w2", witnessKey, noon)
	timed := func(at uint64) string {
		text := "cosignature/v1\ntime " + strconv.FormatUint(at, 10) + "\n" + c.Text()
		return signatureLine(witnessName, witnessVKey.ID(), append(binary.BigEndian.AppendUint64(nil, at), ed25519.Sign(witnessKey, []byte(text))...))
	}
	plain := signatureLine(witnessName, witnessVKey.ID(), ed25519.Sign(witnessKey, []byte(c.Text())))
	for name, test := range map[string]struct {
		lines string
		valid int
		want  error
	}{
		"one":                           {good.Line, 1, nil},
		"a stranger's beside":           {stranger.Line + good.Line, 1, nil},
		"of another name":               {renamed.Line, 0, nil},
		"the largest time":              {timed(math.MaxInt64), 1, nil},
		"no time":                       {timed(0), 0, tlog.ErrSignature},
		"a time beyond the largest":     {timed(math.MaxInt64 + 1), 0, tlog.ErrSignature},
		"no timestamp":                  {plain, 0, tlog.ErrSignature},
		"one that does not verify":      {signatureLine(witnessName, witnessVKey.ID(), make([]byte, 72)), 0, tlog.ErrSignature},
		"a good and a bad one":          {good.Line + signatureLine(witnessName, witnessVKey.ID(), make([]byte, 72)), 1, tlog.ErrSignature},
		"nothing":                       {"", 0, tlog.ErrMalformed},
		"a line that is none":           {good.Line + "x\n", 0, tlog.ErrMalformed},
		"no line break":                 {strings.TrimSuffix(good.Line, "\n"), 0, tlog.ErrMalformed},
		"another checkpoint":            {"\n" + good.Line, 0, tlog.ErrMalformed},
		"a text and an empty line more": {"x\n\n" + good.Line, 0, tlog.ErrMalformed},
		"base64 with stray bits":        {strings.Replace(good.Line, "=\n", "==\n", 1), 0, tlog.ErrMalformed},
	} {
		list, err := c.ParseCosignatures([]byte(test.lines), witnessVKey, vkey)
		if len(list) != test.valid || !errors.Is(err, test.want) {
			t.Errorf("%s: %+v, %v", name, list, err)
		}
	}
}

// A cosignature on another size, root or origin is refused, and so is one with any bit flipped.
func TestCosignatureWithFlippedBit(t *testing.T) {
	t.Parallel()
	c, good := cosign(t, witnessName, witnessKey, noon)
	for _, other := range []tlog.Checkpoint{
		{Origin: origin + "x", Tree: c.Tree}, {Origin: origin, Tree: tlog.Tree{Size: 6, Root: c.Root}}, {Origin: origin, Tree: tlog.Tree{Size: 5, Root: tlog.Hash{6}}},
	} {
		if list, err := other.ParseCosignatures([]byte(good.Line), witnessVKey); len(list) > 0 || !errors.Is(err, tlog.ErrSignature) {
			t.Errorf("it counts for %+v: %v", other, err)
		}
	}
	for i := range len(good.Line) * 8 {
		bad := []byte(good.Line)
		bad[i/8] ^= 1 << (i % 8)
		if list, _ := c.ParseCosignatures(bad, witnessVKey); len(list) > 0 {
			t.Errorf("%q counts", bad)
		}
	}
}

func TestCosignRefusesInvalidInput(t *testing.T) {
	t.Parallel()
	good := tlog.Checkpoint{Origin: origin}
	for name, cosign := range map[string]func() (tlog.Cosignature, error){
		"a name with a space":  func() (tlog.Cosignature, error) { return good.Cosign("a b", witnessKey, noon) },
		"no time":              func() (tlog.Cosignature, error) { return good.Cosign("a", witnessKey, time.Unix(0, 0)) },
		"a checkpoint of none": func() (tlog.Cosignature, error) { return tlog.Checkpoint{}.Cosign("a", witnessKey, noon) },
	} {
		if c, err := cosign(); err == nil {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

// A bad signature by the log's key is refused, even behind a good one.
func TestOpenCheckpointVerifiesEverySignature(t *testing.T) {
	t.Parallel()
	c, _ := cosign(t, witnessName, witnessKey, noon)
	good, err := c.Sign(key)
	if err != nil {
		t.Fatal(err)
	}
	bad := signatureLine(origin, vkey.ID(), make([]byte, ed25519.SignatureSize))
	if _, _, err := tlog.OpenCheckpoint([]byte(string(good)+bad), vkey); !errors.Is(err, tlog.ErrSignature) {
		t.Errorf("a bad signature after a good one: %v", err)
	}
}

// torchwood accepts every cosignature that we accept.
func FuzzCosignatures(f *testing.F) {
	c, good := cosign(f, witnessName, witnessKey, noon)
	f.Add([]byte(good.Line))
	f.Add([]byte(good.Line + good.Line))
	verifier, err := torchwood.NewCosignatureVerifier(witnessVKey.String())
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, lines []byte) {
		list, err := c.ParseCosignatures(lines, witnessVKey)
		for _, s := range list {
			if _, err := note.Open([]byte(c.Text()+"\n"+s.Line), note.VerifierList(verifier)); err != nil || !strings.Contains(string(lines), s.Line) {
				t.Errorf("%q counts: %v", s.Line, err)
			}
		}
		if err == nil && len(list) == 0 && bytes.Contains(lines, []byte(good.Line)) {
			t.Errorf("a good line of %q is not read", lines)
		}
	})
}
