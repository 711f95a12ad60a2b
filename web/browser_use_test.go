package web_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"attestd/internal/must"
	"attestd/internal/testenv"
)

// A key that is stored for the tab survives a reload, and a wrong one is refused in words.
func TestBrowserStoresKeyPerTab(t *testing.T) {
	s := startService(t, "", "")
	key := s.company("acme")
	b := openBrowser(t, s.base)
	b.fill(`input[name="key"]`, "svc_wrong")
	b.press("Sign in")
	b.reads(`[role="alert"]`, "does not know this key")
	b.fill(`input[name="key"]`, key)
	eval[bool](b, `(document.querySelectorAll('.check input')[1].click(), true)`)
	b.press("Sign in")
	b.reads(".top-company", "acme")
	must.OK(t, chromedp.Do(b.ctx, chromedp.Reload()))
	b.reads(".top-company", "acme")
	b.press("Sign out")
	must.OK(t, chromedp.Do(b.ctx, chromedp.Reload()))
	b.reads("h1", "Tamper-evident logs")
}

// Where the page is no secure context the browser offers no WebCrypto; everything is checked all
// the same.
func TestBrowserWithoutWebCrypto(t *testing.T) {
	const host = "attestd.test" // a plain name over HTTP is not trustworthy, unlike loopback
	address := freePort(t)
	base := "http://" + strings.Replace(address, "127.0.0.1", host, 1)
	s := startService(t, "", address, "--allowed-origins", base)
	key := s.company("acme")
	s.attest(key, 40)
	b := openBrowser(t, base, chromedp.Flag("host-resolver-rules", "MAP "+host+" 127.0.0.1"), chromedp.Flag("proxy-bypass-list", host))
	if eval[bool](b, `isSecureContext || crypto.subtle !== undefined`) {
		t.Fatal("this context is secure: the test shows nothing")
	}
	b.signIn(key)
	b.confirmKey(s, "acme")
	b.goTo("#/live")
	b.shows(`li[data-index="39"][data-check="ok"]`)
	b.goTo("#/proof/7")
	b.shows(`[data-evidence="ok"]`)
	b.goTo("#/verify")
	b.press("Verify the whole chain")
	b.shows(`[data-verdict="valid"]`)
	b.reads(`[data-verdict] dl`, "with @noble/ed25519")
}

// The console is usable with the keyboard alone: the list of the chain, and the way into and out of
// a record.
func TestBrowserKeyboard(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := s.company("acme")
	s.attest(key, 200)
	b := openBrowser(t, s.base)
	b.signIn(key)
	b.goTo("#/records")
	b.shows(`.records-count[data-done="yes"]`)
	press := func(keys ...string) {
		t.Helper()
		for _, key := range keys {
			must.OK(t, chromedp.Do(b.ctx, chromedp.KeyEvent(key)))
		}
	}
	must.OK(t, chromedp.Do(b.ctx, chromedp.Focus(chromedp.CSS(`.vlist a[tabindex="0"]`))))
	press(kb.End, kb.ArrowUp)
	b.wait(`document.activeElement.closest('[role="row"][aria-rowindex="200"][data-index="1"]') && document.querySelectorAll('.vlist a[tabindex="0"]').length === 1`)
	press(kb.Enter)
	b.reads("dialog h2", "Record 1")
	press(kb.Escape)
	b.wait(`!document.querySelector('dialog') && document.activeElement.closest('[data-index="1"]')`)
	press(" ")
	b.shows(`[data-index="1"][aria-selected="true"] :checked`)
	// After a way through some records, also one that ends with a step back of the browser, the
	// list is at the last of them.
	press(kb.Enter)
	b.reads("dialog h2", "Record 1")
	press("k")
	b.reads("dialog h2", "Record 2")
	eval[bool](b, `(history.back(), true)`)
	b.wait(`!document.querySelector('dialog') && document.activeElement.closest('[data-index="2"]')`)
	press(kb.Home)
	b.wait(`document.activeElement.closest('[data-index="199"]')`)

	// The first tab stop of a page leads past the navigation.
	must.OK(t, chromedp.Do(b.ctx, chromedp.Reload()))
	b.reads("h1", "Sign in first")
	press(kb.Tab)
	b.wait(`document.activeElement.className === 'skip'`)
	press(kb.Enter)
	b.wait(`document.activeElement.tagName === 'H1'`)
}
