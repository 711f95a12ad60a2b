package web_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"attestd/internal/must"
	"attestd/internal/testenv"
)

// explorable gives a new company 30 records of three agents and two actions; record 10 is
// delegated, record 17 holds what is searched for, and the payload of record 20 takes several
// lines.
func explorable(t *testing.T, s *service) (key, delegatedBy string) {
	t.Helper()
	key = s.company("acme")
	s.api("POST", "/v1/agents/register", key, map[string]any{"agentId": "bot-1"})
	delegation := s.api("POST", "/v1/token-exchange", key, map[string]any{"agentId": "bot-1", "actingOn": "initech", "scope": "pay"})["token"]
	for i := range 30 {
		record := map[string]any{"agentId": fmt.Sprintf("bot-%d", i%3), "actionType": []string{"payment.send", "mail.send"}[i%2], "payload": map[string]any{"order": i}}
		switch i {
		case 10:
			record["delegation"] = delegation
		case 17:
			record["payload"] = map[string]any{"note": "the NeeDle \u202e in it"}
		case 20:
			record["payload"] = json.RawMessage("{\n  \"order\":\n20}")
		}
		s.api("POST", "/v1/attest", key, record)
	}
	chain := s.api("GET", "/v1/chain?from=10&limit=1", key, nil)["records"].([]any)[0].(map[string]any)
	return key, chain["delegation"].(map[string]any)["subject"].(string)
}

// rows waits until the list shows the records with these indexes, from its top.
func (b *browser) rows(want ...int) {
	b.t.Helper()
	b.wait(fmt.Sprintf(`document.querySelector('.records-count[data-done="yes"]') && !document.querySelector('.log[aria-busy]') &&
		JSON.stringify([...document.querySelectorAll('.vlist-row')].sort((a, b) => a.ariaRowIndex - b.ariaRowIndex).map((row) => Number(row.dataset.index))) === %q`, strings.TrimSpace(jsonOf(b.t, want))))
}

// tall makes the window so high that all rows of a short list are in it.
func (b *browser) tall() {
	b.t.Helper()
	call(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: 1280, Height: 2000, DeviceScaleFactor: 1})
}

// signInForTab signs in so that a reload keeps it.
func (b *browser) signInForTab(key string) {
	b.t.Helper()
	b.fill(`input[name="key"]`, key)
	eval[bool](b, `([...document.querySelectorAll('form:has([name="key"]) .check input')].at(-1).click(), true)`)
	b.press("Sign in")
	b.shows(`[data-overview]`)
}

// those are the indexes of the 30 records for which something holds, the newest first.
func those(holds func(i int) bool) []int {
	var found []int
	for i := 29; i >= 0; i-- {
		if holds(i) {
			found = append(found, i)
		}
	}
	return found
}

// Every search is in the URL, is carried out by the server, and is repeated after a reload; a step
// back returns to the search before.
func TestBrowserRecordsSearch(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key, delegatedBy := explorable(t, s)
	times, hashes := make([]string, 30), make([]string, 30)
	for i, r := range s.api("GET", "/v1/chain", key, nil)["records"].([]any) {
		times[i], hashes[i] = r.(map[string]any)["timestamp"].(string), r.(map[string]any)["hash"].(string)
	}
	b := openBrowser(t, s.base)
	b.tall()
	b.signInForTab(key)
	b.confirmKey(s, "acme")
	all := those(func(int) bool { return true })
	b.goTo("#/records")
	b.reads(".records-count", "30 records")

	tests := []struct {
		fields map[string]string
		query  url.Values
		want   []int
	}{
		{map[string]string{"q": "nEEdle"}, url.Values{"q": {"nEEdle"}}, []int{17}},
		{map[string]string{"agent": "bot-1"}, url.Values{"agent": {"bot-1"}}, those(func(i int) bool { return i%3 == 1 })},
		{map[string]string{"action": "payment.*"}, url.Values{"action": {"payment.*"}}, those(func(i int) bool { return i%2 == 0 })},
		{map[string]string{"action": "mail.send", "agent": "bot-2"}, url.Values{"action": {"mail.send"}, "agent": {"bot-2"}}, those(func(i int) bool { return i%2 == 1 && i%3 == 2 })},
		{map[string]string{"delegatedBy": "*"}, url.Values{"delegatedBy": {"*"}}, []int{10}},
		{map[string]string{"delegatedBy": delegatedBy}, url.Values{"delegatedBy": {delegatedBy}}, []int{10}},
		{map[string]string{"period": "1h"}, url.Values{"last": {"1h"}}, all},
		{map[string]string{"period": "exact", "since": times[5], "until": strings.Replace(strings.TrimSuffix(times[25], "Z"), "T", " ", 1)},
			url.Values{"since": {times[5]}, "until": {times[25]}}, those(func(i int) bool { return times[i] >= times[5] && times[i] < times[25] })},
	}
	for _, tt := range tests {
		b.goTo("#/records")
		b.rows(all...)
		if period, ok := tt.fields["period"]; ok {
			eval[bool](b, fmt.Sprintf(`(() => { const s = document.querySelector('select[name="period"]'); s.value = %q; return s.dispatchEvent(new Event('change', { bubbles: true })); })()`, period))
		}
		for name, value := range tt.fields {
			if name != "period" {
				b.fill(fmt.Sprintf(`.records-filters input[name=%q]`, name), value)
			}
		}
		b.press("Search")
		b.rows(tt.want...)
		_, search, _ := strings.Cut(eval[string](b, `location.hash`), "?")
		if got, err := url.ParseQuery(search); err != nil || !reflect.DeepEqual(got, tt.query) {
			t.Errorf("%v is %s in the URL", tt.fields, search)
		}
		must.OK(t, chromedp.Do(b.ctx, chromedp.Reload()))
		b.rows(tt.want...)
		for name, value := range tt.fields {
			if name != "since" && name != "until" {
				b.wait(fmt.Sprintf(`document.querySelector('.records-filters [name=%q]').value === %q`, name, value))
			}
		}
		b.press("Newest first")
		oldest := slices.Clone(tt.want)
		slices.Reverse(oldest)
		b.rows(oldest...)
		eval[bool](b, `(history.back(), true)`)
		b.rows(tt.want...)
	}

	b.press("Clear")
	b.rows(all...)
	b.fill(".jump input", strings.ToUpper(hashes[13]))
	b.press("Go")
	b.rows(13)
	b.wait(fmt.Sprintf(`document.querySelector('.records-filters [name="hash"]').value === %q`, strings.ToUpper(hashes[13])))
	b.press("Clear")
	b.rows(all...)
	b.goTo("#/records?since=2026-01-01")
	b.reads(".notice.bad", "since")
	b.reads(".records-count", "Nothing was loaded.")
	b.fill(`input[name="since"]`, times[9])
	b.fill(`input[name="until"]`, times[3])
	b.press("Search")
	b.wait(`document.activeElement.name === 'until' && document.activeElement.ariaInvalid === 'true'`)
	b.goTo("#/records?agent=nobody")
	b.reads(".empty", "No matching records")
	b.goTo("#/chain?agent=bot-0") // the page's former name
	b.rows(those(func(i int) bool { return i%3 == 0 })...)
	eval[bool](b, `(document.querySelector('[data-index="27"] a').click(), true)`)
	b.reads("dialog h2", "Record 27")
	b.wait(`location.hash === '#/records/27?agent=bot-0'`)

	// A character that is invisible in a payload is not in the list either.
	b.goTo("#/records?q=needle")
	b.reads(`[data-index="17"] .row-text`, "⟨U+202E⟩")
}

// Records that are attested while a search is shown are announced if they match, and shown on
// request.
func TestBrowserRecordsTail(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key, _ := explorable(t, s)
	b := openBrowser(t, s.base)
	b.tall()
	b.signIn(key)
	b.goTo("#/records?agent=bot-1")
	b.rows(those(func(i int) bool { return i%3 == 1 })...)
	for _, agent := range []string{"bot-1", "bot-2", "bot-1"} {
		s.api("POST", "/v1/attest", key, map[string]any{"agentId": agent, "actionType": "late", "payload": nil})
	}
	b.press("2 new")
	b.rows(append([]int{32, 30}, those(func(i int) bool { return i%3 == 1 })...)...)
	b.wait(`document.activeElement.closest('[data-index="32"]')`)
	b.goTo("#/records?order=oldest")
	b.reads(".records-count", "33 records")
	s.attest(key, 12)
	b.press("12 new")
	b.shows(`[data-index="44"]`)
	b.wait(`document.activeElement.closest('[data-index="44"]')`)

	// The next search leaves the focus where it is.
	eval[bool](b, `(() => { const order = [...document.querySelectorAll('button')].find((e) => e.textContent === 'Oldest first'); order.focus(); order.click(); return true; })()`)
	b.shows(`.log:not([aria-busy]) [data-index="44"][aria-rowindex="2"]`)
	if focus := eval[string](b, `document.activeElement.textContent`); focus != "Newest first" {
		t.Errorf("the focus is at %s", focus)
	}

	// A user who follows the list sees new records at once, verified, but not while working in the
	// list.
	late := func(action string) {
		s.api("POST", "/v1/attest", key, map[string]any{"agentId": "bot-1", "actionType": action, "payload": nil})
	}
	for _, tt := range []struct{ query, first, second string }{
		{"agent=bot-1&", `[data-index="45"][aria-rowindex="2"]`, `[data-index="46"][aria-rowindex="2"]`},
		{"agent=bot-1&order=oldest&", `[data-index="47"]`, `[data-index="48"]`},
		{"", `[data-index="49"][aria-rowindex="2"]`, `[data-index="50"][aria-rowindex="2"]`},
	} {
		b.goTo("#/records?" + tt.query + "follow=1")
		b.shows(`.records-count[data-done="yes"]`)
		b.wait(`!document.querySelector('.log[aria-busy]') && document.querySelector('[aria-rowindex="2"][data-check="warn"]')`)
		late("first")
		b.shows(tt.first + `[data-check="warn"]`)
		eval[bool](b, `(document.querySelector('.vlist a').focus(), true)`)
		late("second")
		b.press("1 new")
		b.shows(tt.second + `[data-check="warn"]`)
		eval[bool](b, `(document.activeElement.blur(), true)`)
	}
}

// mouse presses at one place and lets go at another.
func (b *browser) mouse(x1, y1, x2, y2 float64) {
	b.t.Helper()
	for _, e := range []input.DispatchMouseEventParams{
		{Type: "mousePressed", X: x1, Y: y1, Button: "left", Buttons: 1, ClickCount: 1},
		{Type: "mouseMoved", X: (x1 + x2) / 2, Y: y1, Button: "left", Buttons: 1},
		{Type: "mouseMoved", X: x2, Y: y2, Button: "left", Buttons: 1},
		{Type: "mouseReleased", X: x2, Y: y2, Button: "left", ClickCount: 1},
	} {
		call(b, input.DispatchMouseEvent, e)
	}
}

// The histogram shows the number of records over time. Pressing a bar, dragging over bars, and
// choosing bars by keyboard narrow the search to their time, in the URL too.
func TestBrowserRecordsHistogram(t *testing.T) {
	s := startService(t, "", "")
	key, _ := explorable(t, s)
	b := openBrowser(t, s.base)
	b.tall()
	b.signIn(key)

	type bar struct {
		X, Y  float64
		Label string
	}
	bars := func() []bar {
		t.Helper()
		b.goTo("#/records")
		b.reads(".records-count", "30 records")
		b.wait(`location.hash === '#/records' && document.querySelectorAll('.histogram-bars button').length > 5`)
		b.wait(`[...document.querySelectorAll('.histogram-bars button')].reduce((n, b) => n + Number(/: ([0-9]+) record/.exec(b.ariaLabel)[1]), 0) === 30`)
		return eval[[]bar](b, `[...document.querySelectorAll('.histogram-bars button')].map((b) => {
			const r = b.getBoundingClientRect();
			return { X: r.x + r.width / 2, Y: r.y + r.height - 5, Label: b.ariaLabel };
		})`)
	}
	count := func(bars ...bar) (n int) {
		for _, bar := range bars {
			var one int
			_, answer, _ := strings.Cut(bar.Label, " UTC: ")
			_, err := fmt.Sscanf(answer, "%d record", &one)
			must.OK(t, err)
			n += one
		}
		return n
	}
	narrowed := func(first, last bar, want int) {
		t.Helper()
		b.wait(`/since=.*&until=/.test(location.hash)`)
		b.wait(fmt.Sprintf(`document.querySelector('.records-count[data-done="yes"]') && !document.querySelector('.log[aria-busy]') && document.querySelectorAll('.vlist-row').length === %d`, want))
		query, err := url.ParseQuery(strings.SplitN(eval[string](b, `location.hash`), "?", 2)[1])
		must.OK(t, err)
		since, until := strings.Replace(query.Get("since"), "T", " ", 1), strings.Replace(query.Get("until"), "T", " ", 1)
		_, end, _ := strings.Cut(last.Label, " to ")
		if !strings.HasPrefix(since, first.Label[:19]) || !strings.HasPrefix(until, end[:19]) {
			t.Errorf("%s to %s are the bars %s and %s", since, until, first.Label, last.Label)
		}
	}

	all := bars()
	busiest := slices.MaxFunc(all, func(x, y bar) int { return count(x) - count(y) })
	b.mouse(busiest.X, busiest.Y, busiest.X, busiest.Y)
	narrowed(busiest, busiest, count(busiest))

	all = bars()
	middle := len(all) / 2
	b.mouse(all[middle].X, all[middle].Y, all[0].X, all[0].Y)
	narrowed(all[0], all[middle], count(all[:middle+1]...))

	all = bars()
	must.OK(t, chromedp.Do(b.ctx, chromedp.Focus(chromedp.CSS(`.histogram-bars [tabindex="0"]`))))
	must.OK(t, chromedp.Do(b.ctx, chromedp.KeyEvent(kb.Home)))
	for range 3 {
		must.OK(t, chromedp.Do(b.ctx, chromedp.KeyEvent(kb.ArrowRight, chromedp.KeyModifiers(chromedp.ModifierShift))))
	}
	b.wait(`document.querySelectorAll('.histogram-bars .chosen').length === 4`)
	must.OK(t, chromedp.Do(b.ctx, chromedp.KeyEvent(kb.Enter)))
	narrowed(all[0], all[3], count(all[:4]...))
}
