package web_test

import (
	"fmt"
	"regexp"
	"strings"
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
		if seen := eval[[]string](b, `[...document.querySelectorAll('.side, .no-print')].filter((e) => e.checkVisibility()).map((e) => e.outerHTML.slice(0, 120))`); len(seen) > 0 {
			t.Errorf("%s: what belongs to the screen is printed: %q", p.name, seen)
		}
		if ink := eval[string](b, `getComputedStyle(document.body).color + ' on ' + getComputedStyle(document.body).backgroundColor`); ink != "rgb(0, 0, 0) on rgb(255, 255, 255)" {
			t.Errorf("%s: %s", p.name, ink)
		}
		b.reads(printHeader, s.fingerprint("acme"))
		if head := eval[string](b, printedHead); !headOfPrint.MatchString(head) || !strings.Contains(head, "acme at "+s.base+", printed at ") {
			t.Errorf("%s: the print begins with %q", p.name, head)
		}
		if state := eval[string](b, printedKey); !strings.HasPrefix(state, "confirmed confirmed in this browser at 20") {
			t.Errorf("%s: the key is printed as %q", p.name, state)
		}
		b.fits(p.name + " in print")
		b.picture(p.name+"-print", "")
		call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{})
	}
}

const printHeader = `.print-header`

// printedHead is the text of the header of a print, where nothing lies over it, and it is above all
// else; or "".
const printedHead = `(() => {
	scrollTo(0, 0);
	const head = document.querySelector('.print-header'), { left, right, top, bottom } = head.getBoundingClientRect();
	const open = document.querySelector('dialog[open]'); // all else is inert then, and at no point
	const lies = open ? open.getBoundingClientRect().top < bottom : [left + 5, (left + right) / 2, right - 5].some((x) => [top + 2, (top + bottom) / 2, bottom - 2].some((y) => !head.contains(document.elementFromPoint(x, y))));
	const above = [...document.querySelectorAll('h1, h2')].every((e) => !e.checkVisibility({ visibilityProperty: true }) || e.getBoundingClientRect().top >= bottom - 1);
	return !lies && above && head.checkVisibility({ visibilityProperty: true }) ? head.innerText.replace(/\s+/g, ' ') : '';
})()`

const printedKey = `((e) => e.dataset.printedKey + ' ' + e.innerText)(document.querySelector('[data-printed-key]'))`

// headOfPrint is what a print begins with: company, server, time with its zone and key.
var headOfPrint = regexp.MustCompile(`^acme at http://[0-9.:]+, printed at [0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8} UTC Key SHA256:\S{43} ?, confirmed in this browser at [0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8} UTC$`)

// A print says of which company and server it is, when it was made, and what this browser knows of
// the key: also where nobody is signed in, and where the key was not confirmed.
func TestBrowserPrintSaysWhatItIsOf(t *testing.T) {
	s := startService(t, "", "")
	key := s.company("acme")
	b := openBrowser(t, s.base)
	b.onPaper(func() { b.reads(printHeader, "Not signed in at "+s.base+", printed at 20") })
	if eval[bool](b, `document.querySelector('.print-header').checkVisibility()`) {
		t.Error("the header of prints is on the screen")
	}
	b.signIn(key)
	b.onPaper(func() {
		if state := eval[string](b, printedKey); state != "unconfirmed not confirmed in this browser" {
			t.Errorf("the key is printed as %q", state)
		}
	})
	b.confirmKey(s, "acme")
	b.press("UTC") // local time, which is that of the machine of the test
	b.onPaper(func() { b.reads(`[data-printed]`, "UTC+") })
	b.press("Local time")
	at := eval[string](b, `localStorage['attestd.confirmed']`)
	b.reload()
	b.signIn(key)
	b.onPaper(func() {
		b.wait(`Date.now() - Date.parse(document.querySelector('[data-printed]').innerText.replace(' UTC', 'Z').replace(' ', 'T')) < 5000`)
		when := eval[string](b, printedKey)
		if !strings.Contains(at, strings.Replace(strings.TrimSuffix(strings.TrimPrefix(when, "confirmed confirmed in this browser at "), " UTC"), " ", "T", 1)) {
			t.Errorf("confirmed at %s, and %q is printed", at, when)
		}
	})
	b.press("Remove confirmation")
	b.onPaper(func() { b.shows(`[data-printed-key="unconfirmed"]`) })
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

// On a phone a row keeps its index, its time and whose it is.
func TestBrowserPhoneKeepsTimeAndAgent(t *testing.T) {
	s := startService(t, "", "")
	key := furnish(s)
	b := openBrowser(t, s.base)
	b.signIn(key)
	b.look(look{360, "light"})
	for hash, row := range map[string][]string{
		"#/live":    {".entry .entry-index", ".entry .entry-time", ".entry .entry-hash"},
		"#/records": {".vlist-row .row-index", ".vlist-row .row-time", ".vlist-row .row-agent"},
	} {
		b.goTo(hash)
		b.shows(row[0])
		for _, part := range row {
			b.wait(fmt.Sprintf(`(() => { const e = document.querySelector(%q), box = e?.getBoundingClientRect(); return Boolean(e?.checkVisibility()) && box.width > 5 && box.left >= 0 && box.right <= innerWidth && e.textContent.trim() !== ''; })()`, part))
		}
		b.fits(hash)
	}
}
