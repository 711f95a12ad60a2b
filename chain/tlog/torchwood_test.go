package tlog_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/binary"
	"math"
	"strconv"
	"strings"
	"testing"

	"filippo.io/torchwood"
	"golang.org/x/mod/sumdb/note"

	"attestd/chain/tlog"
)

// accepts says of an input whether we accept it, and whether torchwood does.
type accepts func(input string) (ours, theirs bool)

func acceptsVKey(vkey string) (ours, theirs bool) {
	_, err := tlog.ParseVKey(vkey)
	_, logErr := note.NewVerifier(vkey)
	_, cosignerErr := torchwood.NewCosignatureVerifier(vkey)
	return err == nil, logErr == nil || cosignerErr == nil
}

func acceptsPolicy(text string) (ours, theirs bool) {
	_, err := tlog.ParsePolicy([]byte(text))
	_, theirErr := torchwood.ParsePolicy([]byte(text))
	return err == nil, theirErr == nil
}

func acceptsCheckpoint(text string) (ours, theirs bool) {
	_, err := tlog.ParseCheckpoint(text)
	_, theirErr := torchwood.ParseCheckpoint(text)
	return err == nil, theirErr == nil
}

func acceptsTilePath(path string) (ours, theirs bool) {
	_, err := tlog.ParseTilePath(path)
	_, theirErr := torchwood.ParseTilePath(path)
	return err == nil, theirErr == nil
}

// acceptsCosignatures checks the lines of a witness below a checkpoint that it cosigns.
func acceptsCosignatures(t *testing.T) accepts {
	c, _ := cosign(t, witnessName, witnessKey, noon)
	verifier, err := torchwood.NewCosignatureVerifier(witnessVKey.String())
	if err != nil {
		t.Fatal(err)
	}
	return func(lines string) (ours, theirs bool) {
		list, err := c.ParseCosignatures([]byte(lines), witnessVKey)
		_, theirErr := note.Open([]byte(c.Text()+"\n"+lines), note.VerifierList(verifier))
		return err == nil && len(list) > 0, theirErr == nil
	}
}

// acceptsProof checks the proof of a leaf, whose checkpoint the log has signed.
func acceptsProof(t *testing.T, leaf tlog.Hash) accepts {
	verifier, err := note.NewVerifier(vkey.String())
	if err != nil {
		t.Fatal(err)
	}
	policy := torchwood.ThresholdPolicy(2, torchwood.OriginPolicy(origin), torchwood.SingleVerifierPolicy(verifier))
	return func(text string) (ours, theirs bool) {
		p, err := tlog.ParseProof([]byte(text))
		if err == nil {
			_, err = p.Check(leaf, vkey)
		}
		return err == nil, torchwood.VerifyProof(policy, leaf, []byte(text)) == nil
	}
}

// docs/design/append.md says which parsers stay our own, and why: they refuse what torchwood
// accepts. Where torchwood has become as strict, this test fails, and its parser can replace ours.
func TestStricterThanTorchwood(t *testing.T) {
	t.Parallel()
	const root = "CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I="
	named := func(name string) string { return tlog.VKey{Name: name, Type: 1, Public: vkey.Public}.String() }
	_, _, first := cosigner(0)
	renamed := first
	renamed.Name += "/again"
	witness := "witness a " + first.String() + "\n"

	c, good := cosign(t, witnessName, witnessKey, noon)
	timed := func(at uint64) string {
		text := "cosignature/v1\ntime " + strconv.FormatUint(at, 10) + "\n" + c.Text()
		return signatureLine(witnessName, witnessVKey.ID(), append(binary.BigEndian.AppendUint64(nil, at), ed25519.Sign(witnessKey, []byte(text))...))
	}
	bad := signatureLine(witnessName, witnessVKey.ID(), make([]byte, 72))

	g := grow(21)
	l := leaf(9)
	proof := string(proofOf(t, g, 21, 9).Format())
	inProof := func(old, new string) string { return strings.Replace(proof, old, new, 1) }
	extended := tlog.Checkpoint{Origin: origin, Tree: g.tree(21)}.Text() + "extension\n"
	end := strings.Index(proof, "\n\n")
	extendedProof := proof[:end+2] + extended + "\n" + signatureLine(origin, vkey.ID(), ed25519.Sign(key, []byte(extended)))

	for form, test := range map[string]struct {
		accepts accepts
		valid   string
		odd     map[string]string
	}{
		"vkey": {acceptsVKey, vkey.String(), map[string]string{
			"a key ID in capitals":   strings.Replace(vkey.String(), strconv.FormatUint(uint64(vkey.ID()), 16), strings.ToUpper(strconv.FormatUint(uint64(vkey.ID()), 16)), 1),
			"a line break in base64": vkey.String()[:len(vkey.String())-4] + "\n" + vkey.String()[len(vkey.String())-4:],
			"a control in the name":  named("log\x01example"),
			"a name of 256 bytes":    named(strings.Repeat("n", 256)),
		}},
		"cosignature": {acceptsCosignatures(t), good.Line, map[string]string{
			"time 0":                   timed(0),
			"a time of 2^63":           timed(math.MaxInt64 + 1),
			"base64 with stray bits":   strings.Replace(good.Line, "==\n", "", 1)[:len(good.Line)-4] + nextInBase64(good.Line[len(good.Line)-4]) + "==\n",
			"a bad one behind it":      good.Line + bad,
			"a control in a neighbour": good.Line + signatureLine("a\u0080b", 7, make([]byte, 64)),
		}},
		"policy": {acceptsPolicy, "log " + vkey.String() + "\n" + witness + "quorum a\n", map[string]string{
			"one witness twice in a group": witness + "group g 2 a a\nquorum g\n",
			"one key under two names":      witness + "witness b " + renamed.String() + "\ngroup g all a b\nquorum g\n",
			"a quorum of two":              witness + "quorum a a\n",
			"a quorum before its witness":  "quorum a\n" + witness,
			"a log with more than a URL":   "log " + vkey.String() + " a b\nquorum none\n",
			"a comment behind a line":      "quorum none # nobody\n",
			"a carriage return":            "quorum none\r\n",
			"no last line break":           "quorum none",
			"a threshold of 01":            witness + "group g 01 a\nquorum g\n",
			"a witness that is named none": "witness none " + first.String() + "\nquorum none\n",
			"a megabyte of comments":       strings.Repeat("#\n", 1<<19) + "quorum none\n",
		}},
		"proof": {acceptsProof(t, l.Hash()), proof, map[string]string{
			"an index with a leading zero": inProof("index 9", "index 09"),
			"an index with a sign":         inProof("index 9", "index +9"),
			"an empty extra":               inProof("index 9", "extra \nindex 9"),
			"extra with stray bits":        inProof("index 9", "extra QR==\nindex 9"),
			"extra over 64 KiB":            inProof("index 9", "extra "+base64.StdEncoding.EncodeToString(make([]byte, 64<<10+1))+"\nindex 9"),
			"a hash with stray bits":       proof[:end-2] + nextInBase64(proof[end-2]) + proof[end-1:],
			"a carriage return in a hash":  proof[:end-4] + "\r" + proof[end-4:],
			"an extended checkpoint":       extendedProof,
		}},
		"checkpoint": {acceptsCheckpoint, "o\n1\n" + root + "\n", map[string]string{
			"an extension line":     "o\n1\n" + root + "\nextension\n",
			"no origin":             "\n1\n" + root + "\n",
			"a control in origin":   "o\x00\n1\n" + root + "\n",
			"an origin of 256":      strings.Repeat("o", 256) + "\n1\n" + root + "\n",
			"a size above 2^60":     "o\n1152921504606846977\n" + root + "\n",
			"a root with stray bit": "o\n1\n" + root[:42] + "J=\n",
			"a carriage return":     "o\n1\n" + root + "\r\n",
		}},
		"tile path": {acceptsTilePath, "tile/0/x001/234.p/5", map[string]string{
			"of Go's own scheme":  "tile/data/000",
			"a level above 63":    "tile/64/000",
			"an index above 2^60": "tile/0/x001/x152/x921/x504/x606/x846/977",
		}},
	} {
		if ours, theirs := test.accepts(test.valid); !ours || !theirs {
			t.Errorf("%s %q: accepted here %v, by torchwood %v", form, test.valid, ours, theirs)
		}
		for name, input := range test.odd {
			if ours, theirs := test.accepts(input); ours || !theirs {
				t.Errorf("%s: %s: %.200q: accepted here %v, by torchwood %v", form, name, input, ours, theirs)
			}
		}
	}
}

// nextInBase64 is the digit that differs from an even one in the lowest bit alone.
func nextInBase64(digit byte) string {
	const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	return digits[strings.IndexByte(digits, digit)^1:][:1]
}

// Of a policy with two logs a checkpoint needs the signature of one; torchwood asks for both.
func TestPolicyOfTwoLogs(t *testing.T) {
	t.Parallel()
	text := []byte("log " + vkey.String() + "\nlog " + otherVKey.String() + "\nquorum none\n")
	policy, err := tlog.ParsePolicy(text)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := torchwood.ParsePolicy(text)
	if err != nil {
		t.Fatal(err)
	}
	signed := grow(5).checkpoint(t, 5)
	if w, err := policy.Open(signed); err != nil || !w.Quorum {
		t.Errorf("%+v, %v", w, err)
	}
	if _, _, err := torchwood.VerifyCheckpoint(signed, theirs); err == nil {
		t.Error("torchwood asks for one log's signature: its policy can replace ours")
	}
}
