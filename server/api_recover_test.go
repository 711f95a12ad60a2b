package server_test

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"attestd/crypto/cred"
	"attestd/crypto/keys"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/server"
	"attestd/server/api"
	"attestd/server/limit"
	"attestd/store/storetest"
)

const recoverKey = "POST /v1/recover-key"

func TestRecoverKey(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	them := s.anyone()
	first := `{"key":"` + acme.credential + `","label":"bootstrap","createdAt":"<time>"}`
	invalid := func(does, body string) row {
		return row{does: does, as: them, call: recoverKey, body: body, status: 400, gets: `{"error":"…"}`}
	}
	table(t, []row{
		{does: "the first key of a company", as: them, call: recoverKey, body: `{"companyId":"acme"}`, status: 200, gets: first, sets: []string{"Cache-Control: no-store"}},
		{does: "a company that is not there", as: them, call: recoverKey, body: `{"companyId":"globex"}`, status: 404, gets: `{"error":"…"}`},
		invalid("no body", ``), invalid("no companyId", `{}`), invalid("a number", `{"companyId":1}`), invalid("null", `{"companyId":null}`),
		invalid("an empty one", `{"companyId":""}`), invalid("one that no company can have", `{"companyId":"a/b"}`),
		invalid("a body that is not JSON", `acme`), invalid("something after the body", `{"companyId":"acme"} x`),
	})
	// The oldest remaining key is shown: a deleted key does not come back.
	second := acme.do(t, "POST /v1/keys", `{"label":null}`).status(201)
	them.do(t, recoverKey, `{"companyId":"acme"}`).gets(200, first)
	acme.do(t, "DELETE /v1/keys/"+acme.credential, "").status(200)
	them.do(t, recoverKey, `{"companyId":"acme"}`).gets(200, `{"key":"`+second.str("key")+`","label":null,"createdAt":"`+second.str("createdAt")+`"}`)
}

// A key that was shown again has a record with its fingerprint in the control log of its company; a
// refused request has none.
func TestRecoverKeyIsRecorded(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	s.anyone().do(t, recoverKey, `{"companyId":"acme"}`).status(200)
	s.anyone().do(t, recoverKey, `{"companyId":"globex"}`).status(404)
	records := string(acme.do(t, "GET /v1/chain?log=control", "").status(200).raw)
	if strings.Count(records, `api-key.recovered`) != 1 || !strings.Contains(records, `"via":"http"`) || strings.Contains(records, acme.credential) {
		t.Error(records)
	}
}

// The recorded settings that affect trust are limits, bounds, the cosigned logs, and the
// fingerprint of the registration token; another token is a change.
func TestSettingsOfTrustAreRecorded(t *testing.T) {
	t.Parallel()
	path := storetest.New(t)
	run := func(token string) *service {
		return startOn(t, path, cred.Domain{}, func(c *server.Config) {
			c.Registration = api.Registration{Mode: api.RegistrationToken, Token: token}
			c.CosignFor = "2 logs"
			c.Limits = limit.Limits{Sensitive: 1000, Attest: 1000, Standard: 1000, Log: 1000, Company: 10}
		})
	}
	s := run("the first token of all")
	r := s.anyone().with("the first token of all").do(t, "POST /v1/companies", `{"companyId":"acme"}`).status(201)
	key := r.str("apiKey")
	s.stop()
	s = run("another token of these")
	acme := caller{s, "acme", key}
	records := string(acme.do(t, "GET /v1/chain?log=control", "").status(200).raw)
	for _, want := range []string{
		`"limits":"sensitive=1000,attest=1000,standard=1000,log=1000,company=10"`, `"bounds":"keys=1000,clients=1000,agents=1000000,webhooks=16,subjects=10000"`, `"cosignFor":"2 logs"`,
		`"changed":{"registrationToken":{"from":"` + keys.Fingerprint(sha256.Sum256([]byte("the first token of all"))) + `","to":"`,
	} {
		if !strings.Contains(records, want) {
			t.Errorf("%s is not in\n%s", want, records)
		}
	}
	if strings.Contains(records, "token of") {
		t.Error("a token is in a record")
	}
}

// Only a caller on the same machine who connects directly is answered. Others do not learn whether
// the company exists.
func TestRecoverKeyRefusesRemoteCallers(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	them := s.anyone()
	port := strings.TrimPrefix(s.url, "http://127.0.0.1")
	var rows []row
	for _, header := range []string{
		"Origin: http://127.0.0.1" + port, "Origin: null",
		"Forwarded: for=127.0.0.1", "Via: 1.1 proxy", "X-Real-IP: 127.0.0.1",
		"X-Forwarded-For: 127.0.0.1", "X-Forwarded-Host: localhost", "X-Forwarded-Proto: http", "X-Forwarded-Server: x", "X-Forwarded-Port: 80", "x-forwarded-anything: x",
		"Host: attestd.example", "Host: attestd.example" + port, "Host: 10.0.0.1", "Host: localhost.example", "Host: 127.0.0.1.example", "Host: 128.0.0.1", "Host: [::2]", "Host: 0.0.0.0",
	} {
		for _, company := range []string{"acme", "globex"} {
			rows = append(rows, row{
				does: company + " with " + header, as: them, call: recoverKey, body: `{"companyId":"` + company + `"}`, headers: []string{header},
				status: 403, gets: `{"error":"…"}`,
			})
		}
	}
	rows = append(rows, row{does: "a key does not help", as: acme, call: recoverKey, body: `{"companyId":"acme"}`, headers: []string{"Host: attestd.example"}, status: 403, gets: `{"error":"…"}`})
	for _, host := range []string{"localhost", "LocalHost:8080", "127.0.0.1", "127.9.9.9:1", "[::1]", "[::1]:8080", "[::ffff:127.0.0.1]"} {
		rows = append(rows, row{
			does: "with the Host " + host, as: them, call: recoverKey, body: `{"companyId":"acme"}`, headers: []string{"Host: " + host},
			status: 200, gets: `{"key":"` + acme.credential + `","label":"bootstrap","createdAt":"<time>"}`,
		})
	}
	table(t, rows)

	for _, peer := range []string{"192.0.2.1:1", "10.0.0.1:1", "[::ffff:192.0.2.1]:1", "[2001:db8::1]:1", "[fe80::1%eth0]:1", "0.0.0.0:1", "@", ""} {
		t.Run("from "+peer, func(t *testing.T) {
			req := them.request(t, recoverKey, `{"companyId":"acme"}`)
			req.RemoteAddr, req.Host = peer, "localhost"
			them.serve(t, req).status(403)
		})
	}
	for _, settings := range []func(*server.Config){
		func(c *server.Config) { c.BaseURL = "https://attest.example.com" },
		func(c *server.Config) { c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.1/32")} },
	} {
		behind := start(t, settings)
		behind.company(t, "acme")
		behind.anyone().do(t, recoverKey, `{"companyId":"acme"}`).gets(403, `{"error":"…--base-url or --trusted-proxies…"}`)
	}
}

// serve hands a request to the server without a socket, so that it can have any source address.
func (c caller) serve(t testing.TB, req *http.Request) *reply {
	t.Helper()
	w := newRecorder()
	c.handler().ServeHTTP(w, req)
	return c.reply(t, req, w.Code, w.Header(), w.Body.Bytes())
}

// recorder is a recorder of answers that supports deadlines, as every real connection does.
type recorder struct{ *httptest.ResponseRecorder }

func newRecorder() recorder { return recorder{httptest.NewRecorder()} }

func (recorder) SetWriteDeadline(time.Time) error { return nil }

// Some proxies can be recognized only by the old version of HTTP that they use.
func TestRecoverKeyRefusesHTTP10(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	for version, status := range map[string]int{"HTTP/1.0": 403, "HTTP/1.1": 200} {
		const body = `{"companyId":"acme"}`
		res, raw := s.raw(t, fmt.Sprintf("POST /v1/recover-key %s\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", version, len(body), body))
		if res.StatusCode != status || strings.Contains(raw, acme.credential) != (status == 200) {
			t.Errorf("%s: %d %s, want %d", version, res.StatusCode, raw, status)
		}
	}
}

// raw sends bytes unchanged and reads one answer.
func (s *service) raw(t testing.TB, request string) (*http.Response, string) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	must.OK(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, request)
	must.OK(t, err)
	method, _, _ := strings.Cut(request, " ")
	res, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	must.OK(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	must.OK(t, err)
	return res, string(body)
}

// This is a server with --no-recover-endpoint.
func TestRecoverKeySwitchedOff(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	s := start(t, func(c *server.Config) { c.RecoverEndpoint = false })
	s.company(t, "acme")
	for _, company := range []string{"acme", "globex"} {
		s.anyone().do(t, recoverKey, `{"companyId":"`+company+`"}`).gets(403, `{"error":"…"}`)
	}
}
