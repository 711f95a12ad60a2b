package web_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"attestd/chain/evidence"
	"attestd/chain/tlog"
	"attestd/internal/must"
	"attestd/internal/testenv"
)

// edited is a file in which one value replaces another.
func edited(t *testing.T, file string, change func(map[string]any)) string {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(file))
	decoder.UseNumber()
	var root map[string]any
	must.OK(t, decoder.Decode(&root))
	change(root)
	return jsonOf(t, root)
}

// Each lie that a file can tell is found, with the company's key confirmed and everything else
// genuine: no verdict on it is green, nor any part of one.
func TestBrowserForgedEvidence(t *testing.T) {
	s := startService(t, "", "")
	key := s.company("acme")
	s.attest(key, 6)
	thief := startService(t, "", "")
	stolen := thief.company("acme")
	thief.attest(stolen, 6)
	genuine, other, forged := evidenceOf(s, key, "/v1/evidence/3"), evidenceOf(s, key, "/v1/evidence/2"), evidenceOf(thief, stolen, "/v1/evidence/3")
	of := func(file, name string) (value any) {
		edited(t, file, func(f map[string]any) { value = f[name] })
		return value
	}
	steps := func(f map[string]any) []any { return f["hexProof"].(map[string]any)["proof"].([]any) }
	b := openBrowser(t, s.base)
	b.signIn(key)
	b.confirmKey(s, "acme")
	b.goTo("#/proof")
	for _, test := range []struct {
		name, code, reason string
		change             func(f map[string]any)
	}{
		{"the payload", "RECORD", "does not hash", func(f map[string]any) {
			f["record"].(map[string]any)["payload"].(map[string]any)["actionType"] = "payment.approved"
		}},
		{"a key that signed nothing here", "KEYS", "is not the one", func(f map[string]any) { f["keys"] = of(forged, "keys") }},
		{"all of its keys", "RECORD", "did not sign", func(f map[string]any) { f["keys"], f["logs"] = of(forged, "keys"), of(forged, "logs") }},
		{"a record and keys of another company", "HEX_PROOF", "do not lead", func(f map[string]any) {
			f["keys"], f["logs"], f["record"] = of(forged, "keys"), of(forged, "logs"), of(forged, "record")
		}},
		{"another record of the same log", "HEX_PROOF", "do not match record 2", func(f map[string]any) { f["record"] = of(other, "record") }},
		{"the index", "RECORD", "does not hash", func(f map[string]any) { f["record"].(map[string]any)["index"] = 2 }},
		{"the size to a smaller one", "HEX_PROOF", "do not match record 3 in a tree of 4", func(f map[string]any) { f["hexProof"].(map[string]any)["size"] = 4 }},
		{"the size to one with the same path", "LOG_PROOF", "hexProof of 7", func(f map[string]any) { f["hexProof"].(map[string]any)["size"] = 7 }},
		{"the sides of a step", "HEX_PROOF", "do not match record 3", func(f map[string]any) { steps(f)[0].(map[string]any)["position"] = "right" }},
		{"two steps", "HEX_PROOF", "do not lead", func(f map[string]any) { p := steps(f); p[0], p[1] = p[1], p[0] }},
		{"a step left out", "HEX_PROOF", "do not match record 3", func(f map[string]any) { f["hexProof"].(map[string]any)["proof"] = steps(f)[:2] }},
		{"the root", "HEX_PROOF", "do not lead", func(f map[string]any) { f["hexProof"].(map[string]any)["root"] = strings.Repeat("0", 64) }},
		{"the place in the checkpoint's tree", "LOG_PROOF", "of record 3", func(f map[string]any) {
			f["tlogProof"] = strings.Replace(f["tlogProof"].(string), "index 3\n", "index 2\n", 1)
		}},
		{"the size in the checkpoint", "LOG_PROOF", "has not signed", func(f map[string]any) { f["tlogProof"] = strings.Replace(f["tlogProof"].(string), "\n6\n", "\n7\n", 1) }},
		{"a witness that has not cosigned", "WITNESSES", "exactly the cosigners", func(f map[string]any) {
			f["witnesses"] = []string{cosigner("w.example").String()}
		}},
		{"a cosignature of nobody in the file", "LOG_PROOF", "of no witness of the file", func(f map[string]any) {
			f["tlogProof"] = cosignedBy(t, f["tlogProof"].(string), "w.example")
		}},
		{"what it does not prove", "NOT_PROVEN", "is not the list", func(f map[string]any) { f["notProven"] = f["notProven"].([]any)[1:] }},
	} {
		b.judged(test.name, edited(t, genuine, test.change), "bad")
		b.shows(fmt.Sprintf(`[data-code=%q]`, test.code))
		b.reads(`[data-evidence] .notice`, test.reason)
		b.judged("genuine", genuine, "ok")
	}
}

// cosigner is the verifier key of a witness that anyone may have made.
func cosigner(name string) tlog.VKey {
	return tlog.VKey{Name: name, Type: tlog.TypeCosignature, Public: witnessKey(name).Public().(ed25519.PublicKey)}
}

func witnessKey(name string) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(append([]byte(name), make([]byte, 32-len(name))...))
}

// cosignedBy adds the cosignature of a witness to a tlog-proof.
func cosignedBy(t *testing.T, proof, name string) string {
	t.Helper()
	_, signed, _ := strings.Cut(proof, "\n\n")
	checkpoint, _, err := tlog.ParseSignedCheckpoint([]byte(signed))
	must.OK(t, err)
	line, err := checkpoint.Cosign(name, witnessKey(name), time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC))
	must.OK(t, err)
	return proof + line.Line
}

// A file names its cosigners and their times. Whether they suffice is decided by a policy, and only
// by one that the user enters: a policy inside a file makes nothing green, and a policy that is not
// met makes the whole file red.
func TestBrowserWitnessesAndPolicy(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	whole, policy := sample(t, "whole.json"), sample(t, "policy")
	b := openBrowser(t, s.base)
	b.goTo("#/proof")
	b.judged("whole.json", whole, "warn")
	b.shows(`[data-witnesses="2"]`)
	b.reads(`[data-witnesses]`, "witness-101.example at 2026-11-21 ")
	b.reads(`[data-witnesses]`, "trust only witnesses that you know")

	// The policy of a stranger, with the file: met, and no green anywhere, before and after the key
	// is confirmed.
	b.drop("policy.txt", policy)
	b.reads(`[data-policy="met"]`, "The policy from the file accepts the checkpoint of the log actions, cosigned by a, b")
	b.reads(`.policy`, "it says only what the sender requires")
	b.shows(`[data-evidence="warn"]`)
	none := func() {
		t.Helper()
		if n := eval[int](b, `document.querySelectorAll('[data-policy] .ok, [data-policy] .warn').length`); n > 0 {
			t.Errorf("a policy that came as a file gives %d things a tone", n)
		}
	}
	none()
	b.fill(`input[name="fingerprint"]`, sampleKey)
	b.press("Compare")
	b.shows(`[data-evidence="ok"]`)
	none()

	// The user's own policy requires a cosignature that is missing: the file is red whatever else
	// verifies.
	enter := func(text string) {
		t.Helper()
		b.enter(`textarea[name="policy"]`, text)
	}
	enter(policy)
	b.reads(`[data-policy="met"] .badge.ok`, "met")
	b.reads(`[data-policy]`, "Your policy accepts")
	for name, changed := range map[string]string{
		// of the control log only one has cosigned
		"a quorum that is not there": strings.Replace(policy, "any a b", "all a b", 1),
		"another witness":            policyWith(policy, cosigner("w.example")),
		"another log":                strings.ReplaceAll(policy, "log log.example/v1/log/1111", "log log.example/v1/log/3111"),
	} {
		enter(policy)
		b.shows(`[data-evidence="ok"]`)
		enter(changed)
		b.wait(`document.querySelector('[data-evidence="bad"] [data-policy="unmet"]') || document.querySelector('.policy [role="alert"]')`)
		if name != "another log" && eval[int](b, `document.querySelectorAll('[data-evidence] .ok').length`) > 0 {
			t.Errorf("%s: green beside a policy that is not met", name)
		}
	}

	// A witness that anyone has made cosigns: the file agrees with itself, and the policy does not
	// know it.
	enter("")
	own := edited(t, whole, func(f map[string]any) {
		proof := strings.Split(f["tlogProof"].(string), "— witness-101")[0]
		f["tlogProof"] = cosignedBy(t, proof, "witness-101.example")
		f["witnesses"] = append([]any{cosigner("witness-101.example").String()}, f["witnesses"].([]any)[0])
	})
	b.judged("own-witness.json", own, "ok")
	if n := eval[int](b, `document.querySelectorAll('[data-witnesses] .ok').length`); n > 0 {
		t.Errorf("%d things are green about a witness that nobody knows", n)
	}
	enter(policy)
	b.shows(`[data-evidence="bad"] [data-policy="unmet"]`)
	// a file does not take the place of it
	b.drop("evidence.json", strings.Replace(policy, "quorum", "# a policy that asks for nothing\ngroup nobody any a\nquorum", 1))
	b.reads(`main > .page > [role="alert"]`, "You have entered a policy")
	b.shows(`[data-evidence="bad"] [data-policy="unmet"]`)
	b.reads(`[data-evidence] .notice`, "not cosigned by a quorum")

	// A cosignature claims to be from a witness of the policy, but is not.
	b.judged("broken.json", edited(t, whole, func(f map[string]any) {
		f["tlogProof"] = strings.Replace(f["tlogProof"].(string), "— witness-101.example N8ijQwAAAABr", "— witness-101.example N8ijQwAAAABs", 1)
	}), "bad")
	b.reads(`[data-evidence] .notice`, "cosignature of witness-101.example does not verify")
}

// policyWith is a policy in which one witness replaces both.
func policyWith(policy string, witness tlog.VKey) string {
	lines := strings.Split(policy, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "witness a ") {
			lines[i] = "witness a " + witness.String()
		}
		if strings.HasPrefix(line, "group ") {
			lines[i] = "group one all a"
		}
	}
	return strings.Join(lines, "\n")
}

// A small file of an earlier console is read, its record is checked, and its place is not taken for
// proven; a path that its record cannot have is refused.
func TestBrowserSmallEvidence(t *testing.T) {
	s := startService(t, "", "")
	key := s.company("acme")
	s.attest(key, 6)
	b := openBrowser(t, s.base)
	b.signIn(key)
	b.goTo("#/proof")
	b.judged("small.json", jsonOf(t, savedOf(s, key, "acme", 3)), "warn")
	b.reads(`[data-evidence] .notice`, "Holds, key not confirmed.")
	b.confirmKey(s, "acme")
	b.goTo("#/proof")
	b.judged("small.json", jsonOf(t, savedOf(s, key, "acme", 3)), "warn")
	b.reads(`[data-evidence] .notice`, "its position is not proven")
	b.reads("main", "Where the record is in the log: the maker of the file chose the chain root")
	for name, change := range map[string]func(file map[string]any, steps []any){
		"payload": func(f map[string]any, _ []any) {
			f["record"].(map[string]any)["payload"].(map[string]any)["actionType"] = "paid"
		},
		"index":             func(f map[string]any, _ []any) { f["record"].(map[string]any)["index"] = 2 },
		"root":              func(f map[string]any, _ []any) { f["root"] = strings.Repeat("0", 64) },
		"sides":             func(_ map[string]any, p []any) { p[1].(map[string]any)["position"] = "right" },
		"record":            func(f map[string]any, _ []any) { f["record"] = savedOf(s, key, "acme", 4)["record"] },
		"a path of its own": func(f map[string]any, _ []any) { f["proof"], f["root"] = []any{}, f["record"].(map[string]any)["hash"] },
	} {
		file := savedOf(s, key, "acme", 3)
		change(file, file["proof"].([]any))
		b.judged(name, jsonOf(t, file), "bad")
	}
	b.reads(`[data-evidence]`, "path")
}

// The console saves the service's own file: package evidence accepts it with the company's
// fingerprint. Proofs of the control log are drawn too.
func TestBrowserDrawsEvidence(t *testing.T) {
	s := startService(t, "", "")
	key := s.company("acme")
	s.attest(key, 6)
	b := openBrowser(t, s.base)
	b.signIn(key)
	b.confirmKey(s, "acme")
	b.goTo("#/proof/4")
	b.shows(`[data-evidence="ok"]`)
	b.reads("h2", "Prove a record")
	saved := []byte(b.download("Download evidence"))
	if v := evidence.Check(saved, evidence.Trust{Fingerprint: fingerprintOf(s, "acme")}); v.Outcome != evidence.Holds {
		t.Errorf("what was saved: %+v", v)
	}
	b.judged("saved.json", string(saved), "ok")
	b.goTo("#/proof/0?log=control")
	b.reads(`.card-head h2`, "Record 0 of the control log")
	b.shows(`[data-evidence="ok"]`)
	b.goTo("#/proof/9")
	b.reads(`[role="alert"]`, "Index out of bounds")
}

// A server that answers with evidence of another record, however genuine, is not believed.
func TestBrowserShowsTheRequestedRecord(t *testing.T) {
	s := startService(t, "", "")
	key := s.company("acme")
	s.attest(key, 6)
	another := []byte(evidenceOf(s, key, "/v1/evidence/2"))
	b := openBrowser(t, lie(t, s, func(path string, answer []byte) []byte {
		if path == "/v1/evidence/4" {
			return bytes.Clone(another)
		}
		return answer
	}))
	b.signIn(key)
	b.goTo("#/proof/4")
	b.reads(`[role="alert"]`, "evidence of another record")
	b.wait(`!document.querySelector('[data-evidence]')`)
}

// A saved file is evidence against a server that has been set back since: the history is reported
// as rewritten, although all data of the server verifies.
func TestBrowserEvidenceOutlivesARollback(t *testing.T) {
	address := freePort(t)
	s := startService(t, "", address)
	key := s.company("acme")
	s.attest(key, 4)
	var older []byte
	s = s.restart(address, func() {
		var err error
		older, err = os.ReadFile(s.db)
		must.OK(t, err)
	})
	s.attest(key, 4)
	stored := evidenceOf(s, key, "/v1/evidence/6")
	s = s.restart(address, func() { must.OK(t, os.WriteFile(s.db, older, 0o600)) })
	s.attest(key, 9)
	b := openBrowser(t, s.base)
	b.signIn(key)
	b.confirmKey(s, "acme")
	b.goTo("#/live")
	b.shows(`.pulse.ok`) // nothing in this browser contradicts it
	b.goTo("#/proof")
	b.drop("kept.json", stored) // green only until the page has compared it with the log
	b.reads("h2 .muted", "kept.json")
	b.shows(`[data-evidence="ok"]`)
	b.reads(`[data-rewritten="actions"]`, "was rewritten")
}

// The boxes of the path are reached and flipped with the keyboard alone, and say what they are.
func TestBrowserProofByKeyboard(t *testing.T) {
	s := startService(t, "", "")
	b := openBrowser(t, s.base)
	b.look(look{1280, "light"})
	b.goTo("#/proof")
	b.judged("whole.json", sample(t, "whole.json"), "warn")
	axe, err := os.ReadFile("testdata/axe/axe.min.js")
	must.OK(t, err)
	eval[bool](b, string(axe)+"; true")
	must.OK(t, chromedp.Do(b.ctx, chromedp.Focus(chromedp.CSS(".path .sibling"))))
	b.wait(`document.activeElement.textContent.startsWith('sibling 1') && document.activeElement.getAttribute('role') === 'button'`)
	press := func(keys ...string) {
		t.Helper()
		for _, key := range keys {
			must.OK(t, chromedp.Do(b.ctx, chromedp.KeyEvent(key)))
		}
	}
	press(kb.Tab)
	b.wait(`document.activeElement.textContent.startsWith('sibling 2')`)
	press(kb.Enter)
	b.shows(`[data-walk="bad"] .sibling.bad[aria-pressed="true"]`)
	b.audit("a flipped box")
	press(" ")
	b.shows(`[data-walk="warn"]`)
	b.wait(`!document.querySelector('.path [aria-pressed="true"]')`)
}
