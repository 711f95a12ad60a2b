package web_test

import (
	"strings"
	"testing"
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
	b.reads(`[data-attention="1"] p`, "Also in the last day: 1 tool call denied.")
	b.reads(`[aria-label="Newest changes"]`, "was disabled")
	b.shows(`[data-checked="warn"]`) // the key is not confirmed
	b.confirmKey(s, "acme")
	b.shows(`[data-checked="ok"]`)

	b.press("1 tool call denied")
	b.reads(`h1`, "Records")
	b.rows(0)
	b.goTo("#/start")
	b.shows(`tr[data-agent="busy"] .shade-5 a`)
	eval[bool](b, `(document.querySelector('tr[data-agent="busy"] .shade-5 a').click(), true)`)
	b.rows(3, 2, 1)

	reader := s.api("POST", "/v1/keys", key, map[string]any{"role": "reader"})["key"].(string)
	other := openBrowser(t, s.base)
	other.signIn(reader)
	other.reads(`[data-attention="0"]`, "Keys, webhooks and federations are shown to an admin.")
}
