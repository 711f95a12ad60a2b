package test

import (
	"crypto/ed25519"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"testing"

	bundle "attestd/chain/evidence"

	"attestd/chain"
	"attestd/chain/tlog"
	"attestd/crypto/jcs"
	"attestd/crypto/keyring"
	"attestd/crypto/keys"
	"attestd/internal/must"
	"attestd/internal/testenv"

	modtlog "golang.org/x/mod/sumdb/tlog"
)

// ownFile is a file about the first record of a company, and what may be changed of it before it is
// signed.
type ownFile struct {
	signer  *signer
	payload string // JSON
	// size of the tree of the control log, with a record of which agent:bot is the subject; 0 for
	// none
	control int64

	next      *signer // or nil: whose key follows from record 1 on
	statement string  // of that rotation
}

// build signs all of a file. Its trees are made from the record upwards: of all else in them only
// hashes are known.
func (o ownFile) build(t *testing.T) []byte {
	t.Helper()
	origin := func(n string) (id, name string) {
		id = strings.Repeat(n, 32)
		return id, "log.example/v1/log/" + id
	}
	sealed := func(payload string) chain.Record {
		r := chain.Record{Timestamp: "2026-11-21T09:00:01.000Z", Payload: []byte(payload)}
		canonical, err := jcs.Append(nil, r.Payload, 160)
		must.OK(t, err)
		r.Hash = r.ComputeHash(canonical)
		copy(r.Signature[:], ed25519.Sign(o.signer.private, r.Hash[:]))
		return r
	}
	proof := func(r *chain.Record, origin string, size int64) string {
		leaf := tlog.NewLeaf(r.Hash, r.Signature, tlog.KeyDigest(o.signer.public()))
		p, node := tlog.Proof{Index: r.Index}, leaf.Hash()
		for n := size - 1; n > 0; n /= 2 { // the first record of a tree is always on the left
			p.Hashes = append(p.Hashes, tlog.Hash{1})
			node = modtlog.NodeHash(node, tlog.Hash{1})
		}
		last := o.signer
		if o.next != nil {
			last = o.next
		}
		signed, err := tlog.Checkpoint{Origin: origin, Tree: tlog.Tree{Size: size, Root: node}}.Sign(last.private)
		must.OK(t, err)
		p.Checkpoint = signed
		return string(p.Format())
	}
	key := []keyring.Key{{Public: o.signer.public()}}
	id, name := origin("1")
	r := sealed(`{"agentId":"bot","companyId":"acme","actionType":"pay","payload":` + o.payload + `}`)
	f := bundle.File{
		CompanyID: "acme", Log: bundle.Actions, Record: r, HexProof: bundle.HexProof{Root: r.Hash, Size: 1}, Proof: proof(&r, name, 1),
		Logs: []bundle.Log{{Name: bundle.Actions, ID: id, Origin: name, Keys: key}}, Keys: []ed25519.PublicKey{o.signer.public()}, Witnesses: []string{},
	}
	if o.next != nil {
		text := []byte(o.statement)
		f.Keys = append(f.Keys, o.next.public())
		f.Logs[0].Keys = append(key, keyring.Key{Generation: 1, Public: o.next.public(), From: 1, Rotation: &keyring.Rotation{
			Statement: o.statement, OldSignature: ed25519.Sign(o.signer.private, text), NewSignature: ed25519.Sign(o.next.private, text),
		}})
	}
	if o.control > 0 {
		id, name := origin("2")
		r := sealed(`{"agentId":"service","companyId":"acme","actionType":"agent.registered","payload":{"subject":"agent:bot","by":null},"log":"control"}`)
		f.Logs = append(f.Logs, bundle.Log{Name: bundle.Control, ID: id, Origin: name, Keys: key})
		f.Authority = &bundle.Authority{Entries: []bundle.Entry{{Record: r, Proof: proof(&r, name, o.control)}}}
	}
	return f.JSON()
}

func (o ownFile) fingerprint() string { return keys.Describe(o.signer.public()).Fingerprint }

// sizeCases are genuine except for the size of a tree: JSON carries sizes up to 2⁵³-1 to every
// reader.
func sizeCases(t *testing.T) (all []evidenceCase) {
	t.Helper()
	s := newSigner(t, "acme")
	for _, size := range []int64{1, 1 << 32, 1<<53 - 1, 1 << 53, 1<<53 + 1, 1 << 60} {
		file := ownFile{signer: s, payload: `1`, control: size}
		all = append(all, evidenceCase{Name: fmt.Sprintf("a control log of %d records", size), File: file.build(t), Key: file.fingerprint()})
	}
	return all
}

// rotationCases are genuine except for the statement with which a key follows another: both keys
// have signed it.
func rotationCases(t *testing.T) (all []evidenceCase) {
	t.Helper()
	s, next := newSigner(t, "acme"), newSigner(t, "acme")
	for name, form := range statementForms("log.example/v1/log/"+strings.Repeat("1", 32), 1, s, next) {
		file := ownFile{signer: s, payload: `1`, next: next, statement: form.text}
		c := evidenceCase{Name: "a rotation with " + name, File: file.build(t), Key: file.fingerprint()}
		if holds := c.verdict() == "holds"; holds != form.genuine {
			t.Errorf("%s: %s", c.Name, c.verdict())
		}
		all = append(all, c)
	}
	return all
}

// largest is the greatest n for which a payload makes a file that is neither too heavy nor too
// long.
func largest(t *testing.T, s *signer, payload func(n int) string) int {
	t.Helper()
	around := string(ownFile{signer: s, payload: `"HERE"`}.build(t))
	return sort.Search(3<<20, func(n int) bool {
		file := []byte(strings.Replace(around, `"HERE"`, payload(n), 1))
		return len(file) > bundle.MaxSize || bundle.Bounded(file) != nil
	}) - 1
}

// A file of up to 64 MiB is checked within a limit on memory, whatever it contains, and all
// checkers give the same verdict: files as long or as heavy as they may be, and others by a little
// more.
func TestLargeEvidence(t *testing.T) {
	testenv.Needs(t, testenv.Slow, testenv.NotRaced)
	t.Parallel()
	s := newSigner(t, "acme")
	numbers := func(n int) string { return "[" + strings.Repeat("1,", n) + "1]" }
	escapes := func(n int) string { return `"` + strings.Repeat(`\n`, n) + `"` }
	members := func(n int) string {
		var list strings.Builder
		list.WriteString(`{"":0`)
		for i := range n { // no two are in order
			fmt.Fprintf(&list, `,"%07x":1`, i*7919%(1<<24-3))
		}
		return list.String() + "}"
	}
	character := func(n int) string { return `"` + strings.Repeat("a", n) + `😀"` }
	filled := func(payload string) string {
		return "[" + payload + "," + character(bundle.MaxSize-len(ownFile{signer: s, payload: payload}.build(t))-len(`[,"😀"]`)) + "]"
	}
	fit := largest(t, s, numbers)
	type largeCase struct{ name, payload, want string }
	cases := []largeCase{
		{"a text to the end", filled("1"), "holds"},
		{"a number too many", numbers(fit + 1), "fails MALFORMED"},
	}
	if testenv.Night() {
		heavy := members(largest(t, s, members) - 1)
		long := bundle.MaxSize - len(ownFile{signer: s, payload: character(0)}.build(t))
		cases = append(cases, []largeCase{
			{"a large object, and a text to the end", filled(heavy), "holds"},
			{"as many numbers as fit", numbers(fit), "holds"},
			{"millions of escapes", escapes(3_600_000), "fails MALFORMED"},
			{"as many escapes as fit", escapes(largest(t, s, escapes)), "holds"},
			{"a text as long as fits", character(long), "holds"},
			{"a text too long by a byte", character(long + 1), "fails MALFORMED"},
			{"numbers to the end", numbers(bundle.MaxSize/2 - 1000), "fails MALFORMED"},
		}...)
	}
	dir := t.TempDir()
	for _, c := range cases {
		file := filepath.Join(dir, "file")
		must.OK(t, os.WriteFile(file, ownFile{signer: s, payload: c.payload}.build(t), 0o600))
		for name, judge := range largeCheckers(t, file, ownFile{signer: s}.fingerprint()) {
			verdict, peak := judge.run(t)
			if verdict != c.want {
				t.Errorf("%s, %s: %s, want %s", name, c.name, verdict, c.want)
			}
			if t.Logf("%s, %s: %s, %d MiB", name, c.name, verdict, peak); peak > judge.most {
				t.Errorf("%s, %s: it took %d MiB, more than %d", name, c.name, peak, judge.most)
			}
		}
	}
}

// largeChecker is a command that checks a file, and the memory that it may use, in MiB.
type largeChecker struct {
	most int64
	args []string
}

// largeCheckers are attestd check, check.py, check.mjs, and the modules of verifier.html. V8 and
// Python hold a text in as many bytes for each character as the widest takes, and V8 collects late.
func largeCheckers(t *testing.T, file, fingerprint string) map[string]largeChecker {
	t.Helper()
	abs := func(path string) string {
		absolute, err := filepath.Abs(path)
		must.OK(t, err)
		return absolute
	}
	command, err := binary(t)
	must.OK(t, err)
	const whole = bundle.MaxSize >> 20
	return map[string]largeChecker{
		"command":    {7 * whole, []string{command, "check", file, "--key", fingerprint}},
		"Python":     {12 * whole, []string{pythonWithCryptography(t), abs("../sdk/python/attestd/check.py"), file, "--key", fingerprint}},
		"JavaScript": {10 * whole, []string{testenv.Path(t, "node"), abs("../web/check.mjs"), file, "--key", fingerprint}},
		"page":       {14 * whole, []string{testenv.Path(t, "node"), abs("testdata/verdict_large.mjs"), abs("../web/console"), file, fingerprint}},
	}
}

// run returns the verdict of a checker and the most memory that it had, in MiB.
func (c *largeChecker) run(t *testing.T) (verdict string, peak int64) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), pythonWithCryptography(t), append([]string{"testdata/peak.py"}, c.args...)...)
	printed, err := cmd.CombinedOutput()
	must.OK(t, err)
	answer, last, _ := strings.Cut(string(printed), "\npeak ")
	peak, err = strconv.ParseInt(strings.TrimSpace(last), 10, 64)
	must.OK(t, err)
	for _, code := range []string{"MALFORMED", "KEYS", "RECORD", "LOG_PROOF", "DELEGATION", "NOT_PROVEN", "KEY"} {
		if strings.Contains(answer, code+":") || strings.Contains(answer, "fails "+code) {
			return "fails " + code, peak >> 10
		}
	}
	if !strings.Contains(answer, "holds") {
		t.Fatalf("no verdict: %.500s", answer)
	}
	return "holds", peak >> 10
}
