package web_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"attestd/internal/must"
	"attestd/internal/rewrite"
	"attestd/internal/testenv"
	"attestd/store"
)

// faces is a proxy that shows one or another, by the path that is asked for: a server that has
// several histories.
type faces struct {
	base string

	mu sync.Mutex
	of func(path string) *service
	// of the requests to what is not the first service, where theirs is another
	key     string
	stalled chan struct{} // while it is there, nothing that is asked about the logs is answered
}

func manyFaces(t *testing.T, first *service) *faces {
	t.Helper()
	f := &faces{of: func(string) *service { return first }}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		f.mu.Lock()
		shown, key := f.of(r.In.URL.Path), f.key
		f.mu.Unlock()
		target, err := url.Parse(shown.base)
		if err != nil {
			panic(err)
		}
		r.SetURL(target)
		r.Out.Header.Del("Origin")
		if shown != first && key != "" {
			r.Out.Header.Set("Authorization", "Bearer "+key)
		}
	}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		stalled := f.stalled
		f.mu.Unlock()
		if stalled != nil && r.URL.Path == "/v1/logs" {
			select {
			case <-stalled:
			case <-r.Context().Done():
			}
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	f.base = server.URL
	return f
}

// show lets the paths be answered by a service, and all others by the first.
func (f *faces) show(first, other *service, paths ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.of = func(path string) *service {
		for _, one := range paths {
			if strings.HasPrefix(path, one) {
				return other
			}
		}
		return first
	}
}

// stall holds back what is asked about the logs until the function that it returns is called.
func (f *faces) stall() (release func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	held := make(chan struct{})
	f.stalled = held
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.stalled = nil
		close(held)
	}
}

// copied returns a service on a copy of a file that is not served, once it was changed.
func copied(t *testing.T, file []byte, listen string, change func(db string)) *service {
	t.Helper()
	db := filepath.Join(t.TempDir(), "attestd.db")
	must.OK(t, os.WriteFile(db, file, 0o600))
	change(db)
	return startService(t, db, listen)
}

// A server that answers what is asked about the logs from the history that this browser has seen,
// and shows the records of another one that verifies as well, is red in Live and in Verify: what
// was read here is itself held against what was seen. A stream that is silent about records which
// the server shows elsewhere is noticed, and nothing is green between a reconnection and its proof.
func TestBrowserSplitViewIsRed(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	address := freePort(t)
	s := startService(t, "", "")
	key := s.company("acme")
	s.attest(key, 20)
	s.stop()
	older, err := os.ReadFile(s.db)
	must.OK(t, err)
	s = startService(t, s.db, "")
	s.attest(key, 20)
	s.stop()
	file, err := os.ReadFile(s.db)
	must.OK(t, err)
	s = startService(t, s.db, "")
	streams := copied(t, file, address, func(string) {})
	schema, err := os.ReadFile("../schema.sql")
	must.OK(t, err)
	rewritten := copied(t, file, "", func(db string) {
		_, err := rewrite.Record(t.Context(), db, string(schema), store.Options{}, "acme", store.Actions, 35, func(payload []byte) []byte {
			return bytes.ReplaceAll(payload, []byte(`"amount"`), []byte(`"amounT"`))
		})
		must.OK(t, err)
	})
	rolledBack := copied(t, older, "", func(string) {})

	f := manyFaces(t, s)
	f.show(s, streams, "/v1/ws")
	b := openBrowser(t, f.base)
	b.signIn(key)
	b.confirmKey(s, "acme")
	b.goTo("#/live")
	b.shows(`.pulse.ok`)
	s.attest(key, 3)
	eval[bool](b, `document.dispatchEvent(new Event('visibilitychange'))`)
	b.shows(`[data-checked="0-43"]`)
	b.shows(`.pulse.ok`)

	release := f.stall()
	streams.stop()
	b.shows(`.pulse.off`)
	streams = startService(t, streams.db, address)
	f.show(s, streams, "/v1/ws")
	b.reconnects(`document.querySelector('[data-connection="open"]')`)
	if tone := eval[string](b, `document.querySelector('.pulse').dataset.tone + document.querySelector('.verified').dataset.verified`); tone != "none" {
		t.Errorf("before anything was proven since the connection was lost, the chain is %q", tone)
	}
	release()
	b.shows(`.pulse.ok`)

	for _, other := range []*service{rewritten, rolledBack} {
		f.show(s, other, "/v1/chain", "/v1/verify")
		b.goTo("#/start")
		b.reload()
		b.signIn(key)
		b.goTo("#/live")
		b.shows(`.pulse.bad`)
		b.goTo("#/verify")
		b.press("Verify the whole chain")
		b.shows(`[data-verdict="failed"][data-tone="bad"]`)
		b.shows(`[data-rewritten="actions"]`)
		f.show(s, s)
		b.goTo("#/live")
		b.acknowledge(`document.querySelector('.pulse.ok')`)
	}
}

// A fault that was found once stays red after the server shows the truth again, on every page and
// after a reload, with its description and time, until a user acknowledges the reason.
func TestBrowserFindingStaysRedAfterServerRecovers(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := s.company("acme")
	s.attest(key, 12)
	s.company("globex")
	var lying sync.Map // the lie of now
	is := func(what string) bool { now, _ := lying.Load(0); return now == what }
	forged := []byte(nil)
	base := lie(t, s, func(path string, answer []byte) []byte {
		switch {
		case is("history") && path == "/v1/logs":
			at := bytes.Index(answer, []byte(`"merkleRoot":"`)) + len(`"merkleRoot":"`)
			return append(append(bytes.Clone(answer[:at]), bytes.Repeat([]byte("0"), 64)...), answer[at+64:]...)
		case is("record") && path == "/v1/chain":
			return bytes.Replace(answer, []byte(`"amount"`), []byte(`"amounT"`), 1)
		case is("server") && path == "/v1/verify":
			return []byte(`{"valid":false,"failedAtIndex":7,"error":"so it says"}`)
		case is("root") && path == "/v1/verify":
			return []byte(`{"valid":true,"merkleRoot":"` + strings.Repeat("0", 64) + `"}`)
		case is("key") && path == "/v1/ca/public-keys":
			return forged
		}
		return answer
	})
	response, err := http.Get(s.base + "/v1/ca/public-keys?companyId=globex")
	must.OK(t, err)
	var answer bytes.Buffer
	_, err = answer.ReadFrom(response.Body)
	must.OK(t, err)
	response.Body.Close()
	forged = bytes.ReplaceAll(answer.Bytes(), []byte("globex"), []byte("acme"))

	b := openBrowser(t, base)
	b.signIn(key)
	b.confirmKey(s, "acme")
	b.goTo("#/live")
	b.shows(`.pulse.ok`)
	second := b.tab(base + "/#/live")
	second.fill(`input[name="key"]`, key)
	second.press("Sign in")
	second.shows(`.pulse.ok`)
	again := func() {
		b.goTo("#/start")
		b.reload()
		b.signIn(key)
		b.goTo("#/live")
	}
	for _, lie := range []struct{ what, red, message string }{
		{"history", `[data-rewritten="actions"]`, "the server’s log no longer starts with them"},
		{"record", `.pulse.bad`, "fails at"},
		{"server", `.pulse.bad`, "fails at 7"},
		{"root", `.pulse.bad`, "fails at the chain root"},
		{"key", `[data-key-change]`, "SHA256:"},
	} {
		lying.Store(0, lie.what)
		again()
		b.reads(lie.red, lie.message)
		lying.Store(0, "")
		again()
		b.reads(lie.red, lie.message)
		b.shows(`[data-server="valid"]`) // all was read
		if eval[int](b, `document.querySelectorAll('.verified.ok, .pulse.ok').length`) != 0 {
			t.Errorf("something is green after the lie about the %s was healed", lie.what)
		}
		if lie.what == "record" {
			b.goTo("#/verify")
			b.press("Verify the whole chain")
			b.reads(`[data-verdict="failed"][data-tone="bad"]`, "Every record verifies now. But at")
			b.goTo("#/live")
		}
		if lie.what == "history" {
			second.shows(`.pulse.bad`)
		}
		// A record that the other key did not sign has failed too, and is acknowledged separately.
		b.acknowledge(fmt.Sprintf(`document.querySelector('.pulse.ok') && !document.querySelector(%q)`, lie.red))
		if lie.what == "history" {
			second.shows(`.pulse.ok`)
		}
	}
}

// A chain of another key that verified while the server published that key has its verdict with
// that key alone: it does not turn green when the server publishes the confirmed one again.
func TestBrowserVerdictBelongsToItsKey(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s, other := startService(t, "", ""), startService(t, "", "")
	key, otherKey := s.company("acme"), other.company("acme")
	s.attest(key, 5)
	other.attest(otherKey, 5)
	f := manyFaces(t, s)
	f.key = otherKey
	b := openBrowser(t, f.base)
	b.signIn(key)
	b.confirmKey(s, "acme")
	f.show(s, other, "/v1/ca/", "/v1/chain", "/v1/verify", "/v1/logs", "/v1/log/", "/v1/consistency")
	b.goTo("#/verify")
	b.press("Verify the whole chain")
	b.shows(`[data-verdict="valid"][data-tone="bad"]`)
	f.show(s, s)
	b.goTo("#/checkpoints") // asks for the keys again
	// the replaced key is not acknowledged
	b.shows(`[data-log="actions"][data-checkpoint="bad"]`)
	b.shows(`[data-key-change="was-replaced"]`)
	b.goTo("#/verify")
	b.shows(`[data-verdict][data-tone="bad"]`)
	// Live may have seen both roots while the faces changed
	b.wait(`/another key|fails/.test(document.querySelector('.verdict-word').textContent)`)
}
