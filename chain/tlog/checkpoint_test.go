package tlog_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"filippo.io/torchwood"
	"golang.org/x/mod/sumdb/note"

	"attestd/chain/tlog"
)

// The example of c2sp.org/tlog-checkpoint.
func TestCheckpointExampleOfStandard(t *testing.T) {
	t.Parallel()
	const text = "example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n"
	c, err := tlog.ParseCheckpoint(text)
	if err != nil || c.Origin != "example.com/behind-the-sofa" || c.Size != 20852163 || c.Text() != text {
		t.Fatalf("%+v, %v", c, err)
	}
	signed := text + "\n— example.com/behind-the-sofa Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=\n"
	got, n, err := tlog.ParseSignedCheckpoint([]byte(signed))
	if err != nil || got != c || len(n.UnverifiedSigs) != 1 || n.UnverifiedSigs[0].Hash != 0x033de0ae {
		t.Errorf("%+v, %+v, %v", got, n, err)
	}
}

func TestSignedCheckpoint(t *testing.T) {
	t.Parallel()
	g := grow(300)
	for _, size := range []int64{0, 1, 300} {
		signed := g.checkpoint(t, size)
		want := fmt.Sprintf("%s\n%d\n%s\n\n— %s ", origin, size, base64.StdEncoding.EncodeToString(g.roots[size][:]), origin)
		if !strings.HasPrefix(string(signed), want) || bytes.Count(signed, []byte("\n")) != 5 {
			t.Errorf("checkpoint %q", signed)
		}
		c, n, err := tlog.OpenCheckpoint(signed, otherVKey, vkey)
		if err != nil || c.Origin != origin || c.Tree != g.tree(size) || len(n.Sigs) != 1 {
			t.Errorf("size %d: %+v, %v", size, c, err)
		}
		theirs, err := torchwood.ParseCheckpoint(n.Text)
		if err != nil || theirs.N != size || theirs.Hash != g.roots[size] || theirs.Origin != origin || theirs.Extension != "" {
			t.Errorf("torchwood reads %+v, %v", theirs, err)
		}
	}
	for _, c := range []tlog.Checkpoint{
		{Origin: "log example"}, {Origin: "log+example"}, {Origin: ""}, {Origin: "log\nexample"}, {Origin: strings.Repeat("o", 256)},
		{Origin: origin, Tree: tlog.Tree{Size: -1}}, {Origin: origin, Tree: tlog.Tree{Size: 1<<60 + 1}},
	} {
		if signed, err := c.Sign(key); err == nil {
			t.Errorf("signed %q", signed)
		}
	}
}

// OpenCheckpoint demands a signature by a trusted key in the name of the origin, and refuses any
// bad signature by a trusted key.
func TestOpenCheckpoint(t *testing.T) {
	t.Parallel()
	g := grow(5)
	good := g.checkpoint(t, 5)
	text, line, _ := strings.Cut(string(good), "\n\n")
	text += "\n"

	otherLog := tlog.VKey{Name: "other.example", Type: tlog.TypeEd25519, Public: vkey.Public}
	otherSigned, err := tlog.Checkpoint{Origin: "other.example", Tree: g.tree(5)}.Sign(key)
	if err != nil {
		t.Fatal(err)
	}
	cosigner, err := torchwood.NewCosignatureSigner("witness.example", otherKey)
	if err != nil {
		t.Fatal(err)
	}
	cosigned, err := note.Sign(&note.Note{Text: text, UnverifiedSigs: []note.Signature{signature(line)}}, cosigner)
	if err != nil {
		t.Fatal(err)
	}
	// A key in another name signs in that name what is not its log's.
	misnamed := text + "\n" + signatureLine("other.example", otherLog.ID(), ed25519.Sign(key, []byte(text)))
	wrong := signatureLine(origin, vkey.ID(), ed25519.Sign(key, []byte("other text")))
	unknown := signatureLine("unknown.example", 7, []byte("of whatever form"))

	for name, c := range map[string]struct {
		signed string
		keys   []tlog.VKey
		want   error
	}{
		"the log's key":                          {string(good), []tlog.VKey{vkey}, nil},
		"the log's key among others":             {string(good), []tlog.VKey{otherVKey, otherLog, vkey}, nil},
		"a cosignature beside":                   {string(cosigned), []tlog.VKey{vkey}, nil},
		"an unknown signature before":            {text + "\n" + unknown + line, []tlog.VKey{vkey}, nil},
		"the same signature twice":               {string(good) + line, []tlog.VKey{vkey}, nil},
		"no key":                                 {string(good), nil, tlog.ErrSignature},
		"another key":                            {string(good), []tlog.VKey{otherVKey}, tlog.ErrSignature},
		"another log's key":                      {string(good), []tlog.VKey{otherLog}, tlog.ErrSignature},
		"another log's checkpoint":               {string(otherSigned), []tlog.VKey{vkey}, tlog.ErrSignature},
		"another log's key, in its name":         {misnamed, []tlog.VKey{vkey, otherLog}, tlog.ErrSignature},
		"a wrong signature of a known key":       {text + "\n" + wrong, []tlog.VKey{vkey}, tlog.ErrSignature},
		"a wrong signature of another known key": {string(good) + signatureLine(origin, otherVKey.ID(), make([]byte, 64)), []tlog.VKey{vkey, otherVKey}, tlog.ErrSignature},
		"no signature":                           {text + "\n", []tlog.VKey{vkey}, tlog.ErrMalformed},
	} {
		if _, _, err := tlog.OpenCheckpoint([]byte(c.signed), c.keys...); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if _, _, err := tlog.OpenCheckpoint(good, tlog.VKey{Name: "w", Type: tlog.TypeCosignature, Public: vkey.Public}); err == nil || errors.Is(err, tlog.ErrMalformed) {
		t.Errorf("a cosigner's key among the log's: %v", err)
	}
}

func signatureLine(name string, id uint32, sig []byte) string {
	data := append([]byte{byte(id >> 24), byte(id >> 16), byte(id >> 8), byte(id)}, sig...)
	return "— " + name + " " + base64.StdEncoding.EncodeToString(data) + "\n"
}

// signature reads a signature line of the log.
func signature(line string) note.Signature {
	b64 := strings.TrimSuffix(strings.TrimPrefix(line, "— "+origin+" "), "\n")
	return note.Signature{Name: origin, Hash: vkey.ID(), Base64: b64}
}

// A signed checkpoint with any bit flipped is refused.
func TestCheckpointWithFlippedBit(t *testing.T) {
	t.Parallel()
	good := grow(5).checkpoint(t, 5)
	for i := range len(good) * 8 {
		changed := slices.Clone(good)
		changed[i/8] ^= 1 << (i % 8)
		if _, _, err := tlog.OpenCheckpoint(changed, vkey); !errors.Is(err, tlog.ErrMalformed) && !errors.Is(err, tlog.ErrSignature) {
			t.Fatalf("bit %d: %q: %v", i, changed, err)
		}
	}
}

func TestCheckpointRefused(t *testing.T) {
	t.Parallel()
	const root = "CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I="
	for _, text := range []string{
		"", "\n", "o\n", "o\n1\n", "o\n1\n" + root, "o\n1\n" + root + "\n\n", "o\n1\n" + root + "\nextension\n", "o\n1\n" + root + "\r\n",
		"\n1\n" + root + "\n", "o\x00\n1\n" + root + "\n", "o\r\n1\n" + root + "\n", "o\xff\n1\n" + root + "\n", strings.Repeat("o", 256) + "\n1\n" + root + "\n",
		"o\n01\n" + root + "\n", "o\n00\n" + root + "\n", "o\n+1\n" + root + "\n", "o\n-1\n" + root + "\n", "o\n-0\n" + root + "\n", "o\n1 \n" + root + "\n",
		"o\n 1\n" + root + "\n", "o\n0x1\n" + root + "\n", "o\n1_0\n" + root + "\n", "o\n1e3\n" + root + "\n", "o\n\n" + root + "\n",
		"o\n1152921504606846977\n" + root + "\n", "o\n9223372036854775808\n" + root + "\n",
		"o\n1\n" + root[:43] + "\n", "o\n1\n" + root[:42] + "J=\n", "o\n1\n" + root[:40] + "\n", "o\n1\n" + "AAAA" + root + "\n",
		"o\n1\n" + strings.ReplaceAll(root, "/", "_") + "\n", "o\n1\n" + root[:20] + "\r" + root[20:] + "\n", "o\n1\n" + root + "=\n", "o\n1\n\n",
	} {
		if c, err := tlog.ParseCheckpoint(text); !errors.Is(err, tlog.ErrMalformed) {
			t.Errorf("%q is accepted as %+v: %v", text, c, err)
		}
	}
	// Logs of others may have spaces in their origins.
	if _, err := tlog.ParseCheckpoint("go.sum database tree\n1152921504606846976\n" + root + "\n"); err != nil {
		t.Error(err)
	}
}

// What checks our own logs refuses a checkpoint with extension lines, also one that the log's key
// has signed. What reads the checkpoints of other logs returns the lines, and signatures cover
// them.
func TestExtensionLines(t *testing.T) {
	t.Parallel()
	c := tlog.ExtendedCheckpoint{Checkpoint: tlog.Checkpoint{Origin: origin, Tree: tlog.Tree{Root: tlog.EmptyRoot()}}, Extension: "a\nb c\n"}
	signed := c.Text() + "\n" + signatureLine(origin, vkey.ID(), ed25519.Sign(key, []byte(c.Text())))
	if _, _, err := tlog.OpenCheckpoint([]byte(signed), vkey); !errors.Is(err, tlog.ErrMalformed) {
		t.Errorf("our own checkpoint: %v", err)
	}
	if opened, _, err := tlog.OpenExtendedCheckpoint([]byte(signed), vkey); err != nil || opened != c {
		t.Errorf("%+v, %v", opened, err)
	}
	changed := strings.Replace(signed, "\na\n", "\nb\n", 1)
	if _, _, err := tlog.OpenExtendedCheckpoint([]byte(changed), vkey); !errors.Is(err, tlog.ErrSignature) {
		t.Errorf("a changed line: %v", err)
	}
	without, err := c.Checkpoint.Sign(key)
	if err != nil {
		t.Fatal(err)
	}
	if opened, _, err := tlog.OpenExtendedCheckpoint(without, vkey); err != nil || opened.Checkpoint != c.Checkpoint || opened.Extension != "" {
		t.Errorf("none: %+v, %v", opened, err)
	}
}

// A malformed signature line is refused. Of these, package note accepts base64 with stray bits.
func TestSignatureLineRefused(t *testing.T) {
	t.Parallel()
	good := string(grow(5).checkpoint(t, 5))
	end := strings.LastIndex(good, "=")
	stray := good[:end-1] + string(good[end-1]+1) + good[end:]
	v, err := note.NewVerifier(vkey.String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := note.Open([]byte(stray), note.VerifierList(v)); err != nil {
		t.Fatalf("x/mod refuses it too: %v", err)
	}
	unknown := signatureLine("unknown.example", 7, make([]byte, 40_000))
	for name, signed := range map[string]string{
		"stray bits":            stray,
		"a line without dash":   strings.Replace(good, "— ", "- ", 1),
		"no name":               strings.Replace(good, "— "+origin, "— ", 1),
		"no line break":         good[:len(good)-1],
		"a line more":           good + "\n",
		"carriage returns":      strings.ReplaceAll(good, "\n", "\r\n"),
		"a name with a control": good + signatureLine("a\u0080b", 7, make([]byte, 64)),
		"a short signature":     good + signatureLine("a", 7, nil),
		"101 signatures":        good + strings.Repeat(signatureLine("a", 7, make([]byte, 64)), 100),
		"more than 128 KiB":     good + strings.Repeat(unknown, 3),
	} {
		if _, _, err := tlog.ParseSignedCheckpoint([]byte(signed)); !errors.Is(err, tlog.ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// as many as the standard demands, of the length of the longest post-quantum signature
	for i := range 16 {
		good += signatureLine(fmt.Sprintf("witness%d.example", i), 7, make([]byte, 4627))
	}
	if _, _, err := tlog.OpenCheckpoint([]byte(good), vkey); err != nil {
		t.Errorf("16 long signatures: %v", err)
	}
}

// ParseCheckpoint accepts exactly the grammar. Text restores the input, and torchwood reads the
// same from it.
func FuzzCheckpoint(f *testing.F) {
	f.Add("o\n1\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n")
	f.Add(tlog.Checkpoint{Origin: origin}.Text())
	f.Add("o\n1\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\nextension\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := tlog.ParseCheckpoint(text)
		if (err == nil) != isCheckpoint(text) {
			t.Errorf("%q is read as %+v: %v", text, c, err)
		}
		extended, extendedErr := tlog.ParseExtendedCheckpoint(text)
		if extendedErr == nil && (extended.Text() != text || len(extended.Extension) > 16<<10 || strings.Contains(extended.Extension, "\n\n")) {
			t.Errorf("%q is read as %+v", text, extended)
		}
		if (err == nil) != (extendedErr == nil && extended.Extension == "") || err == nil && extended.Checkpoint != c {
			t.Errorf("%q is read as %+v: %v, and as %+v: %v", text, c, err, extended, extendedErr)
		}
		if err != nil {
			return
		}
		theirs, err := torchwood.ParseCheckpoint(text)
		if c.Text() != text || err != nil || theirs.Origin != c.Origin || theirs.N != c.Size || theirs.Hash != c.Root {
			t.Errorf("%q is read as %+v, by torchwood as %+v: %v", text, c, theirs, err)
		}
	})
}

// No forged checkpoint is accepted, and package note writes every parsed one as it was.
func FuzzSignedCheckpoint(f *testing.F) {
	good, _ := tlog.Checkpoint{Origin: origin, Tree: tlog.Tree{Root: tlog.EmptyRoot()}}.Sign(key)
	f.Add(good)
	f.Add([]byte("o\n1\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n\n— o AAAAAAAA\n"))
	f.Fuzz(func(t *testing.T, signed []byte) {
		c, n, err := tlog.ParseSignedCheckpoint(signed)
		if err != nil {
			return
		}
		again, err := note.Sign(n)
		if err != nil || !bytes.Equal(again, signed) && len(n.UnverifiedSigs) == bytes.Count(signed, []byte("\n"))-4 {
			t.Errorf("%q is written again as %q: %v", signed, again, err)
		}
		if opened, _, err := tlog.OpenCheckpoint(signed, vkey); err == nil && (opened != c || opened.Text() != string(good[:bytes.Index(good, []byte("\n\n"))+1])) {
			t.Errorf("%q counts as signed", signed)
		}
	})
}

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
	c, own := cosign(t, witnessName, witnessKey, noon)
	signed, err := c.Sign(key)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := torchwood.NewCosignatureSigner(witnessName, witnessKey)
	if err != nil {
		t.Fatal(err)
	}
	if witnessVKey.String() != signer.Verifier().String() || own.Key.String() != witnessVKey.String() || own.Time != noon.Unix() {
		t.Errorf("our key %s and cosignature %+v, torchwood's key %s", witnessVKey, own, signer.Verifier())
	}
	n, err := note.Open([]byte(string(signed)+own.Line), note.VerifierList(signer.Verifier()))
	if err != nil {
		t.Fatalf("torchwood refuses our cosignature: %v", err)
	}
	if at, err := torchwood.CosignatureTimestamp(n.Sigs[0]); err != nil || at != own.Time {
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
