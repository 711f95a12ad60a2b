package web_test

import (
	"bytes"
	"fmt"
	"testing"
)

// Who confirmed one key sees green under those that follow from it: live, in the chain, in proofs and evidence, with the page open while the
// key changes and after a reload.
func TestBrowserAcrossARotation(t *testing.T) {
	s := startService(t, "", "")
	key := s.company("acme")
	s.attest(key, 3)
	before := evidenceOf(s, key, "acme", 1) // names the first key alone
	b := openBrowser(t, s.base)
	b.signIn(key)
	b.confirmKey(s, "acme")
	b.goTo("#/live")
	b.shows(`.pulse.ok[data-tone="ok"]`)

	s.api("POST", "/v1/companies/rotate-keys", key, nil)
	s.attest(key, 2)
	b.shows(`li[data-index="4"][data-check="ok"]`)
	b.shows(`.pulse.ok[data-tone="ok"]`)
	s.api("POST", "/v1/companies/rotate-keys", key, map[string]any{"compromised": true})
	s.attest(key, 2)
	for _, index := range []int{0, 3, 6} {
		b.goTo(fmt.Sprintf("#/chain/%d", index))
		b.shows(`dialog [data-check="ok"]`)
		b.goTo(fmt.Sprintf("#/proof/%d", index))
		b.shows(`[data-evidence="ok"] [data-origin="ok"]`)
	}
	b.goTo("#/verify")
	b.press("Verify the whole chain")
	b.shows(`[data-verdict="valid"][data-tone="ok"]`)

	drop := func(name string, file map[string]any, tone string) {
		t.Helper()
		b.drop(name, jsonOf(t, file))
		b.reads("h2 .muted", name)
		b.shows(fmt.Sprintf(`[data-evidence=%q] [data-origin=%q]`, tone, tone))
	}
	b.goTo("#/proof")
	drop("before.json", before, "ok")
	after := evidenceOf(s, key, "acme", 5) // names the newest key alone, which only the server's list ties to the one that was confirmed
	drop("after.json", after, "ok")
	drop("mixed.json", evidenceOf(s, key, "acme", 1), "bad") // the newest key over a record of the first

	ring := s.api("GET", "/v1/ca/public-keys?companyId=acme", "", nil)
	var list []any
	for _, k := range ring["keys"].([]any) {
		one := k.(map[string]any)
		one["x"] = one["jwk"].(map[string]any)["x"]
		delete(one, "jwk")
		delete(one, "createdAt")
		list = append(list, one)
	}
	after["keys"] = map[string]any{"origin": ring["origin"], "list": list}
	s.stop()
	drop("offline.json", after, "ok") // the file brings the proof itself
	list[1].(map[string]any)["rotation"].(map[string]any)["statement"] = "attestd/key-rotation/v1\n"
	b.drop("unproven.json", jsonOf(t, after))
	b.reads(`[role="alert"], .notice`, "nothing proves that key")
}

// A key that nothing ties to the one that was confirmed is red, whatever it signed.
func TestBrowserRefusesAKeyThatIsNotProven(t *testing.T) {
	s := startService(t, "", "")
	key := s.company("acme")
	s.attest(key, 2)
	s.api("POST", "/v1/companies/rotate-keys", key, nil)
	s.attest(key, 2)
	lying := false
	base := lie(t, s, func(path string, answer []byte) []byte {
		if path == "/v1/ca/public-keys" && lying {
			return bytes.Replace(answer, []byte(`attestd/key-rotation/v1\n`), []byte(`attestd/key-rotation/v1\nx`), 1)
		}
		return answer
	})
	b := openBrowser(t, base)
	b.signIn(key)
	b.confirmKey(s, "acme")
	b.goTo("#/live")
	b.shows(`.pulse[data-tone="ok"]`)
	lying = true
	other := openBrowser(t, base)
	other.signIn(key)
	other.goTo("#/live")
	other.shows(`.pulse[data-tone="bad"]`)
	other.reads(`[data-standing="other"]`, "The server’s list of keys does not hold")
	if green := eval[int](other, `document.querySelectorAll('main .ok').length`); green > 0 {
		t.Errorf("%d things are green", green)
	}
}
