package web_test

import (
	"bytes"
	"compress/zlib"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"testing"

	"github.com/chromedp/cdproto/emulation"

	"attestd/internal/testenv"
)

// demoPages are the pages of the demo company that a reader sees first.
var demoPages = []struct {
	name, hash, ready string
	sheets            int // of A4, at most, for which it needs no empty one
}{
	{"overview", "#/start", `[data-overview="ready"] .heat td`, 3},
	{"sessions", "#/sessions", `[data-sessions] tr[data-session]`, 2},
	{"session", "#/sessions/shop-142?agent=coder&kind=statement", `[data-call="0"][data-check]`, 2},
	{"session-call", "#/sessions/shop-142?agent=coder&kind=statement&record=2", `[data-open-call] [data-check]`, 2},
	{"webhooks", "#/webhooks", `[data-webhook]`, 1},
	{"palette", "#/start", `[data-overview="ready"] .heat td`, 3},
}

// seen are the looks in which these pages are audited: all with -night, else each width in the
// scheme in which the tests of all pages do not show it.
func seen(schemes []string) (all []look) {
	for _, scheme := range schemes {
		for _, width := range []int64{360, 1280, 1920} {
			if testenv.Night() || pictures() != "" || (width == 1280) == (scheme == "light") {
				all = append(all, look{width, scheme})
			}
		}
	}
	return all
}

// The page before signing in, and those of the demo company, are free of what axe-core finds wrong
// and fit the window in each width, in both schemes, and on paper.
func TestBrowserLooksOfDemo(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	b := openBrowser(t, s.base)
	b.looksOfDemo(s, "light", "dark")
}

// The same in Firefox, which also prints each page.
func TestFirefoxLooksOfDemo(t *testing.T) {
	testenv.Needs(t, testenv.Hours)
	for _, scheme := range []string{"light", "dark"} {
		t.Run(scheme, func(t *testing.T) {
			s := startService(t, "", "")
			openFirefox(t, s.base, scheme).looksOfDemo(s, scheme)
		})
	}
}

// looksOfDemo goes from the page before signing in over all pages of the demo company.
func (b *browser) looksOfDemo(s *service, schemes ...string) {
	b.t.Helper()
	b.loadAxe()
	b.shows(`[aria-label="Watch Claude Code"]`)
	b.inAllLooks("welcome", schemes, 1)
	b.press("Fill a demo company")
	b.shows(`[data-activity="39"]`)
	key := eval[string](b, `document.querySelector('.value code').textContent`)
	s.api("POST", "/v1/webhooks", key, map[string]any{"url": "https://hooks.example.com/attestd", "actions": []string{"tool.*"}, "description": "pages the people on call"})
	for _, p := range demoPages {
		b.goTo(p.hash)
		b.shows(p.ready)
		if p.name == "palette" {
			eval[bool](b, `document.body.dispatchEvent(new KeyboardEvent('keydown', {key: 'k', ctrlKey: true, bubbles: true, cancelable: true})) || true`)
			b.shows(`dialog.palette [role=option]`)
		}
		b.inAllLooks(p.name, schemes, p.sheets)
	}
}

// inAllLooks audits what the page shows in each width and scheme, and on paper.
func (b *browser) inAllLooks(name string, schemes []string, sheets int) {
	b.t.Helper()
	for _, l := range seen(schemes) {
		b.look(l)
		at := fmt.Sprintf("%s-%s", name, l)
		b.picture("demo-"+b.engine()+at, "")
		b.audit(at)
		b.fits(at)
	}
	b.look(look{794, schemes[len(schemes)-1]})
	b.onPaper(func() {
		if cut := eval[[]string](b, notWhole); len(cut) > 0 {
			b.t.Errorf("%s is cut off on paper: %q", name, cut)
		}
		if ink := eval[string](b, `getComputedStyle(document.body).color + ' on ' + getComputedStyle(document.body).backgroundColor`); ink != "rgb(0, 0, 0) on rgb(255, 255, 255)" {
			b.t.Errorf("%s is printed %s", name, ink)
		}
		b.fits(name + " on paper")
		b.picture("demo-"+b.engine()+name+"-print", "")
	})
	firefox, ok := b.other.(*firefox)
	if !ok {
		return
	}
	pdf := firefox.pdf(b)
	b.save("demo-"+name+".pdf", pdf)
	if n := sheetsOf(pdf); n < 1 || n > sheets {
		b.t.Errorf("%s is printed on %d sheets, more than %d", name, n, sheets)
	}
}

var countOfPages = regexp.MustCompile(`/Type\s*/Pages[^>]*/Count\s+(\d+)|/Count\s+(\d+)[^>]*/Type\s*/Pages`)

// sheetsOf returns the number of pages of a PDF, and 0 for what is none.
func sheetsOf(pdf []byte) int {
	for _, part := range bytes.Split(pdf, []byte("stream\n")) {
		unpacked, err := zlib.NewReader(bytes.NewReader(part))
		if err != nil {
			continue
		}
		text, _ := io.ReadAll(unpacked) // what follows the stream is of no interest
		if m := countOfPages.FindSubmatch(text); m != nil {
			n, _ := strconv.Atoi(string(m[1]) + string(m[2]))
			return n
		}
	}
	return 0
}

func (b *browser) engine() string {
	if b.other != nil {
		return b.other.name() + "-"
	}
	return ""
}

// onPaper shows the page as it is printed while check runs.
func (b *browser) onPaper(check func()) {
	b.t.Helper()
	if b.other != nil {
		if !eval[bool](b, fmt.Sprintf(printed, true)) {
			b.t.Error("no style of the page is for paper")
		}
	} else {
		call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print",
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}})
	}
	b.settle()
	check()
	if b.other != nil {
		eval[bool](b, fmt.Sprintf(printed, false))
	} else {
		call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{})
	}
}
