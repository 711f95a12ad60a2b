package web_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"attestd/internal/must"
	"attestd/internal/testenv"
)

// webkit is a WebKitGTK that is driven by WebDriver (https://www.w3.org/TR/webdriver2/).
type webkit struct{ session string } // the URL of the session

// openWebKit shows the console of base in a WebKitGTK of its own. Exceptions and violations of the
// policy after the page was loaded fail the test at its end.
func openWebKit(t *testing.T, base string) *browser {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	b := &browser{t: t, ctx: ctx}
	w := startWebKit(t, ctx)
	b.other = w
	must.OK(t, w.command(ctx, http.MethodPost, "/timeouts", map[string]any{"script": 300_000}, nil))
	must.OK(t, w.command(ctx, http.MethodPost, "/url", map[string]any{"url": base + "/"}, nil))
	eval[bool](b, `(() => {`+watch+`
		addEventListener('error', (e) => violations.push('exception: ' + e.message));
		addEventListener('unhandledrejection', (e) => violations.push('exception: ' + e.reason));
		return true; })()`)
	t.Cleanup(b.reportEvil)
	b.wait(`document.querySelector('h1')`)
	return b
}

// startWebKit starts a display, the driver and, through it, a browser.
func startWebKit(t *testing.T, ctx context.Context) *webkit {
	t.Helper()
	driver, display := testenv.Path(t, "WebKitWebDriver"), testenv.Path(t, "Xvfb")
	browsers, err := filepath.Glob("/usr/lib/*/webkit2gtk-4.1/MiniBrowser")
	must.OK(t, err)
	if len(browsers) == 0 {
		testenv.Missing(t, "WebKitGTK has no MiniBrowser: apt-get install webkit2gtk-driver")
	}
	number, chosen, err := os.Pipe()
	must.OK(t, err)
	defer number.Close()
	screen := exec.Command(display, "-displayfd", "3", "-screen", "0", "2000x1000x24", "-nolisten", "tcp")
	screen.ExtraFiles = []*os.File{chosen}
	must.OK(t, screen.Start())
	t.Cleanup(func() { _ = screen.Process.Kill(); _ = screen.Wait() })
	must.OK(t, chosen.Close())
	shown, err := bufio.NewReader(number).ReadString('\n')
	must.OK(t, err)

	_, port, _ := strings.Cut(freePort(t), ":")
	cmd := exec.Command(driver, "--port="+port)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "DISPLAY=:"+strings.TrimSpace(shown), "WEBKIT_DISABLE_COMPOSITING_MODE=1", "NO_AT_BRIDGE=1")
	must.OK(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	w := &webkit{session: "http://127.0.0.1:" + port + "/session"}
	var made struct{ SessionID string }
	capabilities := map[string]any{"webkitgtk:browserOptions": map[string]any{"binary": browsers[0], "args": []string{"--automation"}}}
	for { // until the driver listens
		err := w.command(ctx, http.MethodPost, "", map[string]any{"capabilities": map[string]any{"alwaysMatch": capabilities}}, &made)
		if err == nil {
			break
		}
		select {
		case <-ctx.Done():
			t.Fatalf("WebKitWebDriver makes no session: %v", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
	w.session += "/" + made.SessionID
	t.Cleanup(func() { _ = w.command(context.Background(), http.MethodDelete, "", nil, nil) })
	return w
}

// command writes the value of the answer to v, where that is not nil.
func (w *webkit) command(ctx context.Context, method, path string, params, v any) error {
	body, err := json.Marshal(params)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, method, w.session+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var answer struct{ Value json.RawMessage }
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s", method, path, answer.Value)
	}
	if v == nil {
		return nil
	}
	return json.Unmarshal(answer.Value, v)
}

func (w *webkit) name() string { return "webkit" }

// evaluate writes the value of a JavaScript expression, awaited, to v.
func (w *webkit) evaluate(ctx context.Context, expression string, v any) error {
	var text string
	err := w.command(ctx, http.MethodPost, "/execute/sync", map[string]any{
		"script": "return (async () => JSON.stringify(await (" + expression + ") ?? null))()", "args": []any{},
	}, &text)
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(text), v)
}

// resize makes the window so wide that the page has the width. It has one colour scheme.
func (w *webkit) resize(b *browser, l look) {
	b.t.Helper()
	width := l.width
	for range 2 { // the frame of the window is known once it has a size
		must.OK(b.t, w.command(b.ctx, http.MethodPost, "/window/rect", map[string]any{"width": width, "height": 900}, nil))
		b.settle()
		width += l.width - eval[int64](b, `innerWidth`)
	}
}

// Every page of the console opens in WebKitGTK, in a wide window and one as wide as a phone, and
// checks there what it checks in Chromium.
func TestWebKitPages(t *testing.T) {
	testenv.Needs(t, testenv.Hours)
	s := startService(t, "", "")
	openWebKit(t, s.base).opensEveryPage(s)
}

// The same in Firefox.
func TestFirefoxPages(t *testing.T) {
	testenv.Needs(t, testenv.Hours)
	s := startService(t, "", "")
	openFirefox(t, s.base, "light").opensEveryPage(s)
}

// opensEveryPage signs in to a company that has something on every page, and opens each.
func (b *browser) opensEveryPage(s *service) {
	b.t.Helper()
	key := furnish(s)
	passport := s.api("POST", "/v1/agents/agent-0/passport", key, nil)["passport"].(string)
	b.signIn(key)
	b.confirmKey(s, "acme")
	for _, width := range []int64{1280, 390} {
		b.look(look{width, "light"})
		for _, p := range pages {
			name := fmt.Sprintf("%s-%d", p.name, width)
			b.goTo(p.hash)
			b.shows(p.ready)
			b.furnishPage(p.name, passport)
			b.fits(name)
		}
	}
}
