package test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	api "attestd/sdk/attestd"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/sdk/attestd/spool"
	"attestd/store/storetest"
)

// liar is in front of a server. While it lies, it answers each append with 400, after the server
// has recorded it.
type liar struct {
	*httptest.Server
	lies   atomic.Bool
	server atomic.Pointer[url.URL]
}

// front puts the liar in front of a server, whose address it has from then on.
func (l *liar) front(t *testing.T, s *service) {
	t.Helper()
	at, err := url.Parse(s.URL)
	must.OK(t, err)
	l.server.Store(at)
	s.URL = l.URL
}

func newLiar(t *testing.T) *liar {
	t.Helper()
	l := new(liar)
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(l.server.Load())
			r.Out.Host = r.In.Host // what an agent signs to sign in names the address that it knows
		},
		ModifyResponse: func(r *http.Response) error {
			if !l.lies.Load() || !strings.HasPrefix(r.Request.URL.Path, "/v1/attest") {
				return nil
			}
			r.Body.Close()
			r.StatusCode, r.Body, r.ContentLength = 400, io.NopCloser(strings.NewReader(`{"error":"no","code":"STATEMENT_MALFORMED"}`)), -1
			r.Header.Del("Content-Length")
			return nil
		},
	}
	l.Server = httptest.NewServer(proxy)
	t.Cleanup(l.Close)
	return l
}

// A service that answers an attestation with an error, and has recorded it, is named for that by
// every verdict on the session. It never holds two statements of one place, so that it has nothing
// to accuse the agent with.
func TestServiceThatLiesIsNamed(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	l := newLiar(t)
	s := serve(t, storetest.New(t), "--rate-limits", "off", "--base-url", l.URL)
	l.front(t, s)
	c := s.register(t, "acme")
	_, identity := enrolled(t, s, c, api.EdDSA, api.IdentityConfig{SPIFFEID: "spiffe://attestd.local/company/acme/agent/bot"})
	own, err := api.New(api.Config{URL: l.URL, Credential: identity, Retry: &api.Retry{}})
	must.OK(t, err)
	defer own.Close()
	memory, err := own.Session("memory")
	must.OK(t, err)
	folder, err := spool.Open(filepath.Join(t.TempDir(), "spool"), own)
	must.OK(t, err)
	disk, err := folder.Session(identity, "disk")
	must.OK(t, err)
	for id, attest := range map[string]func(api.Attestation) error{
		"memory": func(a api.Attestation) error { _, err := memory.Attest(t.Context(), a); return err },
		"disk":   func(a api.Attestation) error { _, _, err := disk.Attest(t.Context(), a); return err },
	} {
		for n := range 4 {
			l.lies.Store(n == 1 || n == 2)
			err := attest(api.Attestation{AgentID: "bot", ActionType: "a", Payload: n, Last: n == 3})
			if refused := errors.Is(err, &api.Error{Code: "STATEMENT_MALFORMED"}); refused != l.lies.Load() || err != nil && !refused {
				t.Errorf("%s, %d: %v", id, n, err)
			}
		}
		answer := verdictOnSession(t, s, c, "bot", id)
		for _, want := range []string{
			": 4 records, complete: 0 to 3, sealed\n", "the service recorded number 1, record ", "the service recorded number 2, record ", "had told the agent that it refused it",
		} {
			if !strings.Contains(answer, want) {
				t.Errorf("the verdict on %s lacks %q:\n%s", id, want, answer)
			}
		}
	}
}
