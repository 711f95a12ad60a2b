package web_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"attestd/internal/testenv"
)

// If a user has confirmed one key, the keys that follow from it are green too: live, in the chain,
// in proofs and evidence, on a page that is open while the key changes, and after a reload.
func TestBrowserAcrossARotation(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := s.company("acme")
	s.attest(key, 3)
	// they name the first key alone
	before, small := evidenceOf(s, key, "/v1/evidence/1"), savedOf(s, key, "acme", 1)
	b := openBrowser(t, s.base)
	b.signIn(key)
	b.confirmKey(s, "acme")
	b.goTo("#/live")
	b.shows(`.pulse.ok[data-tone="ok"]`)

	s.api("POST", "/v1/companies/rotate-keys", key, nil)
	s.attest(key, 2)
	second := evidenceOf(s, key, "/v1/evidence/4")
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

	b.goTo("#/proof")
	// all of it signed with keys that were declared compromised since
	b.judged("before.json", before, "warn")
	b.reads(`[data-origin="warn"]`, "declared this key compromised")
	after := evidenceOf(s, key, "/v1/evidence/5")
	b.judged("after.json", after, "ok")
	b.reads(`[data-origin="ok"]`, "It follows from the key that you confirmed for acme.")
	b.judged("second.json", second, "warn")
	b.reads(`[data-origin="warn"]`, "declared this key compromised")
	b.judged("saved.json", jsonOf(t, small), "warn") // of a small file only the record is proven
	// names the newest key alone, which only the server's list ties to the one that was confirmed
	saved := savedOf(s, key, "acme", 5)
	b.judged("saved-after.json", jsonOf(t, saved), "warn")
	b.reads(`[data-evidence] .notice`, "The record is genuine, its position is not proven.")
	// the newest key over a record of the first
	b.judged("mixed.json", jsonOf(t, savedOf(s, key, "acme", 1)), "bad")

	ring := s.api("GET", "/v1/ca/public-keys?companyId=acme", "", nil)
	var list []any
	for _, k := range ring["keys"].([]any) {
		one := k.(map[string]any)
		one["x"] = one["jwk"].(map[string]any)["x"]
		delete(one, "jwk")
		delete(one, "createdAt")
		list = append(list, one)
	}
	saved["keys"] = map[string]any{"origin": ring["origin"], "list": list}
	s.stop()
	b.judged("offline.json", after, "ok") // the file brings the proof itself
	b.judged("saved-offline.json", jsonOf(t, saved), "warn")
	b.reads(`[data-origin="ok"]`, "It follows from the key that you confirmed for acme.")
	list[1].(map[string]any)["rotation"].(map[string]any)["statement"] = "attestd/key-rotation/v2\n"
	b.drop("unproven.json", jsonOf(t, saved))
	b.wait(`[...document.querySelectorAll('.notice')].some((n) => n.textContent.includes('nothing proves that key'))`)
	b.judged("unproven.json", strings.ReplaceAll(after, `"statement":"attestd/key-rotation/v2\n`, `"statement":"attestd/key-rotation/v2\nx`), "bad")
	b.shows(`[data-code="KEYS"]`)
}

// A key without a proof from the confirmed key is red, whatever it signed.
func TestBrowserRefusesAKeyThatIsNotProven(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := s.company("acme")
	s.attest(key, 2)
	s.api("POST", "/v1/companies/rotate-keys", key, nil)
	s.attest(key, 2)
	lying := false
	base := lie(t, s, func(path string, answer []byte) []byte {
		if path == "/v1/ca/public-keys" && lying {
			return bytes.Replace(answer, []byte(`attestd/key-rotation/v2\n`), []byte(`attestd/key-rotation/v2\nx`), 1)
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
	other.reads(`[data-key-state="other"]`, "The server’s list of keys is invalid")
	if green := eval[int](other, `document.querySelectorAll('main .ok').length`); green > 0 {
		t.Errorf("%d things are green", green)
	}
}
