package web_test

import (
	"fmt"
	"strings"
	"testing"

	"attestd/crypto/jose"
	"attestd/internal/testenv"
)

// The first page after signing in shows who acted in which hour, what needs a look and what was
// changed last. Each of them leads to the rows behind it, nothing is green before it was checked
// here with a confirmed key, and names are no markup.
func TestBrowserOverview(t *testing.T) {
	s := startService(t, "", "", "--webhooks-allow-private")
	key := s.company("acme")
	b := openBrowser(t, s.base)
	b.signIn(key)
	b.shows(`[data-attention="0"]`)
	b.reads(`[aria-label="Activity"]`, "No agent has acted in this time.")
	const evil = `<img src=x onerror="violations.push('script ran')">`
	for _, agent := range []string{"quiet", "busy"} {
		s.api("POST", "/v1/agents/register", key, map[string]any{"agentId": agent})
	}
	s.api("POST", "/v1/attest", key, map[string]any{"agentId": "quiet", "actionType": "tool.denied", "payload": map[string]any{"reason": evil}})
	for range 3 {
		s.api("POST", "/v1/attest", key, map[string]any{"agentId": "busy", "actionType": "tool.completed", "payload": 1})
	}
	hook := s.api("POST", "/v1/webhooks", key, map[string]any{"url": "http://127.0.0.1:1/", "description": evil})["webhookId"].(string)
	s.api("POST", "/v1/webhooks/"+hook+"/disable", key, nil)
	b.press("Refresh")
	b.shows(`[data-activity="4"] tr[data-agent="busy"] .shade-5`)
	rows := eval[[]string](b, `[...document.querySelectorAll('.heat tbody tr')].map((row) => row.dataset.agent + ' ' + row.querySelector('.number').innerText)`)
	if got := strings.Join(rows, ", "); got != "busy 3, quiet 1" {
		t.Errorf("the agents are %s", got)
	}
	b.reads(`[data-attention="1"] ul`, "1 webhook failing or disabled")
	b.reads(`[data-incident="denied"]`, "→ "+evil)
	b.reads(`h1`, "1 call denied")
	b.shows(`tr[data-agent="quiet"] td.denied`)
	b.reads(`[aria-label="Newest changes"]`, "was disabled")
	b.shows(`[data-verified="warn"]`) // the key is not confirmed
	b.confirmKey(s, "acme")
	b.shows(`[data-verified="ok"]`)
	b.goTo("#/start")
	b.reads(`[data-incident="denied"] .incident-go`, "Show the call")
	eval[bool](b, `(document.querySelector('[data-incident="denied"] .incident-go').click(), true)`)
	b.reads(`dialog h2`, "Record 0")
	b.press("Close")
	b.goTo("#/start")
	b.shows(`tr[data-agent="busy"] .shade-5 a`)
	eval[bool](b, `(document.querySelector('tr[data-agent="busy"] .shade-5 a').click(), true)`)
	b.rows(3, 2, 1)

	reader := s.api("POST", "/v1/keys", key, map[string]any{"role": "reader"})["key"].(string)
	other := openBrowser(t, s.base)
	other.signIn(reader)
	other.reads(`[data-attention="0"]`, "Keys, webhooks and federations are shown to an admin.")
}

// A day on which things went wrong is read in five seconds: the sentence at the top says what was
// denied, and each incident has its agent, what was asked, and the way to the call. All of it stands
// on one screen, and on a phone nothing scrolls sideways.
func TestBrowserDayWithIncidents(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "", "--webhooks-allow-private")
	key := s.company("acme")
	for _, agent := range []string{"deploy-bot", "research", "billing"} {
		s.api("POST", "/v1/agents/register", key, map[string]any{"agentId": agent})
	}
	s.signer(key, "deploy-bot", jose.EdDSA, "label", "build machine")
	send := func(agent, action string, payload map[string]any) {
		t.Helper()
		s.api("POST", "/v1/attest", key, toolCall(agent, "run-"+agent, action, payload))
	}
	send("research", "tool.requested", map[string]any{"tool": "WebFetch", "callId": "r1", "input": map[string]any{"url": "https://example.com/prices"}})
	send("research", "tool.completed", map[string]any{"tool": "WebFetch", "callId": "r1", "output": "ok"})
	send("deploy-bot", "tool.requested", map[string]any{"tool": "Bash", "callId": "d1", "input": map[string]any{"command": "git push --force origin main"}})
	send("deploy-bot", "tool.denied", map[string]any{"tool": "Bash", "callId": "d1", "reason": "needs a passport"})
	send("billing", "tool.requested", map[string]any{"tool": "Read", "callId": "b1", "input": map[string]any{"file_path": "/srv/invoices/2026-11.csv"}})
	send("billing", "tool.failed", map[string]any{"tool": "Read", "callId": "b1", "error": "no such file"})
	hook := s.api("POST", "/v1/webhooks", key, map[string]any{"url": "http://127.0.0.1:1/"})["webhookId"].(string)
	s.api("POST", "/v1/webhooks/"+hook+"/disable", key, nil)

	b := openBrowser(t, s.base)
	b.loadAxe()
	b.signIn(key)
	b.confirmKey(s, "acme")
	for _, l := range looks(390, 1280) {
		b.look(l)
		b.goTo("#/live") // and back, so that it is read again
		b.goTo("#/start")
		b.reads("h1", "1 call denied: Bash git push --force origin main, 1 call failed. Log intact since 20")
		b.reads(`[data-incident="denied"]`, "Bash git push --force origin main → needs a passport")
		b.reads(`[data-incident="denied"] .incident-agent`, "deploy-bot")
		b.reads(`[data-incident="failed"]`, "Read /srv/invoices/2026-11.csv → no such file")
		b.reads(`[data-incident="service"]`, "1 webhook failing or disabled")
		b.shows(`tr[data-agent="deploy-bot"] td.denied`)
		b.reads(`tr[data-agent="deploy-bot"]`, "own key")
		b.reads(`[aria-label="Newest changes"]`, "by bootstrap")
		b.audit("overview " + l.String())
		b.fits("overview " + l.String())
		if l.width == 1280 {
			if bottom := eval[float64](b, `document.querySelector('[data-activity]').getBoundingClientRect().bottom`); bottom > 800 {
				t.Errorf("the agents end at %v of 800 pixels", bottom)
			}
		}
		b.picture(fmt.Sprint("incidents-", l), "")
	}
	eval[bool](b, `(document.querySelector('[data-incident="denied"] .incident-go').click(), true)`)
	b.reads("h1", "run-deploy-bot")
	b.shows(`dialog, .call-beside`)
}
