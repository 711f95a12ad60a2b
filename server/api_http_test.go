package server_test

import (
	"database/sql"
	"regexp"
	"strings"
	"testing"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/server"
	"attestd/store/storetest"
)

// keyed are the endpoints that need a credential, each with a call that its routing accepts.
var keyed = []string{
	"GET /v1/company", "POST /v1/companies/svid", "POST /v1/companies/rotate-keys",
	"POST /v1/agents/register", "GET /v1/agents", "GET /v1/agents/bot", "GET /v1/agents/bot/svid",
	"POST /v1/agents/bot/disable", "POST /v1/agents/bot/enable",
	"POST /v1/keys", "GET /v1/keys", "DELETE /v1/keys/svc_some-key-that-is-none",
	"POST /v1/oauth/clients", "GET /v1/oauth/clients", "DELETE /v1/oauth/clients/cc_none", "GET /v1/credentials",
	"POST /v1/attest", "GET /v1/chain", "GET /v1/records", "GET /v1/records/histogram", "GET /v1/verify", "GET /v1/proof/0",
	"POST /v1/token-exchange", "POST /v1/token/exchange",
	"POST /v1/agents/bot/passport", "POST /v1/agents/bot/passport/rotate", "POST /v1/passport/verify", "GET /v1/passports",
	"POST /v1/passports/x/revoke", "GET /v1/passports/revoked", "GET /v1/ocsp/x",
	"POST /v1/hooks/claude-code", "POST /v1/otlp/v1/traces", "POST /v1/otlp/v1/logs",
}

// Every such endpoint asks for a credential before it reads anything else.
func TestCredentialIsAskedFirst(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	deleted := acme.do(t, "POST /v1/keys", "").status(201).str("key")
	acme.do(t, "DELETE /v1/keys/"+deleted, "").status(200)
	for _, call := range keyed {
		for _, who := range []caller{s.anyone(), s.anyone().with("svc_" + strings.Repeat("z", 43)), s.anyone().with("oauth_" + strings.Repeat("z", 43)), acme.with(deleted)} {
			who.do(t, call, "not even JSON").gets(401, `{"error":"Unauthorized"}`).sets("WWW-Authenticate: Bearer …", "Cache-Control: no-store")
		}
	}
	// An API key and an OAuth token are both accepted everywhere.
	for _, who := range []caller{acme, acme.with(acme.oauthToken(t))} {
		for _, call := range keyed {
			if r := who.do(t, call, ""); r.code == 401 || r.code == 403 {
				t.Errorf("%s: %d with a good credential", call, r.code)
			}
		}
	}
}

func TestUnknownPathsAndMethods(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	acme.agent(t, "bot")
	var rows []row
	for _, path := range []string{
		"/v1", "/v1/", "/v1/nothing", "/v1/companies/", "/v1/company/", "/v1/agents/bot/", "/v1/agents/bot/nothing", "/v2/company", "/nothing", "/index.php", "/v1/proof/", "/v1/keys/", "/v1/ocsp/",
		"/V1/company", "/v1/Company",
		// Paths that are not clean are not redirected to the clean one, because a redirected client
		// turns POST into GET.
		"//v1/health", "/v1//health", "/v1/./health", "/v1/x/../health", "/v1/health/.", "/./v1/health", "/v1/health//", "/v1/agents//bot", "/v1/agents/bot/../bot", "/v1/%2e/health", "/v1/agents/%2e%2e/company",
	} {
		for _, method := range []string{"GET", "POST", "DELETE", "PUT"} {
			rows = append(rows, row{does: method + " " + path, as: acme, call: method + " " + path, status: 404, gets: `{"error":"Not Found"}`})
		}
	}
	for call, allow := range map[string]string{
		"GET /v1/companies": "POST", "PUT /v1/companies": "POST", "GET /v1/attest": "POST", "HEAD /v1/attest": "POST",
		"POST /v1/company": "GET, HEAD", "POST /v1/chain": "GET, HEAD", "DELETE /v1/health": "GET, HEAD", "PATCH /v1/ws": "GET, HEAD",
		"PUT /v1/keys": "GET, HEAD, POST", "DELETE /v1/keys": "GET, HEAD, POST", "GET /v1/keys/svc_x": "DELETE",
		"POST /v1/agents/bot": "GET, HEAD", "DELETE /v1/agents/bot": "GET, HEAD", "GET /v1/agents/bot/passport": "POST", "GET /v1/token/exchange": "POST",
		"OPTIONS /v1/keys": "GET, HEAD, POST", "BREW /v1/health": "GET, HEAD", "GET /v1/passports/x/revoke": "POST",
	} {
		rows = append(rows, row{does: call, as: acme, call: call, status: 405, gets: `{"error":"Method Not Allowed"}`, sets: []string{"Allow: " + allow}})
	}
	for _, row := range rows {
		t.Run(row.does, func(t *testing.T) {
			r := row.as.do(t, row.call, "").status(row.status).sets(row.sets...).sets("Content-Type: application/json", "Location:")
			if !strings.HasPrefix(row.call, "HEAD") {
				r.gets(row.status, row.gets)
			}
		})
	}
}

// HEAD is GET without a body, wherever GET is.
func TestHead(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	acme := start(t).company(t, "acme")
	for _, path := range []string{"/v1/health", "/v1/company", "/v1/chain", "/v1/ca/public-key?companyId=acme"} {
		if r := acme.do(t, "HEAD "+path, "").status(200).sets("Content-Type: application/json"); len(r.raw) != 0 {
			t.Errorf("HEAD %s has a body", path)
		}
	}
	acme.with("").do(t, "HEAD /v1/company", "").status(401)
}

// X-Request-ID is returned if it is 1 to 128 visible ASCII characters; otherwise the server creates
// one.
func TestRequestID(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	s := start(t)
	made := regexp.MustCompile(`^[0-9a-f-]{36}$`)
	for _, id := range []string{"x", "~!", "7f3c/ä"[:5], strings.Repeat("r", 128)} {
		s.anyone().do(t, "GET /v1/health", "", "X-Request-ID: "+id).status(200).sets("X-Request-ID: " + id)
	}
	for _, id := range []string{"", "two words", "ümlaut", "tab\there", strings.Repeat("r", 129)} {
		if got := s.anyone().do(t, "GET /v1/health", "", "X-Request-ID: "+id).header.Get("X-Request-ID"); !made.MatchString(got) {
			t.Errorf("%q: X-Request-ID %q was not made", id, got)
		}
	}
	// The header is on every kind of answer.
	for _, call := range []string{"GET /v1/company", "GET /nowhere", "PUT /v1/health", "POST /v1/companies", "GET /v1/ws"} {
		s.anyone().do(t, call, "", "X-Request-ID: mine").sets("X-Request-ID: mine")
	}
}

// A body over the limit is answered 413 wherever a body is read, whether its length is declared or
// not.
func TestBodyLimit(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	s := start(t, func(c *server.Config) { c.MaxBody = 1000 })
	acme := s.company(t, "acme")
	acme.agent(t, "bot")
	id := jti(t, acme, acme.passport(t, "bot", ""))
	large := `{"companyId":"` + strings.Repeat("x", 1000) + `"}`
	for _, call := range []string{
		"POST /v1/companies", "POST /v1/setup", "POST /v1/recover-key", "POST /v1/agents/register", "POST /v1/keys", "POST /v1/oauth/token", "POST /v1/attest",
		"POST /v1/token-exchange", "POST /v1/token/exchange", "POST /v1/agents/bot/passport", "POST /v1/passport/verify", "POST /v1/passports/" + id + "/revoke",
	} {
		acme.do(t, call, large, "Content-Type: application/json").gets(413, `{"error":"…"}`)
	}
	res, body := s.raw(t, "POST /v1/companies HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"+
		"3e8\r\n"+large[:1000]+"\r\n3e8\r\n"+large[:1000]+"\r\n0\r\n\r\n")
	if res.StatusCode != 413 {
		t.Errorf("a body of unknown length: %d %s", res.StatusCode, body)
	}
	// The request that was too large did not revoke it.
	acme.do(t, "POST /v1/passports/"+id+"/revoke", "").status(200)
}

// An internal error is answered 500 with the ID under which the log has its cause, and the answer
// reveals nothing internal.
func TestInternalError(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	s.file(t, `ALTER TABLE agent RENAME TO lost`)
	for _, call := range []string{"GET /v1/agents", "GET /v1/agents/bot", "POST /v1/agents/register", "POST /v1/agents/bot/passport"} {
		acme.do(t, call, `{"agentId":"bot"}`, "X-Request-ID: broken").gets(500, `{"error":"Internal Server Error","requestId":"broken"}`)
	}
	acme.do(t, "GET /v1/company", "").status(200)
	// If a credential cannot be looked up, it does not count as wrong; the health check needs no
	// credential.
	s.file(t, `ALTER TABLE api_key RENAME TO gone`)
	unknown := s.anyone().with("svc_" + strings.Repeat("q", 43))
	unknown.do(t, "GET /v1/company", "", "X-Request-ID: broken").gets(500, `{"error":"Internal Server Error","requestId":"broken"}`)
	unknown.do(t, "GET /v1/ws", "", append(handshake, "X-Request-ID: broken")...).gets(500, `{"error":"Internal Server Error","requestId":"broken"}`)
	unknown.do(t, "GET /v1/health", "").gets(200, `{"status":"ok"}`)
	s.stop()
	found := 0
	for _, line := range s.log.lines(t) {
		if cause, _ := line["error"].(string); line["id"] == "broken" && line["level"] == "ERROR" && (strings.Contains(cause, "no such table") || strings.Contains(cause, "does not exist")) {
			found++
		}
	}
	if found != 6 {
		t.Errorf("the log has the cause of %d of 6 faults", found)
	}
}

// While another program holds the file's write lock, writes are answered 503 and leave nothing
// behind, and reads go on. Afterwards writes work again.
func TestUnavailable(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	acme.attestMany(t, 2)
	db, err := sql.Open("sqlite", "file:"+s.path)
	must.OK(t, err)
	defer db.Close()
	prompt, err := db.Conn(t.Context())
	must.OK(t, err)
	defer prompt.Close()
	_, err = prompt.ExecContext(t.Context(), "BEGIN IMMEDIATE")
	must.OK(t, err)

	const attest, body = "POST /v1/attest", `{"agentId":"a","actionType":"b","payload":1}`
	acme.do(t, attest, body).gets(503, `{"error":"…","code":"NOT_DONE","requestId":"…"}`).sets("Retry-After: <number>")
	acme.do(t, "GET /v1/company", "").status(200)
	acme.do(t, "GET /v1/verify", "").gets(200, `{"valid":true,"merkleRoot":"<hash>"}`)
	_, err = prompt.ExecContext(t.Context(), "ROLLBACK")
	must.OK(t, err)

	acme.do(t, attest, body).status(201)
	if n := len(acme.checkChain(t)); n != 3 {
		t.Errorf("%d records, want 3", n)
	}
}
