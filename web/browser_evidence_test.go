package web_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"attestd/crypto/jcs"
)

// evidenceOf is the evidence file of a record as the console saves it.
func evidenceOf(s *service, key, companyID string, index int) map[string]any {
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

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	must(t, enc.Encode(v))
	return b.String()
}

// forge signs the record of an evidence file, as it now stands, with another key, and puts that key in: all of it agrees with itself.
func forge(t *testing.T, file map[string]any) map[string]any {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	must(t, err)
	der, err := x509.MarshalPKIXPublicKey(public)
	must(t, err)
	id := sha256.Sum256(der)
	record := file["record"].(map[string]any)
	canonical, err := jcs.Append(nil, []byte(jsonOf(t, record["payload"])), 128)
	must(t, err)
	digest := sha256.Sum256(fmt.Appendf(nil, "%v|%v|%s", record["index"], record["timestamp"], canonical))
	record["hash"] = hex.EncodeToString(digest[:])
	record["signature"] = base64.RawURLEncoding.EncodeToString(ed25519.Sign(private, digest[:]))
	file["proof"], file["root"] = []any{}, record["hash"]
	key := file["publicKey"].(map[string]any)
	key["kid"], key["fingerprint"] = hex.EncodeToString(id[:8]), "SHA256:"+base64.RawURLEncoding.EncodeToString(id[:])
	key["pem"] = string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	key["x"] = base64.RawURLEncoding.EncodeToString(public)
	return file
}

// A key that nobody confirmed is never green, and a file signed with another key than the company's is red (row 30).
func TestBrowserEvidenceOfAnotherKey(t *testing.T) {
	s := startService(t, "", "")
	key := s.company("acme")
	s.attest(key, 5)
	genuine := evidenceOf(s, key, "acme", 3)
	forged := evidenceOf(s, key, "acme", 3)
	forged["record"].(map[string]any)["payload"].(map[string]any)["actionType"] = "payment.approved"
	forge(t, forged)
	unknown := evidenceOf(s, key, "acme", 3)
	unknown["record"].(map[string]any)["payload"].(map[string]any)["companyId"] = "globex"
	unknown["publicKey"].(map[string]any)["companyId"] = "globex"
	unknown["publicKey"].(map[string]any)["spiffeId"] = "spiffe://attestd.local/company/globex"
	forge(t, unknown)

	b := openBrowser(t, s.base)
	check := func(name string, file map[string]any, tone string) {
		t.Helper()
		b.drop(name, jsonOf(t, file))
		b.reads("h2 .muted", name)
		b.shows(fmt.Sprintf(`[data-evidence=%q] [data-origin=%q]`, tone, tone))
		b.wait(`document.querySelector('[data-walk]')?.dataset.walk !== 'walking'`)
		b.press("The record itself")
		b.shows(`details [data-check="ok"], details [data-check="warn"], details [data-check="bad"]`)
		green := eval[int](b, `document.querySelectorAll('main .ok, main .lit').length - document.querySelectorAll('.walk-picture:not(.ok) .lit').length`)
		if (green > 0) != (tone == "ok") {
			t.Errorf("%s: %d green things beside a verdict that is %s", name, green, tone)
		}
	}
	b.look(1280, "light")
	b.goTo("#/proof")
	check("genuine.json", genuine, "warn")
	b.reads(`[data-origin]`, "This server publishes this key for acme; you have not confirmed it.")
	check("forged.json", forged, "bad")
	b.reads(`[data-evidence] .notice`, "Another key signed this.")
	check("unknown.json", unknown, "warn")

	// The wrong fingerprint confirms nothing, and the right one makes what it signed green, here and after a reload, and nothing else.
	check("genuine.json", genuine, "warn")
	b.fill(`input[name="fingerprint"]`, forged["publicKey"].(map[string]any)["fingerprint"].(string))
	b.press("Compare")
	b.reads(`.confirm-key [role="alert"]`, "another key")
	b.shows(`[data-evidence="warn"]`)
	b.fill(`input[name="fingerprint"]`, genuine["publicKey"].(map[string]any)["fingerprint"].(string))
	b.press("Compare")
	b.shows(`[data-evidence="ok"] [data-origin="ok"]`)
	check("genuine-again.json", genuine, "ok")
	check("forged.json", forged, "bad")
	b.reads(`[data-origin]`, "You confirmed another key for acme.")
	check("unknown.json", unknown, "warn")

	// What no server can change: with it gone the confirmed key is still green, and the others still are not.
	s.stop()
	check("genuine-offline.json", genuine, "ok")
	check("forged-offline.json", forged, "bad")

	// Its content changed, it holds in no part: hash and signature are of other content, and so is the path to the root.
	genuine["record"].(map[string]any)["payload"].(map[string]any)["actionType"] = "payment.approved"
	b.drop("tampered.json", jsonOf(t, genuine))
	b.reads("h2 .muted", "tampered.json")
	b.shows(`[data-evidence="bad"]`)
	b.shows(`[data-walk="bad"]`)
	if green := eval[int](b, `document.querySelectorAll('[data-evidence] .ok').length`); green > 0 {
		t.Errorf("%d parts of a changed record are green", green)
	}
}

// strange are values that have no place in evidence. The first is what Preact would take for an element of its own.
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

// Whatever stands in the place of any value of an evidence file, the page holds no element and no attribute but those of the console's own templates (row 31).
func TestBrowserShowsOnlyItsOwnElements(t *testing.T) {
	s := startService(t, "", "")
	key := s.company("acme")
	s.attest(key, 6)
	genuine := evidenceOf(s, key, "acme", 4)
	own := map[string]bool{}
	names := regexp.MustCompile(`<([a-z][a-z0-9]*)|\s([A-Za-z-]+)=|\s(required|hidden|autofocus)\b|'(aria-[a-z]+)':`)
	must(t, filepath.WalkDir("console", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.Contains(name, "vendor") || filepath.Ext(name) == ".css" {
			return err
		}
		source, err := os.ReadFile(name)
		for _, m := range names.FindAllStringSubmatch(string(source), -1) {
			own[strings.ToLower(m[1]+m[2]+m[3]+m[4])] = true
		}
		return err
	}))
	if own["iframe"] || own["content-type"] || !own["svg"] || !own["aria-label"] {
		t.Fatal("the templates are not read well")
	}
	b := openBrowser(t, s.base)
	b.goTo("#/proof")
	b.reads("h1", "Proof")
	eval[bool](b, fmt.Sprintf(`(window.own = new Set(%s), window.head = document.head.childElementCount, true)`, jsonOf(t, slices.Collect(maps.Keys(own)))))

	shown, files := 0, 0
	for i := 0; ; i++ {
		var file, to any
		must(t, json.Unmarshal([]byte(jsonOf(t, genuine)), &file))
		must(t, json.Unmarshal([]byte(strange[i%len(strange)]), &to))
		var all []func(any)
		places(file, func(v any) { file = v }, func(replace func(any)) { all = append(all, replace) })
		if i == len(all)*len(strange) {
			files = i
			break
		}
		all[i/len(strange)](to)
		name := "f" + strconv.Itoa(i) + ".json"
		b.drop(name, jsonOf(t, file))
		b.wait(fmt.Sprintf(`document.querySelector('[role="alert"]')?.textContent.startsWith(%q) || document.querySelector('h2 .muted')?.textContent.includes(%q) && document.querySelector('[data-evidence]')`, name, name))
		found := eval[[]string](b, `[...document.querySelectorAll('#app *')].flatMap((e) => [e.localName, ...e.getAttributeNames()].filter((n) => !own.has(n.toLowerCase()))
			.concat(e.id === 'injected' || location.search ? ['injected'] : [])).concat(document.head.childElementCount === head ? [] : ['head'])`)
		if len(found) > 0 {
			t.Fatalf("%s makes %v:\n%.3000s", name, found, jsonOf(t, file))
		}
		if eval[bool](b, `document.querySelector('[data-evidence]') !== null`) {
			shown++
		}
	}
	if files < 250 || shown < 20 || shown > files/2 {
		t.Errorf("%d of %d files were shown: the changes are lopsided", shown, files)
	}
}
