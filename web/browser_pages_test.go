package web_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/page"

	"attestd/crypto/jose"
	"attestd/internal/must"
	"attestd/internal/testenv"
)

// pages are all pages of the console with something on them: where each is, and what is there once
// it is complete.
var pages = []struct{ name, hash, ready string }{
	{"start", "#/start", `[data-overview="ready"] .heat td`},
	{"live", "#/live", `.pulse[data-tone="ok"]`},
	{"records", "#/records", `[data-index="0"][data-check="ok"]`},
	{"record", "#/records/8", `dialog [data-check="ok"]`},
	{"sessions", "#/sessions", `[data-sessions="1"]`},
	{"session", "#/sessions/run-1?agent=agent-1&kind=statement", `[data-call="0"][data-check="ok"]`},
	{"proof", "#/proof/5", `[data-walk="ok"]`},
	{"verify", "#/verify", `.progress, .button.primary`},
	{"agents", "#/agents", `.rows li`},
	{"agent", "#/agents/agent-1", `[data-keys="1"] ~ [data-sessions="1"] ~ [aria-label="Changes of this agent"] .change-line`},
	{"delegations", "#/delegations?from=spiffe%3A%2F%2Fattestd.local%2Fcompany%2Facme&to=spiffe%3A%2F%2Fattestd.local%2Fcompany%2Facme%2Fagent%2Fagent-1", `[data-edge="1"] ~ * .edge[data-tone="ok"]`},
	{"passports", "#/passports", `tr[data-status="revoked"]`},
	{"control", "#/control", `.change[data-check="ok"]`},
	{"control-record", "#/control/3", `dialog [data-check="ok"]`},
	{"checkpoints", "#/checkpoints", `[data-checkpoint="ok"]`},
	{"report", "#/report", `.button.primary`},
	{"agent-keys", "#/agent-keys", `[data-agent-keys="1"]`},
	{"policies", "#/policies", `[data-policy="no-force"] [data-check="ok"]`},
	{"policy", "#/policy", `[data-policy="any"]`},
	{"approvals", "#/approvals", `.empty`},
	{"key", "#/key", `[data-company-key="confirmed"]`},
	{"keys", "#/keys", `tr[data-key-label="ci"]`},
	{"federation", "#/federation", `[data-federation="github"] [data-rule="0"]`},
	{"webhooks", "#/webhooks", `[data-webhook]`},
	{"reference", "#/reference", `.resource-grid`},
	{"operation", "#/reference/issuePassport", `[data-operation="issuePassport"]`},
}

// unconfirmed are pages that look otherwise before the company's key is confirmed.
var unconfirmed = []struct{ name, hash, ready string }{
	{"start-unconfirmed", "#/start", `[data-overview="ready"] .heat td`},
	{"key-unconfirmed", "#/key", `.confirm-key`},
	{"live-unconfirmed", "#/live", `.pulse[data-tone="warn"]`},
	{"record-unconfirmed", "#/records/8", `dialog [data-check="warn"]`},
	{"proof-unconfirmed", "#/proof/5", `[data-walk="warn"]`},
}

// pinnedKeys is a key set of an issuer (RFC 7517 A.1).
const pinnedKeys = `{"keys":[{"kty":"EC","crv":"P-256","x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4","y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM","use":"sig","kid":"1"}]}`

// furnish gives a new company something to see on every page.
func furnish(s *service) (key string) {
	key = s.company("acme")
	for i := range 3 {
		s.api("POST", "/v1/agents/register", key, map[string]any{"agentId": fmt.Sprintf("agent-%d", i), "metadata": map[string]any{"team": "payments"}})
	}
	s.attest(key, 8)
	delegation := s.api("POST", "/v1/token-exchange", key, map[string]any{"agentId": "agent-1", "actingOn": "acme", "scope": "pay"})
	s.api("POST", "/v1/attest", key, map[string]any{
		"agentId": "agent-1", "actionType": "payment.send", "delegation": delegation["token"],
		"payload": map[string]any{"amount": 12.5, "currency": "EUR", "to": "Łukasz & Söhne <script>violations.push('script ran')</script>"},
	})
	s.attest(key, 5)
	s.signer(key, "agent-1", jose.EdDSA, "label", "build machine").steps("run-1", false, 0)
	for i := range 3 {
		s.api("POST", fmt.Sprintf("/v1/agents/agent-%d/passport", i), key, map[string]any{"scopes": []string{"tool:search", "attest:write"}})
	}
	issued := s.api("GET", "/v1/passports", key, nil)["passports"].([]any)
	jti := issued[1].(map[string]any)["jti"].(string)
	s.api("POST", "/v1/passports/"+jti+"/revoke", key, map[string]any{"reason": "left the team"})
	s.api("POST", "/v1/keys", key, map[string]any{"label": "ci", "role": "reader", "expiresAt": "2126-04-01T00:00:00.000Z"})
	s.api("POST", "/v1/oauth/clients", key, nil)
	s.api("POST", "/v1/federation", key, map[string]any{
		"name": "github", "issuer": "https://token.actions.githubusercontent.com", "audience": s.base + "/o/acme", "jwks": json.RawMessage(pinnedKeys),
		"rules": []any{map[string]any{"match": map[string]any{"repository": "octo-org/octo-repo", "ref": "refs/heads/main"}, "agentId": "ci-{repository}", "ttl": 600, "register": true}},
	})
	s.api("POST", "/v1/webhooks", key, map[string]any{"url": "https://hooks.example.com/attestd", "actions": []string{"payment.*"}, "description": "pages the people on call"})
	s.api("PUT", "/v1/policies/no-force", key, map[string]any{"cedar": `forbid (principal, action, resource) when { context.words.contains("git push --force") };`})
	return key
}

// What everybody sees before signing in is free of what axe-core finds wrong, narrow and wide,
// light and dark. With ATTESTD_SCREENSHOTS set to a directory (from this folder: ../docs/console),
// the tests below write pictures of all pages there.
func TestBrowserPagesSignedOut(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	b := openBrowser(t, s.base)
	b.loadAxe()
	b.shows(".nav a")
	// live represents all that need a credential
	open := []string{"start", "live", "proof", "passports", "reference", "reference/Chain"}
	for _, l := range looks(360, 1280) {
		b.look(l)
		for _, page := range open {
			name := fmt.Sprintf("%s-signed-out-%s", strings.ReplaceAll(page, "/", "-"), l)
			b.goTo("#/" + page)
			b.wait(`document.querySelector('main h1') && !/…$/.test(document.querySelector('main').innerText)`)
			b.audit(name)
			b.fits(name)
			if page == "start" {
				b.picture(fmt.Sprint("welcome-", l), "")
			}
		}
	}
}

// Pages are as free of faults where the company's key is not confirmed.
func TestBrowserPagesUnconfirmed(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := furnish(s)
	b := openBrowser(t, s.base)
	b.loadAxe()
	b.signIn(key)
	for _, l := range looks(360, 1280) {
		b.look(l)
		for _, p := range unconfirmed {
			name := fmt.Sprintf("%s-%s", p.name, l)
			b.goTo(p.hash)
			b.shows(p.ready)
			b.audit(name)
			b.fits(name)
			b.picture(name, "")
		}
	}
}

// Every page is free of what axe-core finds wrong, and fits the window at any width.
func TestBrowserPagesLight(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	auditPages(t, "light", 360)
}

func TestBrowserPagesDark(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	auditPages(t, "dark", 1280)
}

func auditPages(t *testing.T, scheme string, widths ...int64) {
	switch {
	case testenv.Night():
		widths = []int64{1280, 360, 600, 800, 1920}
	case pictures() != "":
		widths = []int64{1280, 360}
	}
	s := startService(t, "", "")
	key := furnish(s)
	passport := s.api("POST", "/v1/agents/agent-0/passport", key, nil)["passport"].(string)
	b := openBrowser(t, s.base)
	b.loadAxe()
	b.signIn(key)
	b.confirmKey(s, "acme")
	for _, width := range widths {
		l := look{width, scheme}
		b.look(l)
		for _, p := range pages {
			b.goTo(p.hash)
			b.shows(p.ready)
			name := fmt.Sprintf("%s-%s", p.name, l)
			if width != 600 && width != 800 {
				b.furnishPage(p.name, passport)
				b.picture(name, map[string]string{"report": `[data-report]`, "operation": `[data-operation="issuePassport"]`}[p.name])
			}
			if width == 1280 || width == 360 {
				b.audit(name)
			}
			b.fits(name)
			if p.name == "proof" && (width == 1280 || width == 360) {
				b.press("Flip one bit")
				b.shows(`[data-walk="bad"]`)
				b.audit(name + "-flipped")
				b.picture(fmt.Sprint("proof-flipped-", l), ".walk-picture")
			}
		}
	}
}

// furnishPage does what makes a page show most.
func (b *browser) furnishPage(name, passport string) {
	b.t.Helper()
	switch name {
	case "verify":
		b.press(eval[string](b, `document.querySelector('.button.primary').textContent`))
		b.shows(`[data-verdict="valid"]`)
	case "passports":
		b.fill(`textarea[name="token"]`, passport)
		b.shows(`[data-token="ok"]`)
	case "report":
		b.press("Create the report of everything")
		b.shows(`[data-report="ok"]`)
	case "record":
		b.press("Verification steps")
	}
}

func (b *browser) loadAxe() {
	b.t.Helper()
	axe, err := os.ReadFile("testdata/axe/axe.min.js")
	must.OK(b.t, err)
	eval[bool](b, "(() => {"+string(axe)+"\nreturn true; })()")
}

// settle waits until what was just changed is painted. In what is folded away Firefox begins
// transitions and does not go on with them.
func (b *browser) settle() {
	b.t.Helper()
	b.wait(`document.getAnimations().every((a) => a.playState !== 'running' || !a.effect.target.checkVisibility())`)
	eval[bool](b, `new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`)
}

// fits checks that the page does not scroll sideways.
func (b *browser) fits(name string) {
	b.t.Helper()
	if over := eval[int](b, `document.documentElement.scrollWidth - document.documentElement.clientWidth`); over > 0 {
		b.t.Errorf("%s: the page is %d px too wide", name, over)
	}
}

// pictures is the directory in ATTESTD_SCREENSHOTS.
func pictures() string { return os.Getenv("ATTESTD_SCREENSHOTS") }

// picture writes a screenshot of the top of the page, or of an element, to the directory in
// ATTESTD_SCREENSHOTS.
func (b *browser) picture(name, scrollTo string) {
	b.t.Helper()
	if pictures() == "" {
		return
	}
	eval[bool](b, `(document.activeElement?.blur?.(), scrollTo(0, 0), true)`)
	if scrollTo != "" {
		eval[bool](b, fmt.Sprintf(`(document.querySelector(%q).scrollIntoView(), true)`, scrollTo))
	}
	b.settle()
	b.save(name+".png", b.screenshot())
}

// save writes a file to the directory in ATTESTD_SCREENSHOTS.
func (b *browser) save(name string, content []byte) {
	b.t.Helper()
	if dir := pictures(); dir != "" {
		must.OK(b.t, os.WriteFile(filepath.Join(dir, name), content, 0o644))
	}
}

func (b *browser) screenshot() []byte {
	b.t.Helper()
	if firefox, ok := b.other.(*firefox); ok {
		return firefox.screenshot(b)
	}
	shot := call(b, page.CaptureScreenshot, page.CaptureScreenshotParams{})
	png, err := base64.StdEncoding.DecodeString(string(shot.Data))
	if err != nil || !strings.HasPrefix(string(png), "\x89PNG") {
		png = []byte(shot.Data)
	}
	return png
}
