package web_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"

	"attestd/internal/must"
	"attestd/internal/testenv"
)

// If the server asks to try again later, the page counts down and reads again when the time is
// over, or at once on request. A request that changes something is not repeated.
func TestBrowserWaitsForRateLimit(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := s.company("acme")
	s.api("POST", "/v1/agents/register", key, `{"agentId":"bot"}`)
	var wait atomic.Value // seconds, of the next read of the agents
	wait.Store("")
	var made atomic.Int64
	base := between(t, s, func(w http.ResponseWriter, r *http.Request) bool {
		after := ""
		switch r.URL.Path {
		case "/v1/agents":
			after = wait.Swap("").(string)
		case "/v1/agents/register":
			made.Add(1)
			after = "90"
		}
		if after == "" {
			return false
		}
		w.Header().Set("Retry-After", after)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusTooManyRequests)
		fmt.Fprint(w, `{"error":"Too many requests"}`)
		return true
	}, nil)
	b := openBrowser(t, base)
	b.signIn(key)
	wait.Store("2")
	b.goTo("#/agents")
	b.reads(`[data-pause]`, "Waiting requests continue by themselves in 2 s")
	b.reads(".rows li", "bot")
	b.wait(`!document.querySelector('[data-pause]') && !document.querySelector('[role="alert"]')`)

	b.goTo("#/start")
	wait.Store("90")
	b.goTo("#/agents")
	b.shows(`[data-pause] [data-left="90"], [data-pause] [data-left="89"]`)
	b.press("Try now")
	b.reads(".rows li", "bot")

	b.fill(`input[name="agentId"]`, "other")
	b.press("Register agent")
	b.reads(`[role="alert"]`, "Rate limit reached")
	b.wait(`document.querySelector('[role="alert"] [data-left]').dataset.left < 90`)
	if n := made.Load(); n != 1 {
		t.Errorf("what changes something was sent %d times", n)
	}
}

// The page says who did not answer and who answered instead; a read that failed is repeated when
// the user presses a button.
func TestBrowserNamesTheServer(t *testing.T) {
	s := startService(t, "", "")
	key := s.company("acme")
	s.api("POST", "/v1/agents/register", key, `{"agentId":"bot"}`)
	var instead atomic.Value
	instead.Store(http.HandlerFunc(nil))
	base := between(t, s, func(w http.ResponseWriter, r *http.Request) bool {
		h := instead.Load().(http.HandlerFunc)
		if h == nil || r.URL.Path != "/v1/agents" {
			return false
		}
		h(w, r)
		return true
	}, nil)
	b := openBrowser(t, base)
	b.signIn(key)
	for _, c := range []struct {
		message string
		from    http.HandlerFunc
	}{
		{"The server does not answer.", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
		{"perhaps a proxy: something that is not JSON", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<h1>Welcome to our network</h1>")
		}},
		{"perhaps a proxy: status 502, and not in the server’s form", func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "bad gateway", http.StatusBadGateway)
		}},
		{"perhaps a proxy: a redirect to somewhere else", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/login", http.StatusFound)
		}},
		{"Forbidden: other", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"error":"Forbidden: other"}`)
		}},
		{"The response ended early.", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, `{"agents":[`)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}},
	} {
		instead.Store(c.from)
		b.goTo("#/start")
		b.shows(`[data-overview]`)
		b.goTo("#/agents")
		b.reads(`[role="alert"]`, c.message)
		instead.Store(http.HandlerFunc(nil))
		b.press("Retry")
		b.reads(".rows li", "bot")
		b.wait(`!document.querySelector('[role="alert"]')`)
	}
}

// A key with a character that no header can carry is refused for that, and not as if the server
// were away.
func TestBrowserNamesInvalidKeyCharacter(t *testing.T) {
	s := startService(t, "", "")
	b := openBrowser(t, s.base)
	for typed, message := range map[string]string{
		"svc_abc–def":     "character 8 is “–” (U+2013), which no key contains",
		"«svc_abc":        "character 1 is “«” (U+00AB)",
		"svc_a\u200bb":    "character 6 is U+200B",
		"svc_a b":         "character 6 is U+0020",
		"svc_\U0001f511x": "character 5 is “\U0001f511” (U+1F511)",
	} {
		eval[bool](b, fmt.Sprintf(`(() => { const i = document.querySelector('input[name="key"]'); i.value = %s; return i.dispatchEvent(new Event('input')); })()`, jsString(typed)))
		b.press("Sign in")
		b.reads(`[role="alert"]`, message)
	}
}

// A stored key survives while a server is unreachable, and is used again when the user presses a
// button; a proxy's answer does not delete it either.
func TestBrowserUsesStoredKeyLater(t *testing.T) {
	s := startService(t, "", "")
	key := s.company("acme")
	var mode atomic.Value
	mode.Store("")
	base := between(t, s, func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasPrefix(r.URL.Path, "/v1/") {
			return false
		}
		switch mode.Load() {
		case "away":
			panic(http.ErrAbortHandler)
		case "proxy":
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<h1>Welcome to our network</h1>")
			return true
		}
		return false
	}, nil)
	b := openBrowser(t, base)
	b.fill(`input[name="key"]`, key)
	eval[bool](b, `(document.querySelectorAll('.check input')[1].click(), true)`)
	b.press("Sign in")
	b.shows(`[data-overview]`)
	for is, message := range map[string]string{"away": "The server does not answer.", "proxy": "something that is not JSON"} {
		mode.Store(is)
		must.OK(t, chromedp.Do(b.ctx, chromedp.Reload()))
		b.reads(`[data-signed-out] [role="alert"]`, message)
		mode.Store("")
		b.press("Retry")
		b.reads(".top-company", "acme")
	}
}

// If the page came over plain HTTP from another machine, it warns before a key is pasted into it.
func TestBrowserWarnsOfAnInsecureContext(t *testing.T) {
	const host = "attestd.test"
	address := freePort(t)
	base := "http://" + strings.Replace(address, "127.0.0.1", host, 1)
	s := startService(t, "", address)
	b := openBrowser(t, base, chromedp.Flag("host-resolver-rules", "MAP "+host+" 127.0.0.1"), chromedp.Flag("proxy-bypass-list", host))
	b.reads(`[data-insecure]`, "This page came over plain HTTP.")
	// The server accepts only reads from an address that it does not know as its own; Live says so.
	b.signIn(s.company("acme"))
	b.goTo("#/live")
	b.reads(`[role="alert"]`, "must be listed in --allowed-origins")
	b.reads(`.empty`, "The stream is not connected")
	loopback := openBrowser(t, s.base)
	if eval[bool](loopback, `document.querySelector('[data-insecure]') !== null`) {
		t.Error("loopback is called insecure")
	}
}

// While the stream is interrupted the user can reconnect at once, and the page gives the reason for
// the interruption.
func TestBrowserReconnectsNow(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := s.company("acme")
	s.attest(key, 3)
	var refused atomic.Bool
	refused.Store(true)
	attempts := make(chan struct{}, 100)
	base := between(t, s, func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/v1/ws" || !refused.Load() {
			return false
		}
		http.Error(w, "no upgrade here", http.StatusBadRequest)
		attempts <- struct{}{}
		return true
	}, nil)
	b := openBrowser(t, base)
	b.signIn(key)
	b.goTo("#/live")
	b.reads(`[role="alert"]`, "The server answers, but the stream is refused")
	// The attempt that is due is the last that the page makes by itself: from then on only the
	// button connects.
	eval[bool](b, `(window.setTimeout = ((real) => (f, ms, ...more) => (ms >= 300 ? 0 : real(f, ms, ...more)))(setTimeout), true)`)
	for len(attempts) > 0 {
		<-attempts
	}
	<-attempts
	refused.Store(false)
	b.wait(`(() => { [...document.querySelectorAll('button')].find((e) => e.textContent === 'Reconnect now')?.click(); return document.querySelector('[data-connection="open"]'); })()`)
	b.shows(`li[data-index="2"][data-check="warn"]`)
	b.wait(`!document.querySelector('[role="alert"]')`)

	s.stop()
	b.goTo("#/keys")
	b.reads(`[role="alert"]`, "This page could not be loaded: the server does not answer")
}

// Records that did not come over the stream are described as missed during an interruption or as
// left out, with the number that was fetched.
func TestBrowserReportsRecordsMissingFromStream(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	address := freePort(t)
	s := startService(t, "", address)
	key := s.company("acme")
	s.attest(key, 3)
	b := openBrowser(t, s.base)
	b.signIn(key)
	b.goTo("#/live")
	b.shows(`li[data-index="2"][data-check="warn"]`)
	away := func(n int) {
		s.stop()
		b.shows(`[data-connection="retrying"]`)
		elsewhere := startService(t, s.db, "")
		elsewhere.attest(key, n)
		elsewhere.stop()
		s = startService(t, s.db, address)
		b.wait(`(() => { [...document.querySelectorAll('button')].find((e) => e.textContent === 'Reconnect now')?.click(); return document.querySelector('[data-connection="open"]'); })()`)
	}
	away(1)
	b.wait(`[...document.querySelectorAll('.notice')].some((n) => n.textContent.includes('Missed while disconnected: record 3. Fetched since.'))`)
	away(1002)
	b.wait(`[...document.querySelectorAll('.notice')].some((n) => n.textContent.includes('records 4 to 1005. Of these, 1,000 records were fetched since'))`)
	b.wait(`[...document.querySelectorAll('.notice')].some((n) => n.textContent.includes('record 3. Fetched since.'))`)
	s.attest(key, 1)
	b.wait(`[...document.querySelectorAll('.notice')].some((n) => n.textContent.includes('Missing from the live stream: records 1004 to 1005. Fetched since.'))`)
	b.shows(`li[data-index="1006"][data-check="warn"]`)
}

// Why a worker did not start is found out; where another program refuses the credential to a
// worker, the session ends as it does for the page.
func TestBrowserShowsWorkerError(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := s.company("acme")
	s.attest(key, 3)
	var mode atomic.Value
	mode.Store("")
	base := between(t, s, func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case r.URL.Path == "/verify_worker.js" && mode.Load() == "missing":
			http.NotFound(w, r)
		case r.URL.Path == "/verify_worker.js" && mode.Load() == "proxy":
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<h1>Welcome to our network</h1>")
		case r.URL.Path == "/verify_worker.js" && mode.Load() == "away":
			panic(http.ErrAbortHandler)
		case r.URL.Path == "/v1/chain" && r.Header.Get("Accept") == "application/x-ndjson" && mode.Load() == "pause":
			mode.Store("")
			w.Header().Set("Retry-After", "2")
			w.WriteHeader(http.StatusTooManyRequests)
		case r.URL.Path == "/v1/chain" && r.Header.Get("Accept") == "application/x-ndjson" && mode.Load() == "refused":
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"error":"Unauthorized"}`)
		default:
			return false
		}
		return true
	}, nil)
	b := openBrowser(t, base)
	b.signIn(key)
	b.goTo("#/verify")
	for is, message := range map[string]string{
		"missing": "did not start: its script cannot be loaded (404).",
		"proxy":   "did not start: something else answered in place of the server, perhaps a proxy (text/html).",
		"away":    "did not start: the server does not answer.",
	} {
		mode.Store(is)
		b.wait(`(() => { const found = [...document.querySelectorAll('.button.primary')].find((e) => e.textContent.startsWith('Verify')); found?.click(); return found; })()`)
		b.reads(`main [role="alert"]`, message)
	}
	mode.Store("pause")
	b.press("Verify again")
	b.shows(`[data-pause]`)
	b.shows(`[data-verdict="valid"]`)
	b.wait(`!document.querySelector('[data-pause]')`)
	mode.Store("refused")
	b.press("Verify again")
	b.reads("h1", "Sign in first")
	b.reads(`[data-signed-out] [role="alert"]`, "no longer accepts this key")
}
