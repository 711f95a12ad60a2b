package web_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"testing"
)

// lie stands before a service and changes what it answers.
func lie(t *testing.T, s *service, change func(path string, answer []byte) []byte) (base string) {
	t.Helper()
	target, err := url.Parse(s.base)
	must(t, err)
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Header.Del("Origin") // the service takes the proxy for a client that is no browser
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

// A server that says "valid" of a chain that is not is believed in nothing: green is only how many records were checked here, what it says
// is grey, and so is everything without a connection (row 32).
func TestBrowserLiveKeepsTheServersWordApart(t *testing.T) {
	address := freePort(t)
	s := startService(t, "", address)
	key := s.company("acme")
	s.attest(key, 112)
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
	b.goTo("#/live")
	b.look(1280, "light")
	b.shows(`.pulse[data-tone="warn"]`) // the server also chose the key
	b.reads(".pulse", "20of 112 records checked here")
	if green := eval[int](b, `document.querySelectorAll('.ok').length`); green > 0 {
		t.Errorf("%d things are green before the key is confirmed", green)
	}
	b.confirmKey(s, "acme")
	b.goTo("#/live")
	b.shows(`.pulse.ok[data-tone="ok"]`)
	b.shows(`.nav .dot.ok`)
	b.reads(`[data-server="valid"] .badge`, "valid")
	if said := eval[string](b, `document.querySelector('.pulse-card').innerText`); strings.Count(said, "valid") != 1 || eval[int](b, `document.querySelectorAll('[data-server] .ok').length`) != 0 {
		t.Errorf("the server's word stands among what was checked here, or is green: %s", said)
	}

	s.stop()
	b.shows(`.pulse.off[data-tone=""]`)
	b.reads(".pulse-word", "offline")
	b.shows(`.nav .dot:not(.ok):not(.warn):not(.bad)`)
	b.picture("live-disconnected-1280-light", "")
}

// What a lying server sends instead of a record is shown as no record, and is a failure found here.
func TestBrowserLiveTakesNoOtherRecord(t *testing.T) {
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
	b.goTo("#/chain")
	b.reads("#row-5", "timestamp")
	b.reads("#row-8", "record 6 stands in its place")
	b.goTo("#/chain/5")
	b.reads(`dialog [role="alert"]`, "Record 5 is none")
}
