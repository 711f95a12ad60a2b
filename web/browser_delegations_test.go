package web_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"attestd/internal/must"
	"attestd/internal/testenv"
)

// delegating gives a new company agents that act for each other: the company for agent-0, that for
// agent-1, and it for agent-2, in n records each.
func delegating(s *service, n int) (key string) {
	key = s.company("acme")
	var tokens []string
	for i := range 3 {
		agent := fmt.Sprintf("agent-%d", i)
		s.api("POST", "/v1/agents/register", key, map[string]any{"agentId": agent})
		svid := s.api("GET", "/v1/agents/"+agent+"/svid", key, nil)["svid"]
		token := s.api("POST", "/v1/token-exchange", key, map[string]any{"agentId": agent, "actingOn": "acme", "scope": "pay"})["token"]
		if i > 0 {
			token = s.api("POST", "/v1/token/exchange", key, map[string]any{
				"grant_type": "urn:ietf:params:oauth:grant-type:token-exchange", "subject_token": tokens[i-1], "actor_token": svid,
				"subject_token_type": "urn:ietf:params:oauth:token-type:jwt", "actor_token_type": "urn:ietf:params:oauth:token-type:jwt",
			})["access_token"]
		}
		tokens = append(tokens, token.(string))
	}
	for left := n; left > 0; left -= 300 {
		var items []map[string]any
		for range min(left, 300) {
			for i, token := range tokens {
				items = append(items, map[string]any{"agentId": fmt.Sprintf("agent-%d", i), "actionType": "work",
					"payload": nil, "delegation": token})
			}
		}
		s.api("POST", "/v1/attest/batch", key, map[string]any{"records": items})
	}
	return key
}

const own = "spiffe://attestd.local/company/acme"

// The page draws who acted for whom in the whole company, and says the same in a table; each line
// is a link to its records by the keyboard too, and is green only when these are.
func TestBrowserDelegations(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := delegating(s, 4)
	b := openBrowser(t, s.base)
	b.loadAxe()
	b.signIn(key)
	b.goTo("#/delegations")
	b.shows(`[data-delegated="12"] ~ * .delegation-table[data-edges="3"]`)
	b.wait(`document.querySelectorAll('.edge[data-tone="warn"]').length === 3 && !document.querySelector('.edge[data-tone="ok"]')`)
	b.confirmKey(s, "acme")
	b.goTo("#/delegations")
	b.wait(`document.querySelectorAll('.edge[data-tone="ok"]').length === 3`)
	b.wait(`document.querySelectorAll('tr[data-tone="ok"]').length === 3`)
	b.reads(`[data-delegated]`, "3 delegations between 4 principals, from 12 records with a delegation.")
	counted := eval[string](b, `[...document.querySelectorAll('.delegation-table tbody tr')].map((r) => r.cells[0].textContent.trim() + '<' + r.cells[1].textContent.trim() + ' ' + r.cells[2].textContent + ' ' + r.cells[3].textContent + ' ' + r.cells[4].lastElementChild.textContent).sort().join('; ')`)
	if want := "agent-0<acme 12 records 3 may be in force; agent-1<agent-0 8 records 2 may be in force; agent-2<agent-1 4 records 1 may be in force"; counted != want {
		t.Errorf("the table says %s, want %s", counted, want)
	}
	b.look(look{1280, "light"})
	b.picture("delegation-graph-1280-light", "")
	// a line of the picture takes the focus, and Enter opens its records
	eval[bool](b, `(document.querySelector('.edge[aria-label^="agent-2 acted for agent-1"]').focus(), true)`)
	b.wait(`document.activeElement.classList.contains('edge')`)
	must.OK(t, chromedp.Do(b.ctx, chromedp.KeyEvent(kb.Enter)))
	b.shows(`[data-edge="4"] [data-index="11"][data-check="ok"]`)
	b.wait(`document.activeElement.textContent === 'agent-2 acted for agent-1'`)
	b.audit("delegation records")
	b.goTo("#/records/11")
	b.shows(`dialog [data-check="ok"]`)
}

// A record that a server has changed makes its line red, and is named.
func TestBrowserDelegationsOfALiar(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := delegating(s, 2)
	base := lie(t, s, func(path string, answer []byte) []byte {
		if path != "/v1/records" {
			return answer
		}
		return bytes.Replace(answer, []byte(`/agent/agent-1","`+own+`/agent/agent-2"]`), []byte(`/agent/mallory","`+own+`/agent/agent-2"]`), 1)
	})
	b := openBrowser(t, base)
	b.signIn(key)
	b.confirmKey(s, "acme")
	b.goTo("#/delegations")
	b.reads(`.page .notice.bad`, "1 record failed verification")
	b.shows(`.edge[data-tone="bad"][aria-label^="agent-2 acted for mallory"]`)
	// no line of the record's unchecked delegation is green; the others are those of good records
	// alone
	b.wait(`[...document.querySelectorAll('.edge')].map((e) => e.getAttribute('aria-label').split(' in ')[0] + ' ' + e.dataset.tone).sort().join('; ') ===
		'agent-0 acted for acme bad; agent-1 acted for agent-0 ok; agent-2 acted for agent-1 ok; agent-2 acted for mallory bad; mallory acted for agent-0 bad'`)
}

// Of more than 5,000 records the newest are read, and the page says so; it is in the window at any
// width, in both schemes, and on paper.
func TestBrowserManyDelegations(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := delegating(s, 1700)
	b := openBrowser(t, s.base)
	b.loadAxe()
	b.signIn(key)
	b.confirmKey(s, "acme")
	b.goTo("#/delegations")
	b.shows(`[data-delegated="5000"] ~ * .edge[data-tone="ok"]`)
	b.reads(`[data-delegated]`, "the newest 5,000 of 5,100 records")
	for _, l := range looks(360, 1280, 1920) {
		b.look(l)
		b.shows(`.edge path`)
		b.audit(fmt.Sprintf("delegations-%s", l))
		b.fits(fmt.Sprintf("delegations-%s", l))
	}
	call(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: 680, Height: 1000, DeviceScaleFactor: 1})
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print"})
	b.shows(`.edge path`)
	b.fits("delegations on paper")
	b.wait(`!document.querySelector('.side').getClientRects().length && document.querySelectorAll('.delegation-table tbody tr').length === 3`)
}
