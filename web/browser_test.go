package web_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"

	"attestd/internal/must"
	"attestd/internal/testenv"
)

// The browser tests use a real Chromium and a real attestd.

// browser is one tab, and all that went wrong in it.
type browser struct {
	t     testing.TB
	ctx   context.Context
	other engine // nil where it is Chromium, which most tests use
	mu    sync.Mutex
	evil  []string // policy violations, exceptions, requests to other hosts
	// host of the identity provider, to which the console may lead
	provider atomic.Pointer[string]
}

// engine is a browser other than Chromium.
type engine interface {
	name() string
	evaluate(ctx context.Context, expression string, v any) error
	resize(b *browser, l look)
}

// chromiumsOwn are hosts that the browser itself asks, whatever is shown. A request of a page to
// one of them is still seen: listen sees it before it leaves.
var chromiumsOwn = regexp.MustCompile(`\.(google|googleapis|gvt1)\.com(:443)?$`)

// watch runs in every document before its own scripts.
const watch = `window.violations = [];
addEventListener('securitypolicyviolation', (e) => violations.push(e.violatedDirective + ' ' + e.blockedURI + ' ' + e.sample));`

// openBrowser shows the console of base.
func openBrowser(t testing.TB, base string, extra ...chromedp.ExecAllocatorOption) *browser {
	t.Helper()
	return openPage(t, base+"/", extra...)
}

// shared is the browser of all tests that need no options of their own: to start one takes a
// second. Each test has a profile of its own in it.
var shared struct {
	once   sync.Once
	ctx    context.Context
	err    error
	cancel func()
}

// endBrowser ends the shared browser, if any test has used it.
func endBrowser() {
	if shared.cancel != nil {
		shared.cancel()
	}
}

func allocate(t testing.TB, profile string, extra ...chromedp.ExecAllocatorOption) (context.Context, func()) {
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(testenv.Chromium(t)),
		chromedp.NoSandbox, // containers have none; only our own pages are shown
		chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-domain-reliability", true),
		chromedp.Flag("disable-features", "Translate,AutofillServerCommunication,OptimizationHints,MediaRouter"),
		chromedp.Flag("no-pings", true),
		chromedp.UserDataDir(profile),
		chromedp.Flag("window-size", "1280,800"),
	)
	// Not t.Context: what is reported at the end is asked of a browser that still lives.
	return chromedp.NewExecAllocator(context.Background(), append(options, extra...)...)
}

// browserContext returns a tab with a profile of its own, in the shared browser where there are no
// extra options. Its requests go through proxy.
func browserContext(t testing.TB, proxy string, extra []chromedp.ExecAllocatorOption) context.Context {
	t.Helper()
	if len(extra) > 0 {
		allocator, cancel := allocate(t, t.TempDir(), append(extra, chromedp.Flag("proxy-server", proxy))...)
		t.Cleanup(cancel)
		ctx, cancel := chromedp.NewContext(allocator)
		t.Cleanup(cancel)
		return ctx
	}
	testenv.Chromium(t) // where there is none, this test alone is skipped
	shared.once.Do(func() {
		profile, err := os.MkdirTemp("", "attestd-browser-")
		if err != nil {
			shared.err = err
			return
		}
		allocator, endProcess := allocate(t, profile)
		ctx, endTab := chromedp.NewContext(allocator)
		shared.ctx, shared.err = ctx, chromedp.Do(ctx) // starts it
		shared.cancel = func() {
			endTab()
			endProcess()
			_ = os.RemoveAll(profile)
		}
	})
	must.OK(t, shared.err)
	ctx, cancel := chromedp.NewContext(shared.ctx, chromedp.WithNewBrowserContext(func(p *target.CreateBrowserContextParams) { p.ProxyServer = proxy }))
	t.Cleanup(cancel)
	return ctx
}

// openPage shows a page. At the end of the test everything that must not have happened is reported.
func openPage(t testing.TB, address string, extra ...chromedp.ExecAllocatorOption) *browser {
	t.Helper()
	parallelBrowsers(t)
	shown, err := url.Parse(address)
	must.OK(t, err)
	b := &browser{t: t}
	// Every request but those to loopback goes through this proxy, which answers none; those of
	// workers as well.
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !chromiumsOwn.MatchString(r.Host) {
			b.note("request to another host: %s %s", r.Method, r.Host)
		}
		w.WriteHeader(http.StatusBadGateway)
	}))
	t.Cleanup(proxy.Close)
	ctx, cancel := context.WithTimeout(browserContext(t, proxy.URL, extra), 5*time.Minute)
	t.Cleanup(cancel)
	t.Cleanup(func() { b.reportEvil() })
	b.ctx = ctx
	must.OK(t, chromedp.Listen(ctx, func(ev any) { b.listen(ev, shown) }))
	call(b, network.Enable, network.EnableParams{})
	call(b, cdplog.Enable, cdp.Empty{})
	call(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: watch})
	// Without motion, what a test waits for is there at once.
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-reduced-motion", Value: "reduce"}}})
	must.OK(t, chromedp.Do(ctx, chromedp.Navigate(address)))
	b.wait(`document.querySelector('h1')`)
	return b
}

func (b *browser) listen(ev any, shown *url.URL) {
	switch ev := ev.(type) {
	case *network.EventRequestWillBeSent:
		u, err := url.Parse(ev.Request.URL)
		own := err == nil && u.Scheme == shown.Scheme && u.Host == shown.Host && (u.Scheme != "file" || u.Path == shown.Path)
		if to := b.provider.Load(); to != nil && err == nil && u.Host == *to {
			own = true
		}
		if !own && (err != nil || u.Scheme != "data" && u.Scheme != "blob") {
			b.note("request to another host or file: %s", ev.Request.URL)
		}
	case *cdplog.EventEntryAdded:
		if ev.Entry.Source == cdplog.EntrySourceSecurity || strings.Contains(ev.Entry.Text, "Content Security Policy") {
			b.note("security message: %s", ev.Entry.Text)
		}
	case *runtime.EventExceptionThrown:
		b.note("exception: %s %s", ev.ExceptionDetails.Text, ev.ExceptionDetails.URL)
		if e := ev.ExceptionDetails.Exception; e != nil {
			b.note("  %s", e.Description)
		}
	}
}

func (b *browser) note(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.evil = append(b.evil, fmt.Sprintf(format, args...))
}

func (b *browser) reportEvil() {
	if b.ctx.Err() == nil {
		for _, v := range eval[[]string](b, `window.violations`) {
			b.note("policy violation: %s", v)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, what := range b.evil {
		b.t.Error(what)
	}
	if b.t.Failed() {
		b.t.Log("the page at last: ", eval[string](b, `location.hash + '\n' + document.body.innerText`))
	}
}

// eval returns the value of a JavaScript expression, awaited.
func eval[T any](b *browser, expression string) T {
	b.t.Helper()
	var v T
	var err error
	if b.other != nil {
		err = b.other.evaluate(b.ctx, expression, &v)
	} else {
		v, err = chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	}
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

func call[P, R any](b *browser, cmd cdp.Command[P, R], params P) R {
	b.t.Helper()
	r, err := chromedp.Call(b.ctx, cmd, params)
	must.OK(b.t, err)
	return r
}

// wait returns once the JavaScript expression is truthy. It is looked at inside the page, whenever
// something may have changed.
func (b *browser) wait(condition string) {
	b.t.Helper()
	b.waitFor(time.Minute, condition)
}

func (b *browser) waitFor(limit time.Duration, condition string) {
	b.t.Helper()
	ok := eval[bool](b, fmt.Sprintf(`new Promise((done) => {
		const end = performance.now() + %d;
		const look = () => {
			if (%s) done(true);
			else if (performance.now() > end) done(false);
			else setTimeout(look, 30);
		};
		look();
	})`, limit.Milliseconds(), condition))
	if !ok {
		b.t.Fatalf("not seen within %v: %s", limit, condition)
	}
}

// shows waits for an element.
func (b *browser) shows(selector string) {
	b.t.Helper()
	b.wait(fmt.Sprintf(`document.querySelector(%q)`, selector))
}

// reads waits until the text of an element holds want.
func (b *browser) reads(selector, want string) {
	b.t.Helper()
	b.wait(fmt.Sprintf(`document.querySelector(%q)?.textContent.replace(/\s+/g, ' ').includes(%q)`, selector, want))
}

func (b *browser) goTo(hash string) {
	b.t.Helper()
	eval[bool](b, fmt.Sprintf(`(location.hash = %q, true)`, hash))
}

// reload loads the page again: what it held in memory is gone.
func (b *browser) reload() {
	b.t.Helper()
	must.OK(b.t, chromedp.Do(b.ctx, chromedp.Reload()))
	b.wait(`document.querySelector('h1')`)
}

// press clicks the visible button, link or summary with this text, once there is one that is
// enabled.
func (b *browser) press(text string) {
	b.t.Helper()
	b.wait(fmt.Sprintf(`(() => {
		const found = [...document.querySelectorAll('dialog[open] button, dialog[open] a, button, a, summary')].find(
			(e) => e.textContent.trim() === %q && !e.disabled && e.getClientRects().length);
		found?.click();
		return found;
	})()`, text))
}

// fill types into a field, as a user does, or pastes what is as long as a key or a token: each
// character that is typed is an event of its own, at which a page may check the text.
func (b *browser) fill(selector, text string) {
	b.t.Helper()
	b.shows(selector)
	eval[bool](b, fmt.Sprintf(`((field) => (field.focus(), field.select(), true))(document.querySelector(%q))`, selector))
	if b.other != nil {
		eval[bool](b, fmt.Sprintf(`document.execCommand('insertText', false, %s)`, jsString(text)))
		return
	}
	if len(text) > 30 {
		call(b, input.InsertText, input.InsertTextParams{Text: text})
		return
	}
	must.OK(b.t, chromedp.Do(b.ctx, chromedp.SendKeys(chromedp.CSS(selector), text)))
}

// drop drops a file onto the drop area of the page.
func (b *browser) drop(name, content string) {
	b.t.Helper()
	eval[bool](b, fmt.Sprintf(`(() => {
		const data = new DataTransfer();
		data.items.add(new File([%s], %q, { type: 'application/json' }));
		return document.querySelector('.drop').dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true })) || true;
	})()`, jsString(content), name))
}

// look makes the window this wide, in a colour scheme, without motion.
func (b *browser) look(l look) {
	b.t.Helper()
	if b.other != nil {
		b.other.resize(b, l)
		return
	}
	call(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: l.width, Height: 800, DeviceScaleFactor: 1})
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: l.scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}})
}

func (b *browser) signIn(key string) {
	b.t.Helper()
	b.fill(`input[name="key"]`, key)
	b.press("Sign in")
	b.shows(`.top-company`)
}

// confirmKey enters the fingerprint of the key of the company that is signed in, as if it had come
// from another source.
func (b *browser) confirmKey(s *service, companyID string) {
	b.t.Helper()
	b.goTo("#/key")
	b.fill(`input[name="fingerprint"]`, s.api("GET", "/v1/ca/public-key?companyId="+companyID, "", nil)["fingerprint"].(string))
	b.press("Confirm key")
	b.shows(`[data-company-key="confirmed"]`)
}

// acknowledge ends every finding that the page shows, and each that comes meanwhile, until the
// condition holds.
func (b *browser) acknowledge(condition string) {
	b.t.Helper()
	for range 8 {
		b.wait(fmt.Sprintf(`document.querySelector('[data-finding]') || (%s)`, condition))
		if !eval[bool](b, `Boolean(document.querySelector('[data-finding]'))`) {
			return
		}
		b.press("Acknowledge…")
		b.fill(`dialog [name="reason"]`, "the disk was restored")
		b.press("Acknowledge")
		b.wait(`!document.querySelector('dialog')`)
	}
	b.t.Fatalf("findings are still there, and not: %s", condition)
}

func jsString(s string) string {
	quoted, _ := json.Marshal(s) // a string always has a JSON form
	return string(quoted)
}
