package web_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/cdproto/emulation"

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
// denied, and each incident has its agent, what was asked, and the way to the call. All of it
// stands on one screen, and on a phone nothing scrolls sideways.
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
	b.reads("h1", "git push --force origin main")
	b.shows(`dialog, .call-beside`)
}

// What a recorder writes as the ID of a call does not keep the first page from being shown.
func TestBrowserOverviewOfAHostileRecorder(t *testing.T) {
	s := startService(t, "", "")
	key := s.company("acme")
	for _, id := range []any{"__proto__", 7, map[string]any{}, "[masked]", "", "\x00", strings.Repeat("é", 200), strings.Repeat("x", 5000)} {
		s.api("POST", "/v1/attest", key, toolCall("bot", "s", "tool.requested", map[string]any{"tool": "Bash", "callId": id, "input": "ls"}))
		s.api("POST", "/v1/attest", key, toolCall("bot", "s", "tool.denied", map[string]any{"tool": "Bash", "callId": id, "reason": "no"}))
	}
	b := openBrowser(t, s.base)
	b.signIn(key)
	b.reads("h1", "8 calls denied")
	b.shows(`[data-overview="ready"] [data-incident="denied"]`)
}

// Where the log cannot be read the first page says why, and does not count what nobody has read.
func TestBrowserOverviewSaysThatTheLogCannotBeRead(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := s.company("acme")
	s.attest(key, 3)
	var fails atomic.Value // the paths that do
	fails.Store([]string(nil))
	base := between(t, s, func(w http.ResponseWriter, r *http.Request) bool {
		if !slices.Contains(fails.Load().([]string), r.URL.Path) {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, `{"error":"The disk is away"}`)
		return true
	}, nil)
	b := openPage(t, base)
	for _, paths := range [][]string{{"/v1/logs", "/v1/chain", "/v1/verify"}, {"/v1/logs"}, {"/v1/chain"}} {
		fails.Store(paths)
		b.signIn(key)
		b.reads(`.page > .notice.bad`, "The log cannot be read: The disk is away")
		if text := eval[string](b, `document.querySelector('.verified').innerText`); strings.Contains(text, "0 of ") {
			t.Errorf("what nobody has read is counted: %s", text)
		}
		fails.Store([]string(nil))
		b.press("Retry")
		b.reads(`[data-verified="warn"]`, "3 records verified")
		fails.Store([]string{"/v1/verify"})
		b.press("Sign out")
		b.signIn(key)
		b.reads(`.page > .notice.bad`, "The log cannot be read: The disk is away")
		b.reads(`[data-verified="none"]`, "The log cannot be read")
		b.press("Sign out")
	}
}

// On a narrow screen the hours begin at the newest, and stay where the reader has scrolled to.
func TestBrowserHoursBeginAtTheNewest(t *testing.T) {
	s := startService(t, "", "")
	key := s.company("acme")
	s.attest(key, 3)
	b := openBrowser(t, s.base)
	b.look(look{320, "light"})
	b.signIn(key)
	b.shows(`.heat td .visually-hidden`)
	const room = `(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth)(document.querySelector('.heat-scroll'))`
	const left = `document.querySelector('.heat-scroll').scrollLeft`
	if eval[float64](b, room) < 50 {
		t.Fatal("all hours fit")
	}
	b.wait(fmt.Sprintf(`Math.abs(%s - (%s)) < 2`, left, room))
	b.wait(`(({ right }) => right <= document.querySelector('.heat-scroll').getBoundingClientRect().right + 1)(document.querySelector('.heat td.shade-5').getBoundingClientRect())`)
	eval[bool](b, `(document.querySelector('.heat-scroll').scrollLeft = 20, true)`)
	s.attest(key, 2)
	b.press("Refresh")
	b.shows(`[data-activity="5"]`)
	b.wait(left + ` === 20`)
}

// In a zone whose hours do not begin with those of UTC, each hour is one of the reader's clock, and
// is called what that clock shows.
func TestBrowserHoursOfTheReadersClock(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := s.company("acme")
	s.attest(key, 3)
	for zone, offset := range map[string]string{"Asia/Kolkata": "UTC+05:30", "Asia/Kathmandu": "UTC+05:45", "Europe/Berlin": "UTC+0", "America/St_Johns": "UTC−0"} {
		b := openBrowser(t, s.base)
		call(b, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: zone})
		b.signIn(key)
		b.shows(`[data-activity="3"] .shade-5`)
		// Before they are read again, the full hours of UTC are called what they are.
		b.press("UTC")
		b.reads(`[data-activity="3"]`, offset)
		const names = `[...document.querySelectorAll('.heat thead th:not(:first-child):not(.number):not(.number ~ th)')].map((e) => e.textContent)`
		const spans = `[...document.querySelectorAll('.heat tbody a[href*="since"]')].map((e) => new URLSearchParams(e.href.split('?')[1]).get('since')).filter(Boolean)`
		b.wait(`(` + names + `).every((name) => /^[0-9][0-9]$/.test(name))`)
		b.wait(`(` + spans + `).every((since) => new Date(since).getMinutes() === 0)`)
		b.wait(fmt.Sprintf(`(%s).at(-1) === String(new Date().getHours()).padStart(2, '0')`, names))
		b.wait(`document.querySelector('.heat td.shade-5').title.slice(11, 16) === String(new Date((` + spans + `).at(-1)).getHours()).padStart(2, '0') + ':00'`)
	}
}
