package web_test

import (
	"encoding/json"
	"testing"

	"attestd/internal/must"
	"attestd/internal/testenv"
)

// The result of verifying the whole chain stays while other pages are shown, and can be saved with
// its scope, its key, its engine and the server's statement. It is deleted when the user signs out.
func TestBrowserVerifyKeepsItsResult(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := s.company("acme")
	s.attest(key, 300)
	b := openBrowser(t, s.base)
	b.signIn(key)
	b.confirmKey(s, "acme")
	b.goTo("#/verify")
	b.press("Verify the whole chain")
	b.shows(`[data-verdict="valid"][data-tone="ok"]`)
	b.goTo("#/agents")
	b.reads("h1", "Agents")
	b.goTo("#/verify")
	b.shows(`[data-verdict="valid"][data-tone="ok"]`)

	eval[bool](b, `(() => {
		const made = URL.createObjectURL;
		URL.createObjectURL = (blob) => { blob.text().then((text) => { window.saved = text; }); return made.call(URL, blob); };
		return true;
	})()`)
	b.press("Save report")
	b.wait(`window.saved`)
	var report struct {
		Type, CompanyID, Root string
		Records, Workers      int
		Key                   struct{ Fingerprint, Standing string }
		Verdict               struct{ Holds bool }
		Server                struct{ MerkleRoot string }
	}
	must.OK(t, json.Unmarshal([]byte(eval[string](b, `saved`)), &report))
	published := s.api("GET", "/v1/ca/public-key?companyId=acme", "", nil)["fingerprint"].(string)
	if report.Type != "attestd-verification" || report.CompanyID != "acme" || report.Records != 300 || !report.Verdict.Holds || report.Key.Standing != "confirmed" ||
		report.Key.Fingerprint != published || report.Root == "" || report.Root != report.Server.MerkleRoot || report.Workers < 1 {
		t.Errorf("%+v", report)
	}

	b.press("Sign out")
	b.goTo("#/start")
	b.signIn(key)
	b.goTo("#/verify")
	b.reads(".button.primary", "Verify the whole chain")
	if eval[bool](b, `document.querySelector('[data-verdict]') !== null`) {
		t.Error("the result outlives the session")
	}
}
