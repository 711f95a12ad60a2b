package web_test

import (
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/emulation"

	"attestd/internal/testenv"
)

// notWhole lists what a print would cut off: boxes that scroll or hide what does not fit. What is
// hidden from sight anyway, and what ends in dots on the screen too, is left out.
const notWhole = `[...document.querySelectorAll('main *')].filter((e) => {
	const style = getComputedStyle(e);
	if (e.closest('.visually-hidden') || !e.checkVisibility({ visibilityProperty: true }) || style.textOverflow === 'ellipsis' || e.matches('input, select, textarea, svg, svg *')) return false;
	const cuts = (overflow) => /auto|scroll|hidden|clip/.test(overflow);
	return cuts(style.overflowY) && e.scrollHeight > e.clientHeight + 2 || cuts(style.overflowX) && e.scrollWidth > e.clientWidth + 2;
}).map((e) => e.outerHTML.slice(0, 120))`

// On paper a page has no navigation, no box whose content is cut off, and dark ink on white in a
// dark scheme too; an open drawer is what is printed.
func TestBrowserPrintIsComplete(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := furnish(s)
	b := openBrowser(t, s.base)
	b.signIn(key)
	b.confirmKey(s, "acme")
	for _, p := range pages {
		b.look(look{794, "dark"}) // the width of A4
		b.goTo(p.hash)
		b.shows(p.ready)
		call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print",
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}})
		b.settle()
		if p.name == "records" {
			b.wait(`document.querySelectorAll('.vlist-row').length === 15`)
			if gap := eval[float64](b, `document.querySelector('.log').getBoundingClientRect().bottom - [...document.querySelectorAll('.vlist-row')].at(-1).getBoundingClientRect().bottom`); gap < -1 || gap > 40 {
				t.Errorf("the last row ends %v px above the end of the list", gap)
			}
		}
		if cut := eval[[]string](b, notWhole); len(cut) > 0 {
			t.Errorf("%s: cut off: %q", p.name, cut)
		}
		if eval[bool](b, `document.querySelector('.side').checkVisibility()`) {
			t.Errorf("%s: the navigation is printed", p.name)
		}
		if ink := eval[string](b, `getComputedStyle(document.body).color + ' on ' + getComputedStyle(document.body).backgroundColor`); ink != "rgb(0, 0, 0) on rgb(255, 255, 255)" {
			t.Errorf("%s: %s", p.name, ink)
		}
		b.fits(p.name + " in print")
		b.picture(p.name+"-print", "")
		call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{})
	}
}

// mouseOnly lists what answers clicks, or is drawn over and has no buttons for the same, and can be
// reached by no key: it is no control, has no tabindex, and is in nothing that has.
const mouseOnly = `[...document.querySelectorAll('body *')].filter((e) => Object.keys(e.l ?? {}).some((name) => /^(click|mousedown)/i.test(name) || /^pointerdown/i.test(name) && !e.querySelector('button')))
	.filter((e) => !e.closest('button, a[href], input, select, textarea, summary, label, [tabindex]') && !e.matches('dialog, .reference')).map((e) => e.outerHTML.slice(0, 120))`

// Every control can be reached by keyboard on every page, and no element changes the order of the
// keyboard focus.
func TestBrowserKeysReachAll(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := furnish(s)
	b := openBrowser(t, s.base)
	if eval[int](b, `[...document.querySelectorAll('button')].filter((e) => Object.keys(e.l ?? {}).some((name) => /^click/i.test(name))).length`) == 0 {
		t.Fatal("listeners are not where they are looked for")
	}
	b.signIn(key)
	b.confirmKey(s, "acme")
	b.look(look{1280, "light"})
	for _, p := range pages {
		b.goTo(p.hash)
		b.shows(p.ready)
		if found := eval[[]string](b, mouseOnly); len(found) > 0 {
			t.Errorf("%s: only a mouse reaches %q", p.name, found)
		}
		if found := eval[[]string](b, `[...document.querySelectorAll('[tabindex]')].filter((e) => e.tabIndex > 0).map((e) => e.outerHTML.slice(0, 120))`); len(found) > 0 {
			t.Errorf("%s: tabindex above 0: %q", p.name, found)
		}
	}
}

// announcements counts how often what a screen reader reads out by itself has changed.
const announcements = `(() => {
	window.announced = [];
	const live = (node) => (node.nodeType === 1 ? node : node.parentElement)?.closest('[role=status], [role=alert], [role=log], [aria-live=polite], [aria-live=assertive], output');
	new MutationObserver((changes) => {
		const regions = new Set(changes.map(({ target }) => live(target)).filter((e) => e && e.getAttribute('aria-live') !== 'off'));
		for (const e of regions) announced.push(e.textContent);
	}).observe(document.body, { subtree: true, childList: true, characterData: true });
	return true;
})()`

// Hundreds of records that arrive, and a verification of all of them, are not read out one by one.
func TestBrowserLiveRegionsDoNotFlood(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := furnish(s)
	b := openBrowser(t, s.base)
	b.signIn(key)
	b.confirmKey(s, "acme")
	b.goTo("#/live")
	b.shows(`.pulse[data-tone="ok"]`)
	eval[bool](b, announcements)
	const more = 600
	s.attest(key, more)
	b.reads(".page", fmt.Sprint(15+more))
	b.reads(`.entries li`, fmt.Sprint(14+more))
	if texts := eval[[]string](b, `announced`); len(texts) > 5 {
		t.Errorf("%d announcements for %d records, such as %q", len(texts), more, texts[:5])
	}
	b.goTo("#/verify")
	b.press(eval[string](b, `document.querySelector('.button.primary').textContent`))
	b.shows(`[data-verdict="valid"]`)
	if texts := eval[[]string](b, `announced`); len(texts) > 15 {
		t.Errorf("%d announcements with a verification, such as %q", len(texts), texts[:15])
	}
}

// On a phone a row keeps what identifies its record: index, time and hash.
func TestBrowserPhoneKeepsTimeAndHash(t *testing.T) {
	s := startService(t, "", "")
	key := furnish(s)
	b := openBrowser(t, s.base)
	b.signIn(key)
	b.look(look{360, "light"})
	for hash, row := range map[string][]string{
		"#/live":    {".entry .entry-index", ".entry .entry-time", ".entry .entry-hash"},
		"#/records": {".vlist-row .row-index", ".vlist-row .row-time", ".vlist-row .row-hash"},
	} {
		b.goTo(hash)
		b.shows(row[0])
		for _, part := range row {
			b.wait(fmt.Sprintf(`(() => { const e = document.querySelector(%q), box = e?.getBoundingClientRect(); return Boolean(e?.checkVisibility()) && box.width > 5 && box.left >= 0 && box.right <= innerWidth && e.textContent.trim() !== ''; })()`, part))
		}
		b.fits(hash)
	}
}
