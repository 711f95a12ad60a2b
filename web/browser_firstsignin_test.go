package web_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"

	"attestd/internal/must"
	"attestd/internal/testenv"
)

func (s *service) fingerprint(companyID string) string {
	s.t.Helper()
	return s.api("GET", "/v1/ca/public-key?companyId="+companyID, "", nil)["fingerprint"].(string)
}

// allPages returns the addresses of the console's pages: each view of each section.
func (b *browser) allPages() (pages []string) {
	b.t.Helper()
	for _, section := range eval[[]string](b, `[...document.querySelectorAll('.nav a')].map((a) => a.getAttribute('href'))`) {
		b.goTo(section)
		b.shows(fmt.Sprintf(`.nav a[href=%q][aria-current="page"]`, section))
		views := eval[[]string](b, `[...document.querySelectorAll('.views a')].map((a) => a.getAttribute('href'))`)
		if len(views) == 0 {
			views = []string{section}
		}
		pages = append(pages, views...)
	}
	return pages
}

// everyPage goes through the pages of one company and calls f on each.
func (b *browser) everyPage(f func(name string)) {
	b.t.Helper()
	for _, name := range b.allPages() {
		b.goTo(name)
		b.shows(fmt.Sprintf(`:is(.nav, .views) a[href=%q][aria-current="page"]`, name))
		f(name)
	}
}

// A user who signs in for the first time reads on every page that the key is not confirmed, and
// confirms it by entering its fingerprint from another source; any other text is refused. This
// browser remembers the confirmation, and when it was.
func TestBrowserFirstSignInShowsTheFingerprint(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := s.company("acme")
	s.attest(key, 3)
	b := openPage(t, s.base+"/#/records/1")
	b.fill(`input[name="key"]`, key)
	b.press("Sign in")
	b.reads("dialog h2", "Record 1")
	b.press("Close")
	b.reads(`[data-verified="warn"]`, "Confirm the key")
	b.goTo("#/key")
	b.shows(`[data-company-key="unconfirmed"]`)
	b.reads(`[data-company-key] .fingerprint`, s.fingerprint("acme"))
	b.press("Confirm key") // with nothing
	b.fill(`input[name="fingerprint"]`, "SHA256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")
	b.press("Confirm key")
	b.reads(`[data-company-key] [role="alert"]`, "This fingerprint belongs to another key")
	b.fill(`input[name="fingerprint"]`, s.fingerprint("acme"))
	b.press("Confirm key")
	b.shows(`[data-company-key="confirmed"]`)
	must.OK(t, chromedp.Do(b.ctx, chromedp.Reload()))
	b.signIn(key)
	b.reads(`[data-verified="ok"]`, "key confirmed 20")
	b.everyPage(func(name string) {
		if eval[bool](b, `document.querySelector('[data-key-change]') !== null`) {
			t.Errorf("%s speaks of a key that did not change", name)
		}
	})
}

// Another database behind the same address has another key for the same company: every page reports
// that in red, and nothing is green, whether the earlier key had been confirmed or only seen. Only
// the new fingerprint from another source makes it valid.
func TestBrowserShowsAReplacedKeyOnEveryPage(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	for _, confirmed := range []bool{true, false} {
		t.Run(fmt.Sprintf("confirmed=%t", confirmed), func(t *testing.T) {
			address := freePort(t)
			s := startService(t, "", address)
			key := s.company("acme")
			s.attest(key, 2)
			before := s.fingerprint("acme")
			b := openBrowser(t, s.base)
			b.signIn(key)
			if confirmed {
				b.confirmKey(s, "acme")
			}
			s.stop()

			s = startService(t, "", address)
			key = s.company("acme")
			s.attest(key, 2)
			now := s.fingerprint("acme")
			must.OK(t, chromedp.Do(b.ctx, chromedp.Reload()))
			b.signIn(key)
			b.everyPage(func(name string) {
				b.reads(`[data-key-change="replaced"] [role="alert"]`, "No rotation signed by both keys leads from the known key")
				b.reads(`[data-key-change="replaced"]`, before)
				b.reads(`[data-key-change="replaced"]`, now)
				if eval[bool](b, `document.querySelector('main .ok') !== null`) {
					t.Errorf("something is green on %s", name)
				}
			})
			b.goTo("#/live")
			b.shows(`.pulse.bad[data-tone="bad"]`)

			b.confirmKey(s, "acme")
			b.wait(`!document.querySelector('[data-key-change]')`)
			b.goTo("#/live")
			b.shows(`.pulse[data-tone="ok"]`)
		})
	}
}

// A key that goes back to an earlier one is no rotation: a database was taken back. It is red
// although that key had once been confirmed.
func TestBrowserShowsKeyRollback(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := s.company("acme")
	old := []byte(jsonOf(t, s.api("GET", "/v1/ca/public-keys?companyId=acme", "", nil)))
	back := false
	base := lie(t, s, func(path string, answer []byte) []byte {
		if path == "/v1/ca/public-keys" && back {
			return old
		}
		return answer
	})
	b := openBrowser(t, base)
	b.signIn(key)
	b.confirmKey(s, "acme")
	s.api("POST", "/v1/companies/rotate-keys", key, nil)
	must.OK(t, chromedp.Do(b.ctx, chromedp.Reload()))
	b.signIn(key)
	b.shows(`[data-key-change="rotated"]`)
	b.press("Dismiss")
	back = true
	must.OK(t, chromedp.Do(b.ctx, chromedp.Reload()))
	b.signIn(key)
	b.shows(`[data-key-change="replaced"]`)
	b.shows(`[data-company-key="other"]`)
}

// A proven rotation explains a change: it is shown once, from which record and when, with both
// fingerprints, and is not red; dismissed, it stays so. One whose statement was tampered with
// explains nothing.
func TestBrowserShowsAProvenRotation(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := s.company("acme")
	s.attest(key, 3)
	var tampered bool
	base := lie(t, s, func(path string, answer []byte) []byte {
		if path == "/v1/ca/public-keys" && tampered {
			return bytes.Replace(answer, []byte(`attestd/key-rotation/v2\n`), []byte(`attestd/key-rotation/v2\nx`), 1)
		}
		return answer
	})
	b := openBrowser(t, base)
	b.signIn(key)
	b.confirmKey(s, "acme")
	first := s.fingerprint("acme")
	s.api("POST", "/v1/companies/rotate-keys", key, nil)
	second := s.fingerprint("acme")
	s.attest(key, 2)
	s.api("POST", "/v1/companies/rotate-keys", key, map[string]any{"compromised": true})
	third := s.fingerprint("acme")

	tampered = true
	must.OK(t, chromedp.Do(b.ctx, chromedp.Reload()))
	b.signIn(key)
	b.reads(`[data-key-change="replaced"] [role="alert"]`, "The server’s list of keys is invalid")

	tampered = false
	must.OK(t, chromedp.Do(b.ctx, chromedp.Reload()))
	b.signIn(key)
	b.everyPage(func(string) {
		b.reads(`[data-key-change="rotated"] .notice.warn`, "the old key and the new key both signed")
		b.reads(`.key-steps li:nth-child(1)`, "From record 3")
		b.reads(`.key-steps li:nth-child(1)`, first)
		b.reads(`.key-steps li:nth-child(1)`, second)
		b.reads(`.key-steps li:nth-child(2)`, "From record 5")
		b.reads(`.key-steps li:nth-child(2)`, "declared compromised")
		b.reads(`.key-steps li:nth-child(2)`, third)
	})
	b.goTo("#/key")
	b.shows(`[data-company-key="confirmed"]`)
	// what did not hold then is not forgotten because it holds now
	b.reads(`[data-key-change="was-replaced"]`, third)
	b.acknowledge(`true`)
	b.press("Dismiss")
	b.wait(`!document.querySelector('[data-key-change]')`)
	must.OK(t, chromedp.Do(b.ctx, chromedp.Reload()))
	b.signIn(key)
	b.shows(`[data-company-key="confirmed"]`)
	b.wait(`!document.querySelector('[data-key-change]')`)
}
