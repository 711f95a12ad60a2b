package web_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"attestd/internal/must"
	"attestd/internal/testenv"
)

// lie is a proxy that changes what it answers.
func lie(t *testing.T, s *service, change func(path string, answer []byte) []byte) (base string) {
	t.Helper()
	target, err := url.Parse(s.base)
	must.OK(t, err)
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			// the service takes the proxy for a client that is no browser
			r.Out.Header.Del("Origin")
			r.Out.Header.Del("Accept-Encoding")
		},
		ModifyResponse: func(r *http.Response) error {
			if r.StatusCode == http.StatusSwitchingProtocols {
				return nil
			}
			answer, err := io.ReadAll(r.Body)
			if err != nil {
				return err
			}
			answer = change(r.Request.URL.Path, answer)
			r.Body = io.NopCloser(bytes.NewReader(answer))
			r.ContentLength = int64(len(answer))
			r.Header.Set("Content-Length", strconv.Itoa(len(answer)))
			return nil
		},
	})
	t.Cleanup(proxy.Close)
	return proxy.URL
}

// A server that reports an invalid chain as valid is not believed: the browser's own result and the
// server's statement are shown separately, a chain of which only a part was verified is not green,
// and reading the whole chain finds the fault.
func TestBrowserLiveSeparatesServerClaims(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := s.company("acme")
	s.attest(key, 1112)
	tamper(t, s.db,
		`DROP TRIGGER record_no_update`,
		`UPDATE record SET payload = replace(payload, '"amount"', '"amounT"') WHERE id & 1099511627775 = 12`)
	base := lie(t, s, func(path string, answer []byte) []byte {
		if path == "/v1/verify" {
			return []byte(`{"valid":true,"merkleRoot":"` + strings.Repeat("0", 64) + `"}`)
		}
		return answer
	})
	b := openBrowser(t, base)
	b.signIn(key)
	b.confirmKey(s, "acme")
	b.goTo("#/live")
	b.look(look{1280, "light"})
	b.shows(`[data-checked="1092-1112"]`)
	b.reads(".pulse-word", "1,092–1,111")
	b.reads(`[data-server="valid"] .badge`, "valid")
	b.shows(`.pulse[data-tone=""]`)
	b.shows(`[data-verified="none"]`)
	if answer := eval[string](b, `document.querySelector('.pulse-card').innerText`); strings.Count(answer, "valid") != 1 || eval[int](b, `document.querySelectorAll('.pulse-card .ok').length`) != 0 {
		t.Errorf("the server's word stands among what was checked here, or is green: %s", answer)
	}
	b.press("Verify all")
	b.shows(`.pulse.bad`)
	b.reads(".pulse-word", "fails at 12")
}

// A completely verified chain is green, stays green record by record, and turns grey with its time
// when the connection is lost. A chain without records is called empty, not valid.
func TestBrowserLiveChecksAll(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	address := freePort(t)
	s := startService(t, "", address)
	key := s.company("acme")
	b := openBrowser(t, s.base)
	b.signIn(key)
	b.confirmKey(s, "acme")
	b.goTo("#/live")
	b.reads(".pulse-word", "empty")
	b.shows(`.pulse[data-tone=""]`)
	s.attest(key, 1)
	b.shows(`.pulse.ok [class*="pulse-word"]`)
	b.reads(".pulse-sub", "1 record checked here")

	s.attest(key, 1200)
	b.waitFor(60*time.Second, `document.querySelector('[data-checked="0-1201"]') && document.querySelector('.pulse.ok')`)
	b.goTo("#/start")
	b.reload()
	b.signIn(key)
	b.goTo("#/live")
	b.shows(`[data-checked="1181-1201"]`)
	b.press("Verify all")
	b.waitFor(60*time.Second, `document.querySelector('[data-checked="0-1201"]') && document.querySelector('.pulse.ok')`)
	s.attest(key, 5)
	b.waitFor(60*time.Second, `document.querySelector('[data-checked="0-1206"]') && document.querySelector('.pulse.ok')`)
	b.shows(`[data-verified="ok"]`)

	s.stop()
	b.shows(`.pulse.off[data-tone=""]`)
	b.reads(".pulse-word", "offline")
	b.reads(".pulse-sub", "as of")
	b.shows(`[data-verified="none"]`)
	b.picture("live-disconnected-1280-light", "")
	startService(t, s.db, address)
	b.reconnects(`document.querySelector('.pulse.ok')`)
}

// A server that could not say at first whether the chain is valid is asked again: Live does not
// wait for the next record.
func TestBrowserLiveAsksAgainForTheVerdict(t *testing.T) {
	s := startService(t, "", "")
	key := s.company("acme")
	s.attest(key, 3)
	var fails atomic.Bool
	fails.Store(true)
	base := between(t, s, func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/v1/verify" || !fails.Load() {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, `{"error":"The store is busy"}`)
		return true
	}, nil)
	b := openBrowser(t, base)
	b.signIn(key)
	b.confirmKey(s, "acme")
	b.goTo("#/live")
	b.reads(`[role="alert"]`, "The store is busy")
	fails.Store(false)
	eval[bool](b, `dispatchEvent(new Event('online'))`)
	b.shows(`.pulse.ok`)
	b.wait(`!document.querySelector('[role="alert"]')`)
}

// A signed-in console asks little: at 50,000 records it took 36 requests before it could count
// records without probing.
func TestBrowserSignInTakesFewRequests(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := s.company("acme")
	s.attest(key, 1500)
	b := openBrowser(t, s.base)
	// Live asks again every half minute, which is no part of signing in.
	unpolled := func() { eval[bool](b, `(window.setInterval = () => 0, true)`) }
	// What the overview asks for is left out: a sign-in leads there, and how much it has asked for
	// when the test goes on to Live depends on the machine.
	asks := func(what string) {
		t.Helper()
		asked := eval[[]string](b, `performance.getEntriesByType('resource').map((e) => new URL(e.name).pathname).filter((p) => p.startsWith('/v1/') && !/^\/v1\/(records|sessions|agents)/.test(p))`)
		if len(asked) > 10 { // and the stream
			t.Errorf("%d requests, %s: %v", len(asked), what, asked)
		}
		t.Log(asked)
	}
	unpolled()
	b.signIn(key)
	b.goTo("#/live")
	b.shows(`[data-checked="1480-1500"]`)
	b.reads(`[data-server="valid"]`, "valid")
	asks("at first")

	// However many heads this browser keeps, only those are asked for that are not proven to have
	// grown into another one.
	other := s.company("globex")
	b.goTo("#/start")
	b.reload()
	unpolled()
	b.signIn(other)
	b.goTo("#/live")
	for i := range 30 {
		s.attest(other, 1)
		b.shows(fmt.Sprintf(`.pulse.warn [data-checked="0-%[1]d"], .pulse.warn ~ * [data-checked="0-%[1]d"]`, i+1))
	}
	b.goTo("#/start")
	b.reload()
	unpolled()
	if stored := eval[int](b, `JSON.parse(localStorage.getItem('attestd.heads')).filter(({ companyId, log }) => companyId === 'globex' && log === 'actions').length`); stored < 24 {
		t.Errorf("%d heads are kept", stored)
	}
	s.attest(other, 1)
	s.api("POST", "/v1/agents/register", other, map[string]any{"agentId": "deploy-bot"})
	b.signIn(other)
	b.goTo("#/live")
	b.shows(`.pulse.warn`)
	asks("with many kept heads")
	b.reload()
	// Chromium asks for the icon once or twice.
	if files := eval[[]string](b, `[...new Set(performance.getEntriesByType('resource').map((e) => new URL(e.name).pathname))].filter((p) => !p.startsWith('/v1/'))`); len(files) > 3 {
		t.Errorf("the page is loaded with %v", files)
	}
	t.Logf("first paint after %.0f ms", eval[float64](b, `performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? -1`))
}

// If a lying server sends other data instead of a record, it is not shown as a record, and counts
// as a failure found in the browser.
func TestBrowserLiveRejectsOtherRecords(t *testing.T) {
	s := startService(t, "", "")
	key := s.company("acme")
	s.attest(key, 12)
	base := lie(t, s, func(path string, answer []byte) []byte {
		if path != "/v1/chain" {
			return answer
		}
		answer = bytes.Replace(answer, []byte(`"index":5,"timestamp":"`), []byte(`"index":5,"timestamp":"+`), 1)
		return bytes.Replace(answer, []byte(`"index":8,`), []byte(`"index":6,`), 1)
	})
	b := openBrowser(t, base)
	b.signIn(key)
	b.confirmKey(s, "acme")
	b.goTo("#/live")
	b.shows(`.pulse.bad`)
	b.reads(".pulse-word", "fails at 5")
	b.goTo("#/records")
	b.reads(`[data-index="5"][data-check="bad"]`, "timestamp")
	b.reads(`[data-index="8"][data-check="bad"]`, "record 6 is in its place")
	b.goTo("#/chain/5")
	b.reads(`dialog [role="alert"]`, "Record 5 is none")
}
