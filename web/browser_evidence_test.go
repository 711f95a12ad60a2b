package web_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"attestd/internal/must"
	"attestd/internal/testenv"
)

// evidenceOf is the file of a path of the service, byte for byte.
func evidenceOf(s *service, key, path string) string {
	s.t.Helper()
	r, err := http.NewRequest("GET", s.base+path, nil)
	must.OK(s.t, err)
	r.Header.Set("Authorization", "Bearer "+key)
	response, err := client.Do(r)
	must.OK(s.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	must.OK(s.t, err)
	if response.StatusCode != 200 {
		s.t.Fatalf("%s: %d %s", path, response.StatusCode, text)
	}
	return string(text)
}

// savedOf is the small file of a record that earlier consoles saved.
func savedOf(s *service, key, companyID string, index int) map[string]any {
	s.t.Helper()
	published := s.api("GET", "/v1/ca/public-key?companyId="+companyID, "", nil)
	file := s.api("GET", fmt.Sprintf("/v1/proof/%d", index), key, nil)
	file["type"], file["v"], file["savedAt"] = "attestd-evidence", 1, "2026-01-01T00:00:00.000Z"
	file["publicKey"] = map[string]any{
		"companyId": companyID, "spiffeId": published["spiffeId"], "kid": published["kid"], "fingerprint": published["fingerprint"],
		"pem": published["pem"], "x": published["jwk"].(map[string]any)["x"],
	}
	return file
}

func jsonOf(t testing.TB, v any) string {
	t.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	must.OK(t, enc.Encode(v))
	return b.String()
}

// fingerprintOf is that of the key that a service publishes for a company.
func fingerprintOf(s *service, companyID string) string {
	s.t.Helper()
	return s.api("GET", "/v1/ca/public-key?companyId="+companyID, "", nil)["fingerprint"].(string)
}

// judged drops a file and waits for its verdict: ok, warn or bad. What is bad must show nothing in
// green, and what is warn neither, but for the record of a small file whose key is confirmed.
func (b *browser) judged(name, file, tone string) {
	b.t.Helper()
	b.drop(name, file)
	b.reads("h2 .muted", name)
	b.shows(fmt.Sprintf(`[data-evidence=%q]`, tone))
	b.wait(`document.querySelector('[data-walk]')?.dataset.walk !== 'walking'`)
	if eval[bool](b, `[...document.querySelectorAll('summary')].some((s) => s.textContent === 'Record')`) {
		b.press("Record")
		b.shows(`details [data-check="ok"], details [data-check="warn"], details [data-check="bad"]`)
	}
	green := eval[int](b, `((shown) => shown.querySelectorAll('.ok, .lit').length - shown.querySelectorAll('.walk-picture:not(.ok) .lit').length)(document.querySelector('[data-evidence]').parentElement)`)
	if (green > 0) != (tone == "ok" || tone == "warn" && eval[bool](b, `document.querySelector('[data-origin="ok"]') !== null`)) {
		b.t.Errorf("%s: %d green things beside a verdict that is %s", name, green, tone)
	}
}

// An unconfirmed key is never green, and a file signed with another key than the company's is red,
// however well it agrees with itself.
func TestBrowserEvidenceOfAnotherKey(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := s.company("acme")
	s.attest(key, 5)
	// The attacker has a company of the same name, and signs with a key of its own.
	thief := startService(t, "", "")
	stolen := thief.company("acme")
	thief.attest(stolen, 5)
	globex := thief.company("globex")
	thief.attest(globex, 1)
	genuine := evidenceOf(s, key, "/v1/evidence/3")
	forged := evidenceOf(thief, stolen, "/v1/evidence/3")
	unknown := evidenceOf(thief, globex, "/v1/evidence/0")
	right, wrong := fingerprintOf(s, "acme"), fingerprintOf(thief, "acme")

	b := openBrowser(t, s.base)
	b.look(look{1280, "light"})
	b.goTo("#/proof")
	b.judged("genuine.json", genuine, "warn")
	b.reads(`[data-origin="warn"]`, "This server publishes this key for acme; you have not confirmed it.")
	b.judged("forged.json", forged, "bad")
	b.reads(`[data-evidence] .notice`, "Another key signed this.")
	b.reads(`[data-origin="bad"]`, "This server publishes another key for acme")
	b.judged("unknown.json", unknown, "warn")
	b.reads(`[data-origin="warn"]`, "This key came with the file; you have not confirmed it.")

	// The wrong fingerprint confirms nothing, and the right one makes what it signed green, here
	// and in a file dropped later, and nothing else.
	b.judged("genuine.json", genuine, "warn")
	b.fill(`input[name="fingerprint"]`, wrong)
	b.press("Compare")
	b.reads(`.confirm-key [role="alert"]`, "another key")
	b.shows(`[data-evidence="warn"]`)
	b.fill(`input[name="fingerprint"]`, right)
	b.press("Compare")
	b.shows(`[data-evidence="ok"] [data-origin="ok"]`)
	b.reads(`[data-evidence] .notice`, "Holds.")
	b.judged("genuine-again.json", genuine, "ok")
	b.judged("forged.json", forged, "bad")
	b.reads(`[data-origin]`, "You confirmed another key for acme.")
	b.judged("unknown.json", unknown, "warn")

	// No server can change this: without the server, the confirmed key is still green and the
	// others still are not.
	s.stop()
	b.judged("genuine-offline.json", genuine, "ok")
	b.judged("forged-offline.json", forged, "bad")
}

// strange are values that have no place in evidence. The first is what Preact would take for an
// element of its own.
var strange = []string{
	`{"__b":1,"type":"div","props":{"id":"injected","style":"position:fixed;inset:0","children":"pay here"},"constructor":null,"key":null,"ref":null}`,
	`{"__b":1,"type":"meta","props":{"http-equiv":"refresh","content":"0;url=/?injected","id":"injected"}}`,
	`[{"type":"a","props":{"href":"/?injected","id":"injected","children":"x"},"__v":null}]`,
	`null`, `7`, `"<b id=injected>"`, `[]`, `{}`, `true`,
}

// places calls f for each value inside v with a function that replaces it.
func places(v any, replace func(any), f func(func(any))) {
	f(replace)
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			places(v[name], func(to any) { v[name] = to }, f)
		}
	case []any:
		for i, item := range v {
			places(item, func(to any) { v[i] = to }, f)
		}
	}
}

// Every state of the Proof page is free of what axe-core finds wrong and does not scroll sideways,
// narrow and wide, light and dark.
func TestBrowserEvidenceIsAccessible(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := furnish(s)
	axe, err := os.ReadFile("testdata/axe/axe.min.js")
	must.OK(t, err)
	b := openBrowser(t, s.base)
	eval[bool](b, string(axe)+"; true")
	b.signIn(key)
	shots := func(name string) {
		t.Helper()
		for _, l := range looks(360, 1280, 1920) {
			b.look(l)
			at := fmt.Sprintf("%s-%s", name, l)
			b.audit(at)
			b.fits(at)
			b.picture(at, "")
			if eval[bool](b, `document.querySelector('[data-walk]') !== null`) {
				b.picture(at+"-walk", "[data-walk]")
			}
		}
	}
	whole := sample(t, "whole.json")
	b.goTo("#/proof")
	b.reads("h1", "Proof")
	shots("evidence-empty")
	b.goTo("#/proof/7")
	b.shows(`[data-evidence="warn"]`)
	shots("evidence-unconfirmed")
	b.look(look{1280, "light"})
	b.judged("whole.json", whole, "bad") // of another acme
	b.drop("policy.txt", sample(t, "policy"))
	b.shows(`[data-policy="met"]`)
	shots("evidence-another-key")
	b.look(look{1280, "light"})
	b.judged("changed.json", strings.Replace(whole, "Grüße", "Gruesse", 1), "bad")
	shots("evidence-fails")
	b.look(look{1280, "light"})
	b.enter(`textarea[name="policy"]`, "")
	b.confirmKey(s, "acme")
	b.goTo("#/proof/8")
	b.shows(`[data-evidence="ok"]`)
	shots("evidence-holds")
}
