package web_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"

	"attestd/internal/must"
	"attestd/internal/testenv"
)

// between is a proxy before a service. answer may answer a request in its place, and reports
// whether it did; change may change the header of the service's answer.
func between(t *testing.T, s *service, answer func(w http.ResponseWriter, r *http.Request) bool, change func(h http.Header)) (base string) {
	t.Helper()
	target, err := url.Parse(s.base)
	must.OK(t, err)
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			// the service takes the proxy for a client that is no browser
			r.Out.Header.Del("Origin")
		},
		ModifyResponse: func(r *http.Response) error {
			if change != nil {
				change(r.Header)
			}
			return nil
		},
		// as if there were no server
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { panic(http.ErrAbortHandler) },
	}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if answer == nil || !answer(w, r) {
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(front.Close)
	return front.URL
}

// tab opens another tab of the same browser.
func (b *browser) tab(address string) *browser {
	b.t.Helper()
	ctx, cancel := chromedp.NewContext(b.ctx)
	b.t.Cleanup(cancel)
	other := &browser{t: b.t, ctx: ctx}
	must.OK(b.t, chromedp.Do(ctx, chromedp.Navigate(address)))
	other.wait(`document.querySelector('h1')`)
	return other
}

// spare makes a second key of a company, which can be deleted.
func (s *service) spare(key string) (spare string, remove func()) {
	s.t.Helper()
	spare = s.api("POST", "/v1/keys", key, map[string]any{"label": "spare"})["key"].(string)
	return spare, func() {
		s.t.Helper()
		s.api("DELETE", "/v1/keys/"+spare, key, nil)
	}
}

// Deleting a key ends the session with a reason, even if only the stream learns of it; after
// signing in again, on the page or on Start, the user is back on the page that was shown.
func TestBrowserSessionEndsWithItsKey(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := s.company("acme")
	s.attest(key, 5)
	spare, remove := s.spare(key)
	b := openBrowser(t, s.base)
	b.signIn(spare)
	b.goTo("#/live")
	b.shows(`[data-connection="open"]`)
	b.goTo("#/records/3?agent=agent-3")
	b.reads("dialog h2", "Record 3")
	remove() // nothing is asked for: the server ends the stream
	b.reads("h1", "Sign in first")
	b.reads(`[data-signed-out] [role="alert"]`, "no longer accepts this key")
	b.wait(`document.activeElement.tagName === 'H1'`)
	b.fill(`input[name="key"]`, key)
	b.press("Sign in")
	b.reads("dialog h2", "Record 3")
	if hash := eval[string](b, `location.hash`); hash != "#/records/3?agent=agent-3" {
		t.Errorf("back at %s", hash)
	}
	b.press("Close")
	b.wait(`!document.querySelector('dialog') && document.activeElement !== document.body`)
	b.press("Sign out")

	spare, remove = s.spare(key)
	b.goTo("#/start")
	b.signIn(spare)
	b.goTo("#/proof/2")
	b.shows(`[data-walk="warn"]`)
	remove()
	// the page itself needs no sign-in
	b.reads(`[data-signed-out] [role="alert"]`, "no longer accepts this key")
	b.press("Sign in")
	b.fill(`.card input[name="key"]`, key)
	b.press("Sign in")
	b.wait(`location.hash === '#/proof/2'`)
	b.shows(`[data-walk="warn"]`)
}

// A 401 to any request ends the session too, whichever server sends it; a 401 that refuses a
// passport rather than the key does not.
func TestBrowserSignsOutAtAnyRefusal(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := s.company("acme")
	s.api("POST", "/v1/agents/register", key, `{"agentId":"bot"}`)
	passport := s.api("POST", "/v1/agents/bot/passport", key, nil)["passport"].(string)
	var refused atomic.Value
	refused.Store("")
	base := between(t, s, func(w http.ResponseWriter, r *http.Request) bool {
		switch r.URL.Path {
		case "/v1/agents/bot/passport/rotate":
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"error":"Passport has expired","code":"TOKEN_EXPIRED"}`)
		case refused.Load():
			http.Error(w, "<h1>Who are you?</h1>", http.StatusUnauthorized)
		default:
			return false
		}
		return true
	}, nil)
	b := openBrowser(t, base)
	b.signIn(key)
	b.goTo("#/passports")
	b.fill(`textarea[name="token"]`, passport)
	b.press("Rotate")
	b.reads(`[role="alert"]`, "Passport has expired")
	b.shows(`tr[data-status="valid"]`)

	refused.Store("/v1/agents")
	b.goTo("#/agents")
	b.reads("h1", "Sign in first")
	// for these were not its words
	b.reads(`[data-signed-out] [role="alert"]`, "Something else answered in place of the server")
	refused.Store("")
	b.fill(`input[name="key"]`, key)
	b.press("Sign in")
	b.reads(".rows li", "bot")
}

// A deep link opens what it names once its reader has signed in, in its place or on Start.
func TestBrowserDeepLinksSurviveSigningIn(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := s.company("acme")
	s.attest(key, 5)
	b := openPage(t, s.base+"/#/records/4?agent=agent-4")
	b.reads("h1", "Sign in first")
	b.fill(`input[name="key"]`, key)
	b.press("Sign in")
	b.reads("dialog h2", "Record 4")
	if hash := eval[string](b, `location.hash`); hash != "#/records/4?agent=agent-4" {
		t.Errorf("the link has become %s", hash)
	}

	other := openPage(t, s.base+"/#/records/2?agent=agent-2")
	other.reads("h1", "Sign in first")
	other.goTo("#/start")
	other.fill(`input[name="key"]`, key)
	other.press("Sign in")
	other.reads("dialog h2", "Record 2")
	if hash := eval[string](other, `location.hash`); hash != "#/records/2?agent=agent-2" {
		t.Errorf("the link has become %s", hash)
	}
}

// A stored key serves new tabs of the browser while one is open, and is on no disk; one that is not
// stored serves its own page alone. Who signs out in one tab is out in all, also in one that slept
// meanwhile.
func TestBrowserStoredKeyWorksInNewTabs(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := s.company("acme")
	s.attest(key, 3)
	b := openBrowser(t, s.base)
	b.signIn(key)
	alone := b.tab(s.base + "/#/records/1")
	alone.reads("h1", "Sign in first")
	eval[bool](alone, `new Promise((done) => setTimeout(() => done(true), 0))`)
	alone.reads("h1", "Sign in first")
	b.press("Sign out")
	b.reads("h1", "Tamper-evident logs")

	b.fill(`input[name="key"]`, key)
	eval[bool](b, `(document.querySelectorAll('.check input')[1].click(), true)`)
	b.press("Sign in")
	b.reads(".top-company", "acme")
	tab := b.tab(s.base + "/#/records/2")
	tab.reads("dialog h2", "Record 2")
	must.OK(t, chromedp.Do(tab.ctx, chromedp.Reload()))
	tab.reads("dialog h2", "Record 2")
	if eval[bool](tab, `JSON.stringify({ ...localStorage }).includes(`+jsString(key)+`)`) {
		t.Error("the key is in localStorage, which is on disk")
	}

	// Asleep, a tab hears no other: when it is loaded again its sessionStorage is as it was.
	asleep := eval[string](tab, `JSON.stringify({ ...sessionStorage })`)
	tab.press("Close")
	tab.press("Sign out")
	b.reads(`[data-signed-out] [role="alert"]`, "You signed out in another tab.")
	eval[bool](b, fmt.Sprintf(`(Object.entries(JSON.parse(%s)).forEach(([name, value]) => sessionStorage.setItem(name, value)), true)`, jsString(asleep)))
	must.OK(t, chromedp.Do(b.ctx, chromedp.Reload()))
	b.reads("h1", "Tamper-evident logs")
	if eval[int](b, `sessionStorage.length`) != 0 {
		t.Error("the key of a session that ended is still kept")
	}
}
