package server_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
)

// No cache may store a tenant's data, except a signed status, which the specification lets caches
// store for one credential.
func TestAnswersAreNotForSharedCaches(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	acme.agent(t, "bot")
	acme.attestMany(t, 1)
	for _, call := range keyed {
		acme.do(t, call, "").sets("Cache-Control: no-store")
	}
	for _, call := range []string{"GET /v1/health", "GET /v1/nothing", "PUT /v1/health", "POST /v1/companies"} {
		s.anyone().do(t, call, "").sets("Cache-Control: no-store")
	}
	id := jti(t, acme, acme.passport(t, "bot", ""))
	acme.do(t, "GET /v1/ocsp/"+id, "").status(200).sets("Cache-Control: public, max-age=300", "Vary: Authorization")
}

// pieces is the connection of a client that records the size of each read.
type pieces struct {
	*httptest.ResponseRecorder
	largest, total int
}

func (p *pieces) Write(b []byte) (int, error) {
	p.largest, p.total = max(p.largest, len(b)), p.total+len(b)
	return p.ResponseRecorder.Write(b)
}

func (*pieces) SetWriteDeadline(time.Time) error { return nil }

// A list of any length is written in pieces, as it is read.
func TestListsStream(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	testenv.Needs(t, testenv.NotRaced)
	s := start(t)
	acme := s.company(t, "acme")
	const rows, most = 500, 64 << 10
	long := strings.Repeat("r", 1000)
	s.file(t, fmt.Sprintf(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
		INSERT INTO passport (company, jti, agent_id, scopes, issued_at, expires_at, revoked_at, reason)
		SELECT 1, 'jti-' || i, 'bot', '["*"]', i, i + 60, '2026-01-01T00:00:00.000Z', '%s' FROM n`, rows, long))
	s.file(t, fmt.Sprintf(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
		INSERT INTO agent (company, agent_id, registered_at, metadata) SELECT 1, 'agent-' || i, '2026-01-01T00:00:00.000Z', '{"a":"%s"}' FROM n`, rows, long))
	company, err := s.store.Companies.Get(t.Context(), "acme")
	must.OK(t, err)
	label, admin := long[:200], store.Caller{Company: company, Role: store.Admin, At: time.Now()}
	var making errgroup.Group
	for range rows { // all at once, because they are committed together
		making.Go(func() error {
			_, err := s.store.Credentials.CreateKey(context.Background(), admin, &label, store.Grant{Role: store.Admin}, 2*rows)
			return err
		})
	}
	must.OK(t, making.Wait())
	for path, items := range map[string]int{
		"/v1/passports/revoked": rows, "/v1/passports?limit=1000": rows, "/v1/agents?limit=1000": rows, "/v1/keys": rows + 1, "/v1/credentials": rows + 1,
	} {
		req := acme.request(t, "GET "+path, "")
		req.RemoteAddr = "127.0.0.1:1"
		w := &pieces{ResponseRecorder: httptest.NewRecorder()}
		s.handler().ServeHTTP(w, req)
		if n := bytes.Count(w.Body.Bytes(), []byte(long[:200])); w.Code != 200 || n < items-1 || !bytes.HasSuffix(w.Body.Bytes(), []byte("}\n")) {
			t.Errorf("%s: %d with %d of %d items", path, w.Code, n, items)
		}
		if w.total <= 2*most || w.largest > most {
			t.Errorf("%s: %d bytes in pieces of up to %d, want at most %d", path, w.total, w.largest, most)
		}
	}
}

// A page of another origin gets nothing from any route with any method and credential; a page of
// this server's origin gets everything.
func TestPagesOfOtherOrigins(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	port := s.url[strings.LastIndexByte(s.url, ':'):]
	rebound := "http://attestd.evil.example" + port
	calls := append([]string{"POST /v1/companies", "POST /v1/setup", "POST /v1/oauth/token", "GET /v1/ca/public-key?companyId=acme", "GET /v1/health", "PUT /v1/health", "OPTIONS /v1/keys", "GET /nothing"}, keyed...)
	for _, call := range calls {
		acme.do(t, call, `{"companyId":"rebound"}`, "Origin: "+rebound, "Host: "+rebound[len("http://"):]).gets(403, `{"error":"Origin not allowed…--allowed-origins…"}`)
	}
	s.anyone().do(t, "GET /v1/ca/public-key?companyId=rebound", "").status(404)
	for _, own := range []string{s.url, "http://localhost" + port, "http://[::1]" + port} {
		acme.do(t, "GET /v1/company", "", "Origin: "+own).status(200)
		acme.do(t, "POST /v1/keys", "", "Origin: "+own).status(201)
	}
}

// Besides the specification's JSON, the token exchange accepts its parameters in the form of RFC
// 8693 §2.1.
func TestExchangeTakesAForm(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	acme := start(t).company(t, "acme")
	subject, actor := acme.agent(t, "planner"), acme.agent(t, "bot")
	const exchange, form = "POST /v1/token/exchange", "Content-Type: application/x-www-form-urlencoded; charset=utf-8"
	const types = "&subject_token_type=urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3Ajwt&actor_token_type=urn:ietf:params:oauth:token-type:jwt"
	const grant = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange"
	good := grant + types + "&subject_token=" + subject + "&actor_token=" + actor
	chain := acme.do(t, exchange, good, form).status(200).at("delegation_chain")
	if want := acme.do(t, exchange, exchangeBody(t, subject, actor, nil)).status(200).at("delegation_chain"); fmt.Sprint(chain) != fmt.Sprint(want) {
		t.Errorf("by form %v, by JSON %v", chain, want)
	}
	table(t, []row{
		{does: "a parameter is missing", as: acme, call: exchange, body: grant + types + "&subject_token=" + subject, headers: []string{form}, status: 400, gets: `{"error":"Missing or invalid field: actor_token is required"}`},
		{does: "a parameter without a value counts as absent", as: acme, call: exchange, body: grant + types + "&subject_token=&actor_token=" + actor, headers: []string{form}, status: 400, gets: `{"error":"Missing or invalid field: subject_token is required"}`},
		{does: "a parameter is given twice", as: acme, call: exchange, body: good + "&actor_token=" + actor, headers: []string{form}, status: 400, gets: `{"error":"…more than once…"}`},
		{does: "another grant", as: acme, call: exchange, body: strings.Replace(good, "token-exchange", "x", 1), headers: []string{form}, status: 400, gets: `{"error":"unsupported_grant_type: …"}`},
		{does: "no form", as: acme, call: exchange, body: "%zz", headers: []string{form}, status: 400, gets: `{"error":"The form is malformed"}`},
		{does: "a form under the name of JSON", as: acme, call: exchange, body: good, headers: []string{"Content-Type: application/json"}, status: 400, gets: `{"error":"…"}`},
	})
}
