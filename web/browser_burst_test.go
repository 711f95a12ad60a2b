package web_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"

	"attestd/internal/testenv"
)

// Records that come faster than the page can check them end no verdict: those that were passed on
// unchecked, and those that the stream left out, are fetched and
// checked after it, and the chain is green again up to its newest record without anybody's doing.
func TestBrowserCatchesUpAfterBurst(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := s.company("acme")
	s.attest(key, 50)
	b := openBrowser(t, s.base)
	b.signIn(key)
	b.confirmKey(s, "acme")
	b.goTo("#/live")
	b.shows(`.pulse.ok`)
	total := 50
	for range testenv.Rounds(1, 2) {
		// The page is blocked while thousands of records come: its messages wait, or the server
		// ends its stream.
		eval[bool](b, `(setTimeout(() => { const end = performance.now() + 3000; while (performance.now() < end); }), true)`)
		s.attest(key, 4500)
		total += 4500
		b.waitFor(90*time.Second, fmt.Sprintf(`document.querySelector('[data-checked="0-%d"]') && document.querySelector('.pulse.ok')`, total))
	}
	if n := eval[int](b, `document.querySelectorAll('.entry:not([data-check="ok"]), [data-behind], [data-finding]').length`); n > 0 {
		t.Errorf("%d records or findings are left behind", n)
	}
	b.reads(".pulse-sub", fmt.Sprintf("%d,%03d records checked here", total/1000, total%1000))
}

// All times are in one zone, which each of them names: UTC, or that of the reader where he chose
// it, on paper and in the files that are saved too. The choice
// stays, and fields and histograms follow it.
func TestBrowserTimesAreOfOneNamedZone(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := administer(s)
	s.attest(key, 5)
	b := openBrowser(t, s.base)
	call(b, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "Asia/Kolkata"})
	b.reload()
	b.signIn(key)
	b.confirmKey(s, "acme")
	const times = `(() => {
		const found = [];
		// its head names the zone
		const list = innerWidth > 800 ? document.querySelector('.vlist')?.innerText ?? '' : '';
		for (const at of [document.querySelector('main')]) {
			for (const m of at.innerText.replace(list, '').matchAll(/\b[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{3})?)?(?![0-9:])( UTC\+05:30| UTC(?!\+)|Z)?/g)) {
				const line = at.innerText.replace(list, '').slice(0, m.index).split('\n').at(-1);
				if (/UTC[+−]$/.test(line)) continue; // of the name of a zone
				found.push(m[3] ?? 'none: ' + line + m[0]);
			}
		}
		return [...new Set(found)];
	})()`
	pages := []struct{ hash, there string }{
		{"#/live", `.pulse.ok`}, {"#/control", `.change`}, {"#/control/3", `dialog [data-check]`}, {"#/records/2", `dialog [data-check="ok"]`}, {"#/agents", `[data-agent]`},
		{"#/agents/builder", `[data-passports="2"]`}, {"#/passports", `tr[data-jti]`}, {"#/keys", `.credentials`}, {"#/verify", `.table`}, {"#/report", `.report-form`},
	}
	for _, zone := range []string{" UTC", " UTC+05:30"} {
		for _, page := range pages {
			b.goTo(page.hash)
			b.shows(page.there)
			for _, found := range eval[[]string](b, times) {
				if found != zone && found != "Z" || found == "Z" {
					t.Errorf("%s: a time in %q, and the zone is%s", page.hash, found, zone)
				}
			}
		}
		b.goTo("#/records")
		b.reads(`[role="columnheader"]:nth-child(4)`, "Time ("+zone[1:]+")")
		b.reads(".histogram-axis", zone[1:])
		b.goTo("#/report")
		b.press("Create the report of everything")
		b.shows(`[data-report="ok"]`)
		eval[bool](b, keepSaved)
		b.press("Save this page")
		b.wait(fmt.Sprintf(`document.title.endsWith(%q)`, zone))
		if ok := eval[bool](b, fmt.Sprintf(`saved[0].text().then((html) => html.includes(%q + '</span>') && !html.includes(%q + '</span>'))`, zone, map[string]string{" UTC": " UTC+05:30", " UTC+05:30": " UTC"}[zone])); !ok {
			t.Errorf("the saved report is not in %s alone", zone)
		}
		b.goTo("#/records?since=2026-01-01T18:30:00.000Z")
		want := map[string]string{" UTC": "2026-01-01 18:30", " UTC+05:30": "2026-01-02 00:00"}[zone]
		b.wait(fmt.Sprintf(`document.querySelector('[name="since"]')?.value === %q`, want))
		if zone == " UTC" {
			eval[bool](b, `(document.querySelector('[aria-label^="Times:"]').click(), true)`)
		}
	}
	b.goTo("#/records")
	b.shows(`[data-index="0"]`)
	b.look(look{360, "light"})
	// there is no room for a head
	b.wait(`document.querySelector('.row-zone').innerText === 'Times are in UTC+05:30.' && document.querySelector('.row-zone').getClientRects().length`)
	b.fits("Records in a zone with a long name")
	b.goTo("#/start")
	b.reload()
	b.signIn(key)
	b.goTo("#/control")
	b.reads(".change-time", "UTC+05:30") // the choice stays
}

// An address without a page leads to a page that says so.
func TestBrowserUnknownAddress(t *testing.T) {
	s := startService(t, "", "")
	b := openBrowser(t, s.base)
	for _, hash := range []string{"#/recrods", "#/__proto__", "#/Live", "#/start2/x?y=z"} {
		b.goTo(hash)
		b.reads("h1", "Page not found")
		b.wait(`document.title === 'Page not found · attestd' && !document.querySelector('[aria-current="page"]')`)
	}
	b.press("Go to the overview")
	b.reads("h1", "Tamper-evident logs")
}
