package tlog_test

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"strings"
	"testing"

	"filippo.io/torchwood"

	"attestd/chain/tlog"
)

// cosigner returns name and keys of witness i of these tests.
func cosigner(i byte) (string, ed25519.PrivateKey, tlog.VKey) {
	name := fmt.Sprintf("witness.example/%d", i)
	private := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{100 + i}, ed25519.SeedSize))
	return name, private, tlog.VKey{Name: name, Type: tlog.TypeCosignature, Public: private.Public().(ed25519.PublicKey)}
}

// example returns the example of c2sp.org/tlog-policy, with keys.
func example() string {
	text := "# who is trusted\n\nlog " + vkey.String() + " https://log.example/\n"
	for i, name := range []string{"X1", "X2", "X3", "Y1", "Y2", "Y3"} {
		_, _, k := cosigner(byte(i))
		text += "witness\t" + name + "  " + k.String() + "\n"
	}
	return text + "group X-witnesses 2 X1 X2 X3\n group Y-witnesses any Y1 Y2 Y3 \n\ngroup X-and-Y all X-witnesses Y-witnesses\nquorum X-and-Y\n"
}

// Each set of the example's witnesses is a quorum exactly when the standard says so. torchwood
// agrees.
func TestPolicyExampleOfStandard(t *testing.T) {
	t.Parallel()
	text := example()
	policy, err := tlog.ParsePolicy([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := torchwood.ParsePolicy([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(policy.Logs) != 1 || policy.Logs[0].URL != "https://log.example/" || policy.Logs[0].Key.String() != vkey.String() || len(policy.Witnesses) != 6 || policy.Witnesses[5].Name != "Y3" {
		t.Errorf("%+v", policy)
	}
	c, stranger := cosign(t, "stranger.example", otherKey, noon)
	own, err := c.Sign(key)
	if err != nil {
		t.Fatal(err)
	}
	for set := range 64 {
		signed := string(own) + stranger.Line
		var x, y int
		for i := range byte(6) {
			if set>>i&1 == 0 {
				continue
			}
			if i < 3 {
				x++
			} else {
				y++
			}
			name, private, _ := cosigner(i)
			line, err := c.Cosign(name, private, noon)
			if err != nil {
				t.Fatal(err)
			}
			signed += line.Line
		}
		w, err := policy.Open([]byte(signed))
		if want := x >= 2 && y >= 1; err != nil || w.Checkpoint != c || len(w.By) != x+y || w.Quorum != want {
			t.Errorf("set %06b: %+v, %v", set, w, err)
		}
		if _, _, err := torchwood.VerifyCheckpoint([]byte(signed), theirs); (err == nil) != w.Quorum {
			t.Errorf("set %06b: %v here, torchwood says %v", set, w.Quorum, err)
		}
	}
}

// Open returns the newest cosignature of each witness. It refuses checkpoints of other logs, and
// those with a bad signature by a key of the policy.
func TestPolicyOpen(t *testing.T) {
	t.Parallel()
	text := "witness w " + witnessVKey.String() + "\nquorum w\n"
	policy, err := tlog.ParsePolicy([]byte("log " + vkey.String() + "\nlog " + otherVKey.String() + "\n" + text))
	if err != nil {
		t.Fatal(err)
	}
	c, first := cosign(t, witnessName, witnessKey, noon)
	_, second := cosign(t, witnessName, witnessKey, noon.Add(5e9))
	signed, err := c.Sign(otherKey)
	if err != nil {
		t.Fatal(err)
	}
	w, err := policy.Open([]byte(string(signed) + second.Line + first.Line))
	if err != nil || !w.Quorum || w.By["w"].Time != second.Time {
		t.Errorf("%+v, %v", w, err)
	}
	if w, err = policy.Open(signed); err != nil || w.Quorum {
		t.Errorf("not cosigned: %+v, %v", w, err)
	}
	bad := signatureLine(witnessName, witnessVKey.ID(), make([]byte, 72))
	if _, err := policy.Open([]byte(string(signed) + first.Line + bad)); !errors.Is(err, tlog.ErrSignature) {
		t.Errorf("a bad cosignature beside a good one: %v", err)
	}
	none, err := tlog.ParsePolicy([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := none.Open(append(signed, first.Line...)); !errors.Is(err, tlog.ErrSignature) {
		t.Errorf("a log that the policy does not name: %v", err)
	}
	if signed, err = c.Sign(key); err != nil {
		t.Fatal(err)
	}
	unwitnessed, err := tlog.ParsePolicy([]byte("log " + vkey.String() + "\nquorum none\n"))
	if err != nil {
		t.Fatal(err)
	}
	if w, err := unwitnessed.Open(signed); err != nil || !w.Quorum {
		t.Errorf("quorum none: %+v, %v", w, err)
	}
}

// A malformed policy is refused with an error that names the line.
func TestPolicyRefused(t *testing.T) {
	t.Parallel()
	_, _, first := cosigner(0)
	_, _, second := cosigner(1)
	renamed := first
	renamed.Name = "witness.example/other"
	otherName := vkey
	otherName.Name = "log.example/other"
	log, w1, w2 := "log "+vkey.String()+"\n", "witness a "+first.String()+"\n", "witness b "+second.String()+"\n"
	for name, test := range map[string]struct{ text, want string }{
		"nothing":                            {"", "malformed policy: it has no quorum line"},
		"no quorum":                          {log + w1, "malformed policy: it has no quorum line"},
		"two quorums":                        {"quorum none\nquorum none\n", "line 2: an earlier line is a quorum"},
		"a quorum of nobody":                 {"quorum a\n", `line 1: no earlier line defines "a"`},
		"a quorum before its witness":        {"quorum a\n" + w1, "line 1:"},
		"a quorum of two":                    {w1 + "quorum a a\n", "line 2: want quorum"},
		"a keyword in capitals":              {"Log " + vkey.String() + "\nquorum none\n", `not "Log"`},
		"a comment behind":                   {"quorum none # nobody\n", "line 1: want quorum"},
		"no last line break":                 {log + "quorum none", "line 2: the line break"},
		"a carriage return":                  {log + "quorum none\r\n", "line 2: control character at byte 12"},
		"a delete character":                 {"#\x7f\nquorum none\n", "line 1: control"},
		"a log without a key":                {"log\nquorum none\n", "line 1: want log"},
		"a log with more than a URL":         {"log " + vkey.String() + " a b\n", "line 1: want log"},
		"a log with a bad key":               {"log " + vkey.String() + "A\n", "line 1: malformed vkey"},
		"a log with a cosigner's key":        {"log " + first.String() + "\n", "line 1: log"},
		"a log twice, in another name":       {log + "log " + otherName.String() + "\n", "line 2: the key of log"},
		"a witness without a name":           {"witness " + first.String() + "\n", "line 1: want witness"},
		"a witness with a log's key":         {"witness a " + vkey.String() + "\n", `line 1: witness "a" has the key`},
		"a witness twice, in another name":   {w1 + "witness b " + renamed.String() + "\n", "line 2: the key of witness"},
		"two witnesses of one name":          {w1 + "witness a " + second.String() + "\n", `line 2: "a" is already defined`},
		"a witness named none":               {"witness none " + first.String() + "\n", `line 1: "none" is already defined`},
		"a group of nobody":                  {w1 + "group g any\n", "line 2: want group"},
		"a group that asks for none":         {w1 + "group g 0 a\n", `line 2: want all, any or a number from 1 to 1, not "0"`},
		"a group that asks for too many":     {w1 + "group g 2 a\n", `line 2: want all, any or a number from 1 to 1, not "2"`},
		"a group that asks for 01":           {w1 + "group g 01 a\n", `"01"`},
		"a group that asks for most":         {w1 + "group g most a\n", `"most"`},
		"a group of none":                    {"group g any none\n", `line 1: "none" cannot be a member`},
		"a group of itself":                  {w1 + "group g any a g\n", `line 2: no earlier line defines "g"`},
		"a group of one twice":               {w1 + "group g any a a\n", `line 2: "a" is already a member`},
		"a witness in two groups":            {w1 + w2 + "group g any a b\ngroup h any b\n", `line 4: "b" is already a member`},
		"a group that is named as a witness": {w1 + w2 + "group a any b\n", `line 3: "a" is already defined`},
		"too long":                           {strings.Repeat("#\n", 1<<19+1), "more than 1048576 bytes"},
	} {
		p, err := tlog.ParsePolicy([]byte(test.text))
		if p != nil || !errors.Is(err, tlog.ErrMalformed) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

// ParseLogs needs no quorum, and lets logs of different names share a key.
func TestParseLogs(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"log " + vkey.String() + "\nlog " + otherVKey.String() + " u\n", "log " + vkey.String() + "\n" + "log " + otherVKey.String() + "\nquorum none\n"} {
		if logs, err := tlog.ParseLogs([]byte(text)); err != nil || len(logs) != 2 || logs[1].Key.String() != otherVKey.String() {
			t.Errorf("%q: %+v, %v", text, logs, err)
		}
	}
	second := vkey
	second.Name = "log.example/second"
	both := []byte("log " + vkey.String() + "\nlog " + second.String() + "\n")
	if logs, err := tlog.ParseLogs(both); err != nil || len(logs) != 2 {
		t.Errorf("two logs with one key: %+v, %v", logs, err)
	}
	for _, text := range []string{"", "# none\n", "quorum none\n", "log x\n", "log " + vkey.String() + "\nlog " + vkey.String() + "\n"} {
		if logs, err := tlog.ParseLogs([]byte(text)); err == nil || !errors.Is(err, tlog.ErrMalformed) {
			t.Errorf("%q: %+v", text, logs)
		}
	}
}

// The name of a witness may have any bytes: a policy need not be UTF-8.
func TestPolicyNamesAreOctets(t *testing.T) {
	t.Parallel()
	p, err := tlog.ParsePolicy([]byte("witness \xff\x80 " + witnessVKey.String() + "\nquorum \xff\x80\n"))
	if err != nil || p.Witnesses[0].Name != "\xff\x80" {
		t.Errorf("%+v, %v", p, err)
	}
}

// torchwood accepts every policy that we accept, except those with a # in a name, which it reads as
// a comment.
func FuzzPolicy(f *testing.F) {
	f.Add([]byte(example()))
	f.Add([]byte("witness w " + witnessVKey.String() + " u\ngroup g 1 w\nquorum g\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := tlog.ParsePolicy(text)
		if err != nil {
			if !errors.Is(err, tlog.ErrMalformed) {
				t.Error(err)
			}
			return
		}
		if _, err := torchwood.ParsePolicy(text); err != nil && !bytes.Contains(text, []byte("#")) && isASCII(text) {
			t.Errorf("torchwood refuses %q: %v", text, err)
		}
		_, _ = p.Open([]byte("o\n0\n" + tlog.EmptyRoot().String() + "\n\n— o AAAAAAAA\n"))
	})
}

// isASCII reports whether text is ASCII. torchwood splits at other spaces of Unicode too.
func isASCII(text []byte) bool {
	return !bytes.ContainsFunc(text, func(r rune) bool { return r >= 0x80 })
}
