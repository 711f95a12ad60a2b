package web_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"attestd/internal/must"
	"attestd/internal/testenv"
)

// firefox is a Firefox that is driven by WebDriver BiDi (https://w3c.github.io/webdriver-bidi/).
type firefox struct {
	scheme  string // it has one colour scheme from its start on
	conn    *websocket.Conn
	tab     string
	writing sync.Mutex
	last    int
	waiting sync.Map // of chan bidiMessage, by the ID of the command
	ended   chan struct{}
}

type bidiMessage struct {
	Type, Method, Error, Message string
	ID                           int
	Result, Params               json.RawMessage
}

// firefoxSettings are the preferences of a profile: no motion, and no request of the browser's own.
const firefoxSettings = `user_pref("ui.prefersReducedMotion", 1);
user_pref("app.normandy.enabled", false);
user_pref("app.update.enabled", false);
user_pref("browser.safebrowsing.malware.enabled", false);
user_pref("browser.safebrowsing.phishing.enabled", false);
user_pref("browser.shell.checkDefaultBrowser", false);
user_pref("datareporting.policy.dataSubmissionEnabled", false);
user_pref("extensions.getAddons.cache.enabled", false);
user_pref("network.captive-portal-service.enabled", false);
user_pref("network.connectivity-service.enabled", false);
user_pref("network.dns.disablePrefetch", true);
user_pref("services.settings.server", "http://127.0.0.1:1/");
user_pref("toolkit.telemetry.enabled", false);
`

// openFirefox shows the console of base in a Firefox of its own, in a colour scheme. Exceptions,
// violations of the policy and requests to other hosts fail the test at its end.
func openFirefox(t testing.TB, base, scheme string) *browser {
	t.Helper()
	f := &firefox{scheme: scheme, ended: make(chan struct{})}
	b := &browser{t: t, other: f}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	b.ctx = ctx
	address := startFirefox(t, scheme)
	conn, _, err := websocket.DefaultDialer.DialContext(ctx, address+"/session", nil)
	must.OK(t, err)
	f.conn = conn
	t.Cleanup(func() { conn.Close() })
	shown, err := url.Parse(base)
	must.OK(t, err)
	go f.read(func(method string, params json.RawMessage) { b.hears(method, params, shown) })
	t.Cleanup(b.reportEvil)

	bidi[struct{}](b, "session.new", map[string]any{"capabilities": map[string]any{}})
	tree := bidi[struct{ Contexts []struct{ Context string } }](b, "browsingContext.getTree", map[string]any{})
	f.tab = tree.Contexts[0].Context
	bidi[struct{}](b, "session.subscribe", map[string]any{"events": []string{"log.entryAdded", "network.beforeRequestSent"}})
	bidi[struct{}](b, "script.addPreloadScript", map[string]any{"functionDeclaration": "() => {" + watch + "}"})
	bidi[struct{}](b, "browsingContext.navigate", map[string]any{"context": f.tab, "url": base + "/", "wait": "complete"})
	b.wait(`document.querySelector('h1')`)
	return b
}

// startFirefox returns the address at which a new Firefox without a window is driven.
func startFirefox(t testing.TB, scheme string) string {
	t.Helper()
	profile := t.TempDir()
	dark := map[string]int{"dark": 0, "light": 1}[scheme]
	settings := fmt.Sprintf("%suser_pref(\"layout.css.prefers-color-scheme.content-override\", %d);\n", firefoxSettings, dark)
	must.OK(t, os.WriteFile(filepath.Join(profile, "user.js"), []byte(settings), 0o600))
	cmd := exec.Command(testenv.Firefox(t), "--headless", "--no-remote", "--profile", profile,
		"--remote-debugging-port", "0", "about:blank")
	cmd.Env = append(os.Environ(), "HOME="+profile, "MOZ_CRASHREPORTER_DISABLE=1")
	stderr, err := cmd.StderrPipe()
	must.OK(t, err)
	must.OK(t, cmd.Start())
	var reading sync.WaitGroup
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		reading.Wait()
		_ = cmd.Wait()
	})
	listening := make(chan string, 1)
	reading.Go(func() {
		at := regexp.MustCompile(`ws://127\.0\.0\.1:[0-9]+`)
		for lines := bufio.NewScanner(stderr); lines.Scan(); { // to its end: the pipe stays empty
			if found := at.FindString(lines.Text()); found != "" {
				listening <- found
			}
		}
	})
	select {
	case address := <-listening:
		return address
	case <-time.After(time.Minute):
		t.Fatal("Firefox did not say where it listens")
		return ""
	}
}

// read hands answers to who waits for them, and events to hears, until the connection ends.
func (f *firefox) read(hears func(method string, params json.RawMessage)) {
	defer close(f.ended)
	for {
		var m bidiMessage
		if err := f.conn.ReadJSON(&m); err != nil {
			return
		}
		if m.Type == "event" {
			hears(m.Method, m.Params)
		} else if answer, ok := f.waiting.LoadAndDelete(m.ID); ok {
			answer.(chan bidiMessage) <- m
		}
	}
}

func (f *firefox) name() string { return "firefox" }

func (f *firefox) command(ctx context.Context, method string, params any) (json.RawMessage, error) {
	answer := make(chan bidiMessage, 1)
	f.writing.Lock()
	f.last++
	f.waiting.Store(f.last, answer)
	err := f.conn.WriteJSON(map[string]any{"id": f.last, "method": method, "params": params})
	f.writing.Unlock()
	if err != nil {
		return nil, err
	}
	select {
	case m := <-answer:
		if m.Type == "error" {
			return nil, fmt.Errorf("%s: %s", m.Error, m.Message)
		}
		return m.Result, nil
	case <-f.ended:
		return nil, errors.New("the connection to Firefox has ended")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// bidi sends a command and returns its result.
func bidi[T any](b *browser, method string, params map[string]any) (result T) {
	b.t.Helper()
	raw, err := b.other.(*firefox).command(b.ctx, method, params)
	if err == nil {
		err = json.Unmarshal(raw, &result)
	}
	if err != nil {
		b.t.Fatalf("%s: %v", method, err)
	}
	return result
}

// evaluate writes the value of a JavaScript expression, awaited, to v.
func (f *firefox) evaluate(ctx context.Context, expression string, v any) error {
	raw, err := f.command(ctx, "script.evaluate", map[string]any{
		"expression": "(async () => JSON.stringify(await (" + expression + ") ?? null))()", "target": map[string]any{"context": f.tab},
		"awaitPromise": true, "userActivation": true,
	})
	if err != nil {
		return err
	}
	var is struct {
		Type             string
		Result           struct{ Value string }
		ExceptionDetails struct{ Text string }
	}
	if err := json.Unmarshal(raw, &is); err != nil {
		return err
	}
	if is.Type != "success" {
		return errors.New(is.ExceptionDetails.Text)
	}
	return json.Unmarshal([]byte(is.Result.Value), v)
}

// hears notes what must not have happened.
func (b *browser) hears(method string, params json.RawMessage, shown *url.URL) {
	var event struct {
		Type, Level, Text string
		Context           string
		Request           struct{ URL string }
	}
	if err := json.Unmarshal(params, &event); err != nil {
		b.note("%s: %v", method, err)
		return
	}
	switch method {
	case "log.entryAdded":
		if event.Type == "javascript" && event.Level == "error" || strings.Contains(event.Text, "Content-Security-Policy") {
			b.note("%s: %s", event.Type, event.Text)
		}
	case "network.beforeRequestSent":
		u, err := url.Parse(event.Request.URL)
		own := err == nil && u.Host == shown.Host && (u.Scheme == "http" || u.Scheme == "ws")
		if !own && event.Context != "" && (err != nil || u.Scheme != "data" && u.Scheme != "blob" && u.Scheme != "about") {
			b.note("request to another host: %s", event.Request.URL)
		}
	}
}

// resize gives the tab a width. Its colour scheme was chosen at the start.
func (f *firefox) resize(b *browser, l look) {
	b.t.Helper()
	if l.scheme != f.scheme {
		b.t.Fatalf("this Firefox is %s, not %s", f.scheme, l.scheme)
	}
	bidi[struct{}](b, "browsingContext.setViewport", map[string]any{"context": f.tab,
		"viewport": map[string]any{"width": l.width, "height": 800}, "devicePixelRatio": 1})
}

func (f *firefox) screenshot(b *browser) []byte {
	b.t.Helper()
	return f.bytes(b, "browsingContext.captureScreenshot", map[string]any{"context": f.tab})
}

// pdf prints the page on A4.
func (f *firefox) pdf(b *browser) []byte {
	b.t.Helper()
	return f.bytes(b, "browsingContext.print", map[string]any{"context": f.tab, "page": map[string]any{"width": 21.0, "height": 29.7}, "shrinkToFit": false})
}

func (f *firefox) bytes(b *browser, method string, params map[string]any) []byte {
	b.t.Helper()
	data, err := base64.StdEncoding.DecodeString(bidi[struct{ Data string }](b, method, params).Data)
	must.OK(b.t, err)
	return data
}

// printed applies the style sheets as paper has them, or as the screen has them again: BiDi can
// print, and cannot show the page as it is printed.
const printed = `(() => {
	const rules = [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules]).filter((rule) => rule instanceof CSSMediaRule);
	for (const rule of rules) {
		rule.was ??= rule.media.mediaText;
		rule.media.mediaText = !%[1]t ? rule.was : /^print\b/.test(rule.was) ? 'all' : /^screen\b/.test(rule.was) ? 'not all' : rule.was;
	}
	dispatchEvent(new Event(%[1]t ? 'beforeprint' : 'afterprint'));
	return rules.some((rule) => rule.was !== rule.media.mediaText);
})()`
