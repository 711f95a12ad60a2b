package web_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/web"
)

// Key 0 of the samples, and an unrelated one.
const (
	sampleKey = "SHA256:M54v-RdjBQe2pCO1zghOKF0fpl2Ts-J6YZXTu-vJriM"
	otherKey  = "SHA256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
)

func sample(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../chain/evidence/testdata", name))
	must.OK(t, err)
	return string(text)
}

// fromDisk is the address of verifier.html as a person has saved it, alone in a folder.
func fromDisk(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "verifier.html")
	must.OK(t, os.WriteFile(name, []byte(body(t, get(t, "GET", "/verifier.html"))), 0o600))
	return "file://" + filepath.ToSlash(name)
}

// enter puts a text into a field at once, as pasting does.
func (b *browser) enter(selector, text string) {
	b.t.Helper()
	eval[bool](b, fmt.Sprintf(`((field) => {
		field.value = %s;
		field.dispatchEvent(new Event('input', { bubbles: true }));
		return true;
	})(document.querySelector(%q))`, jsString(text), selector))
}

// The test covers a user's view of an evidence file, from disk and without a network: the verdict
// without a key, with a key and with a policy, the record, the permission, the checks and the open
// points.
func TestBrowserVerifier(t *testing.T) {
	b := openPage(t, fromDisk(t), chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND"))
	whole := sample(t, "whole.json")
	verdict := func(name, want string) {
		t.Helper()
		b.shows(fmt.Sprintf(`[data-file=%q][data-verdict=%q]`, name, want))
	}
	b.drop("whole.json", whole)
	verdict("whole.json", "self-consistent")
	b.reads(".notice.warn", "holds, key not confirmed: anyone can make such a file (whole.json)")
	b.enter(`input[name="fingerprint"]`, sampleKey)
	verdict("whole.json", "holds")
	b.reads(".notice.ok", "holds (whole.json)")
	b.reads("[data-summary]", `agent "build-bot" of the company "acme"`)
	for _, words := range []string{
		"build-bot", "deploy", `"version": 3.50`, "agent.registered, agent:planner, at 2026-11-21T09:00:02.000Z, by api-key:9f86d081884c7d65",
		"passport.revoked", "was revoked at", "follow from one another", "cosigned at", "The key that you trust, number 1 of 3", "That nothing was left out",
	} {
		b.reads("main", words)
	}
	b.enter(`input[name="fingerprint"]`, otherKey)
	verdict("whole.json", "fails")
	b.shows(`[data-code="KEY"]`)
	if eval[int](b, `document.querySelectorAll('.ok').length`) > 0 || !eval[bool](b, `!document.querySelector('main').textContent.includes('build-bot,')`) {
		t.Log("what was checked before is still shown, in words alone")
	}
	b.enter(`input[name="fingerprint"]`, "SHA256:short")
	b.reads(`[role="alert"]`, "A fingerprint is SHA256:")
	b.wait(`!document.querySelector('[data-verdict]')`)
	b.enter(`input[name="fingerprint"]`, "")
	b.enter(`textarea[name="policy"]`, sample(t, "policy"))
	verdict("whole.json", "holds")
	b.reads("main", "Your policy accepts the checkpoint")
	b.enter(`textarea[name="policy"]`, "log nonsense")
	b.reads(`[role="alert"]`, "line 1 of the policy")
	b.wait(`!document.querySelector('[data-verdict]')`)
	b.enter(`textarea[name="policy"]`, "")
	b.drop("changed.json", strings.Replace(whole, "Grüße", "Gruesse", 1))
	verdict("changed.json", "fails")
	b.shows(`[data-code="RECORD"]`)
	b.reads(".notice.bad", "fails: RECORD: ")
}

// What a person sees of a record that its agent has signed, with the agent's key entered and
// without, and of a session.
func TestBrowserVerifierOfStatements(t *testing.T) {
	const agentKey, signer = "rmqQfGdG6AHIBRiK_myuURlwB-jCJkJqP1hdDDXhgag", "WhlIT0HTwF6yZDONyo6NMnrstKfPhO74Xg-5inZ6raA"
	b := openPage(t, fromDisk(t), chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND"))
	b.enter(`input[name="fingerprint"]`, sampleKey)
	b.drop("signed.json", sample(t, "signed.json"))
	b.shows(`[data-file="signed.json"][data-verdict="holds"]`)
	b.reads("main", "A key that the company enrolled for this agent signed this: "+signer)
	b.enter(`input[name="agentKey"]`, agentKey)
	b.reads("main", "The agent’s own key "+signer+" signed this")
	b.enter(`input[name="agentKey"]`, "short")
	b.reads(`[role="alert"]`, "The thumbprint of an agent’s key")
	b.enter(`input[name="agentKey"]`, strings.TrimPrefix(otherKey, "SHA256:"))
	b.shows(`[data-file="signed.json"][data-code="STATEMENT"]`)
	b.enter(`input[name="agentKey"]`, agentKey)
	for name, state := range map[string]string{"complete": "complete: 0 to 3, sealed", "missing": "missing 0, 2, open at 4"} {
		b.drop(name+".jsonl", sample(t, "session-"+name+".jsonl"))
		b.shows(fmt.Sprintf(`[data-file="%s.jsonl"][data-verdict="holds"]`, name))
		b.shows(fmt.Sprintf(`[data-session=%q]`, state))
		b.reads("main", "The agent’s own key")
	}
}

// Texts of a file are always shown as text, and never become an element, an address to fetch or a
// script.
func TestBrowserVerifierShowsText(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	b := openPage(t, fromDisk(t))
	eval[bool](b, `(window.elements = document.head.childElementCount, true)`)
	for i, value := range strange {
		for _, member := range []string{"companyId", "log", "record", "hexProof", "tlogProof", "logs", "keys", "witnesses", "delegation", "passport", "status", "authority", "notProven"} {
			name := fmt.Sprintf("%d-%s.json", i, member)
			b.drop(name, strings.Replace(sample(t, "whole.json"), `"`+member+`":`, `"`+member+`":`+value+`,"was":`, 1))
			b.shows(fmt.Sprintf(`[data-file=%q][data-code="MALFORMED"]`, name))
			if eval[bool](b, `document.querySelector('#injected, iframe, meta[http-equiv=refresh], a[href]') !== null || document.head.childElementCount !== elements`) {
				t.Errorf("%s makes an element", name)
			}
		}
	}
}

// The page is free of what axe-core finds wrong, narrow and wide, light and dark, and prints in
// full: nothing is cut off, and what asks is left out.
func TestBrowserVerifierIsAccessible(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	axe, err := os.ReadFile("testdata/axe/axe.min.js")
	must.OK(t, err)
	b := openPage(t, fromDisk(t))
	eval[bool](b, string(axe)+"; true")
	shots := func(name string) {
		for _, l := range looks(360, 1280) {
			b.look(l)
			b.audit(fmt.Sprintf("%s-%s", name, l))
			b.fits(fmt.Sprintf("%s-%s", name, l))
			b.picture(fmt.Sprintf("verifier-%s-%s", name, l), "")
		}
	}
	shots("empty")
	b.drop("whole.json", sample(t, "whole.json"))
	b.shows(`[data-verdict="self-consistent"]`)
	shots("self-consistent")
	b.enter(`input[name="fingerprint"]`, sampleKey)
	b.shows(`[data-verdict="holds"]`)
	shots("holds")
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print"})
	cut := eval[[]string](b, `[...document.querySelectorAll('main *')].filter((e) => e.scrollHeight > e.clientHeight + 2 && ['hidden', 'auto', 'scroll'].includes(getComputedStyle(e).overflowY)).map((e) => e.outerHTML.slice(0, 100))`)
	if len(cut) > 0 || eval[bool](b, `document.querySelector('.ask').getClientRects().length > 0`) {
		t.Errorf("on paper these are cut off, or what asks is printed: %q", cut)
	}
	b.enter(`input[name="fingerprint"]`, otherKey)
	b.shows(`[data-verdict="fails"]`)
	shots("fails")
}

// Where the browser offers no WebCrypto, the page comes to the same verdicts with the code that it
// carries.
func TestBrowserVerifierWithoutWebCrypto(t *testing.T) {
	h, _ := web.Console()
	server := httptest.NewServer(http.HandlerFunc(h.ServeHTTP))
	t.Cleanup(server.Close)
	const host = "attestd.test"
	b := openPage(t, strings.Replace(server.URL, "127.0.0.1", host, 1)+"/verifier.html",
		chromedp.Flag("host-resolver-rules", "MAP "+host+" 127.0.0.1"), chromedp.Flag("proxy-bypass-list", host))
	if eval[bool](b, `isSecureContext || crypto.subtle !== undefined`) {
		t.Fatal("this context is secure: the test shows nothing")
	}
	b.enter(`input[name="fingerprint"]`, sampleKey)
	b.drop("whole.json", sample(t, "whole.json"))
	b.shows(`[data-verdict="holds"]`)
	b.drop("changed.json", strings.Replace(sample(t, "whole.json"), "Grüße", "Gruesse", 1))
	b.shows(`[data-file="changed.json"][data-code="RECORD"]`)
}
