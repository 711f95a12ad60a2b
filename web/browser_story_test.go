package web_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	devtools "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/chromedp"

	"attestd/internal/must"
)

// From nothing to a passport that was revoked, as a person does it, with the service stopped and
// started on the way.
func TestBrowserStory(t *testing.T) {
	address := freePort(t)
	s := startService(t, "", address)
	b := openBrowser(t, s.base)

	// A company is registered; its key is shown.
	b.fill(`input[name="companyId"]`, "acme")
	b.press("Register")
	b.reads(".top-company", "acme")
	key := eval[string](b, `document.querySelector('.value code').textContent`)
	if eval[string](b, `location.href`) != s.base+"/" || eval[bool](b, `JSON.stringify([{ ...sessionStorage }, { ...localStorage }]).includes(`+jsString(key)+`)`) {
		t.Error("the key was put somewhere it does not belong")
	}

	b.confirmKey(s, "acme")

	// An agent is registered.
	b.goTo("#/agents")
	b.fill(`input[name="agentId"]`, "agent-1")
	b.fill(`textarea[name="metadata"]`, `{"team":"payments"}`)
	b.press("Register agent")
	b.reads(".rows li", "spiffe://attestd.local/company/acme/agent/agent-1")

	// A new record of the company appears at once, verified; another company's record does not.
	b.goTo("#/live")
	b.shows(`[data-connection="open"]`)
	other := s.company("other")
	s.api("POST", "/v1/attest", other, `{"agentId":"x","actionType":"foreign","payload":1}`)
	s.api("POST", "/v1/attest", key, `{"agentId":"agent-1","actionType":"note","payload":{"b":1.50,"a":"<script>violations.push('script ran')</script>"}}`)
	b.shows(`li[data-index="0"][data-check="ok"]`)
	b.shows(`.pulse[data-tone="ok"]`)
	svid := s.api("GET", "/v1/agents/agent-1/svid", key, nil)["svid"].(string)
	s.api("POST", "/v1/agents/register", key, `{"agentId":"agent-2"}`)
	actor := s.api("GET", "/v1/agents/agent-2/svid", key, nil)["svid"].(string)
	delegation := s.api("POST", "/v1/token/exchange", key, map[string]any{
		"grant_type":    "urn:ietf:params:oauth:grant-type:token-exchange",
		"subject_token": svid, "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
		"actor_token": actor, "actor_token_type": "urn:ietf:params:oauth:token-type:jwt",
	})["access_token"]
	s.api("POST", "/v1/attest", key, map[string]any{"agentId": "agent-2", "actionType": "pay", "payload": []int{1, 2}, "delegation": delegation})
	b.shows(`li[data-index="1"][data-check="ok"]`)
	if strings.Contains(eval[string](b, `document.body.innerText`), "foreign") {
		t.Error("another company's record is shown")
	}

	// Filters and pause.
	b.fill(`.filters .field:nth-child(2) input`, "pay")
	b.wait(`document.querySelectorAll('.entry').length === 1`)
	eval[bool](b, `(() => { const i = document.querySelector('.filters .field:nth-child(2) input'); i.value = ''; return i.dispatchEvent(new Event('input')); })()`)
	b.press("Pause")
	s.attest(key, 3)
	b.press("Resume (3 new)")
	b.shows(`li[data-index="4"][data-check="ok"]`)

	// While the connection is interrupted three more records are written elsewhere; after
	// reconnecting the page names them.
	s.stop()
	b.shows(`[data-connection="retrying"]`)
	elsewhere := startService(t, s.db, "")
	elsewhere.attest(key, 3)
	elsewhere.stop()
	s = startService(t, s.db, address)
	b.waitFor(40*time.Second, `document.querySelector('.notice')?.textContent.includes('records 5 to 7')`)
	b.shows(`li[data-index="7"][data-check="ok"]`)
	b.shows(`.pulse[data-tone="ok"]`)

	// A record, opened and recomputed; its payload is text, unchanged.
	b.goTo("#/chain/0")
	b.reads("dialog pre", "1.50")
	b.reads("dialog pre", "<script>violations.push('script ran')</script>")
	b.shows(`dialog [data-check="ok"]`)
	b.press("Verification steps")
	b.reads("dialog .check-step pre", `{"a":"<script>violations.push('script ran')</script>","b":1.5}`)
	b.press("Close")
	b.goTo("#/chain/1")
	b.wait(`document.querySelectorAll('dialog .principals li').length === 2`)
	b.reads("dialog .principals li:last-child", "agent-2")

	// Its proof; one flipped bit anywhere is red, and flipped back is not.
	b.goTo("#/proof/6")
	b.shows(`[data-walk="ok"]`)
	b.shows(`[data-evidence="ok"]`)
	b.shows(`.path .lit`)
	b.press("Flip one bit")
	b.shows(`[data-walk="bad"]`)
	b.wait(`document.querySelectorAll('.path .node.bad').length === 4 && !document.querySelector('.path .lit')`)
	b.press("Flip it back")
	b.shows(`[data-walk="ok"]`)
	eval[bool](b, `document.querySelector('.path .sibling').dispatchEvent(new MouseEvent('click', { bubbles: true }))`)
	b.shows(`[data-walk="bad"] .sibling.bad`)

	// Evidence is saved; with the service stopped it is checked all the same, and so is what is
	// wrong with it.
	evidence := b.download("Download evidence")
	s.stop()
	b.drop("evidence.json", evidence)
	b.reads("h2 .muted", "evidence.json")
	b.shows(`[data-evidence="ok"]`)
	b.drop("forged.json", strings.Replace(evidence, `"actionType":"`, `"actionType":"x`, 1))
	b.shows(`[data-evidence="bad"]`)
	b.drop("none.json", `{"type":"something else"}`)
	b.reads(`[role="alert"]`, "not an evidence file")
	startService(t, s.db, address)

	// A passport is issued, looked into, rotated and revoked, and is shown so.
	b.goTo("#/agents/agent-1")
	b.fill(`input[name="scopes"]`, "tool:search attest:*")
	b.press("Issue passport")
	b.press("Inspect")
	b.shows(`[data-token="ok"]`)
	b.shows(`.ok[data-status="valid"][data-verdict="usable now"]`)
	b.press("Rotate")
	b.wait(`[...document.querySelectorAll(".notice")].some((n) => n.textContent.replace(/\s+/g, " ").includes("is revoked"))`)
	b.wait(`document.querySelectorAll('tr[data-status]').length === 2`)
	b.shows(`tr[data-status="revoked"]`)
	b.shows(`.card [data-status="valid"]`)
	b.press("Revoke")
	b.fill("dialog input", "left the team")
	eval[bool](b, `(document.querySelector('dialog .danger').click(), true)`)
	b.reads(`.card [data-status="revoked"]`, "left the team")
	b.wait(`document.querySelectorAll('tr[data-status="revoked"]').length === 2`)
	b.drop("token.txt", eval[string](b, `(() => { const [h, c, s] = document.querySelector('textarea').value.split('.'); return [h, c, (s[0] === 'A' ? 'B' : 'A') + s.slice(1)].join('.'); })()`))
	b.shows(`[data-token="bad"]`)

	// Keys: another one, which may only read for a while, is made and deleted; the last one cannot
	// be.
	b.goTo("#/keys")
	b.wait(`document.querySelector('.table .danger')?.disabled`)
	b.fill(`input[name="label"]`, "ci")
	if got := eval[[]string](b, `['role', 'expires'].map((name) => document.querySelector('select[name=' + name + ']').value)`); !slices.Equal(got, []string{"writer", "90"}) {
		t.Errorf("a new key is offered as %q", got)
	}
	eval[bool](b, `[['role', 'reader'], ['expires', '30']].every(([name, value]) => { const s = document.querySelector('select[name=' + name + ']'); s.value = value; return s.dispatchEvent(new Event('change')); })`)
	b.press("Create key")
	b.reads(`tr[data-key-label="ci"] [data-label="Role"]`, "reader")
	b.reads(`tr[data-key-label="ci"] [data-label="Expires"]`, "20")
	b.reads(`tr[data-key-label="bootstrap"] [data-label="Role"]`, "admin")
	b.wait(`document.querySelector('tr[data-key-label="bootstrap"] .danger').disabled`)
	if text := eval[string](b, `document.querySelector('.table').innerText`); strings.Contains(text, key) {
		t.Error("a key is shown unasked")
	}
	eval[bool](b, `(document.querySelector('tr[data-key-label="bootstrap"] [aria-pressed]').click(), true)`)
	b.reads(`tr[data-key-label="bootstrap"]`, key)
	eval[bool](b, `(document.querySelector('tr[data-key-label="ci"] .danger').click(), true)`)
	b.press("Delete key")
	b.wait(`!document.querySelector('tr[data-key-label="ci"]') && document.querySelector('.table .danger').disabled`)

	// Signed out, nothing of the company is left.
	b.press("Sign out")
	b.reads("h1", "Sign in first")
	b.goTo("#/proof")
	b.reads("h1", "Proof")
	b.drop("evidence.json", evidence)
	b.shows(`[data-evidence="ok"] [data-origin="ok"]`)
}

// download presses a button and returns the content of the file that it saves.
func (b *browser) download(button string) string {
	b.t.Helper()
	events := true
	call(b, devtools.SetDownloadBehavior, devtools.SetDownloadBehaviorParams{
		BrowserContextID: chromedp.FromContext(b.ctx).BrowserContextID, // the profile of this test
		Behavior:         devtools.SetDownloadBehaviorBehaviorAllowAndName, DownloadPath: b.t.TempDir(), EventsEnabled: &events,
	})
	progress := chromedp.Events(b.ctx, devtools.DownloadProgress)
	b.press(button)
	for ev, err := range progress {
		must.OK(b.t, err)
		if ev.State == devtools.DownloadProgressStateCompleted {
			content, err := os.ReadFile(ev.FilePath)
			must.OK(b.t, err)
			return string(content)
		}
	}
	b.t.Fatal("nothing was saved")
	return ""
}
