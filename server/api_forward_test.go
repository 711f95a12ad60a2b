package server_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"attestd/crypto/dpop"
	"attestd/crypto/jose"
	"attestd/internal/must"
	"attestd/server"
	"attestd/server/limit"
)

// gateway is a proxy in front of another service, with a key of its own.
type gateway struct {
	caller
	key string
}

func (c caller) gateway(t testing.TB) gateway {
	t.Helper()
	return gateway{c, c.create(t, "reader", "").credential}
}

// describes are the headers with which nginx describes a request to https://api.example.
func describes(method, uri string) []string {
	return []string{"X-Original-Method: " + method, "X-Original-URI: " + uri, "X-Forwarded-Host: api.example", "X-Forwarded-Proto: https"}
}

// forwardAnswer is the answer to a proxy.
type forwardAnswer struct {
	status int
	code   string
	header http.Header
}

// asks sends what a proxy sends, with its own credential first. A header may be given twice.
func (g gateway) asks(t testing.TB, call string, headers ...string) (a forwardAnswer) {
	t.Helper()
	method, path, _ := strings.Cut(call, " ")
	req, err := http.NewRequestWithContext(t.Context(), method, g.url, http.NoBody)
	must.OK(t, err)
	req.URL.Opaque = path // as it is spelt
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if name == "Host" {
			req.Host = value
			continue
		}
		req.Header.Add(name, value)
	}
	if g.key != "" {
		req.Header.Add("X-Attestd-Authorization", "Bearer "+g.key)
	}
	res, err := g.client.Do(req)
	must.OK(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	must.OK(t, err)
	var refused struct{ Error, Code string }
	if len(body) > 0 {
		must.OK(t, json.Unmarshal(body, &refused))
	}
	return forwardAnswer{res.StatusCode, refused.Code, res.Header}
}

// is requires a status, and the code of a refusal.
func (a forwardAnswer) is(t testing.TB, what string, status int, code string) {
	t.Helper()
	if a.status != status || a.code != code {
		t.Errorf("%s: %d %s, want %d %s", what, a.status, a.code, status, code)
	}
	if status == http.StatusUnauthorized && a.header.Get("WWW-Authenticate") == "" {
		t.Errorf("%s: no challenge", what)
	}
	if names := a.header.Get("X-Attestd-Agent") + a.header.Get("X-Attestd-Spiffe-Id"); (status == http.StatusOK) != (names != "") {
		t.Errorf("%s: %d names the agent %q", what, status, names)
	}
}

const authz = "GET /v1/authz"

// A proxy asks about a request of an agent, by its passport, its access token or its SVID, and
// tells the service behind it who sends it.
func TestForwardAuthorization(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	bot := acme.signer(t, "bot", jose.ES256).signsIn(t)
	g := acme.gateway(t)
	read := append(describes("GET", "/v1/users?page=2"), "Service-Passport: "+acme.passport(t, "bot", `{"scopes":["http:GET"]}`))
	svid := bot.do(t, "GET /v1/agents/bot/svid?audience=https://api.example", "").status(200).str("svid")
	for name, headers := range map[string][]string{
		"a passport":           read,
		"an access token":      append(describes("POST", "/v1/users"), "Authorization: Bearer "+bot.credential),
		"an SVID":              append(describes("POST", "/v1/users"), "Authorization: Bearer "+svid),
		"headers of Caddy":     {"X-Forwarded-Method: GET", "X-Forwarded-Uri: /v1/users", "X-Forwarded-Host: api.example", "X-Forwarded-Proto: https", read[4]},
		"headers that agree":   append([]string{"X-Forwarded-Method: GET", "X-Forwarded-Uri: /v1/users?page=2"}, read...),
		"a page of the client": append([]string{"Origin: https://page.example", "Cookie: a=b"}, read...),
	} {
		a := g.asks(t, authz, headers...)
		a.is(t, name, 200, "")
		same(t, name, []string{a.header.Get("X-Attestd-Agent"), a.header.Get("X-Attestd-Company"), a.header.Get("X-Attestd-Spiffe-Id"), a.header.Get("X-Attestd-Decision"), a.header.Get("X-Attestd-Record")},
			[]any{"bot", "acme", botID, "allow", ""})
	}
	for call, status := range map[string]int{"GET /v1/authz/v1/users?page=2": 200, "DELETE /v1/authz/v1/users": 403} {
		a := g.asks(t, call, "Host: api.example", "X-Forwarded-Proto: https", read[4])
		a.is(t, call, status, map[int]string{403: "SCOPE_DENIED"}[status])
	}
	g.asks(t, authz, append(describes("DELETE", "/v1/users"), read[4])...).is(t, "another method", 403, "SCOPE_DENIED")
	g.asks(t, authz, describes("GET", "/v1/users")...).is(t, "no credential", 401, "CREDENTIAL_REQUIRED")

	acme.do(t, "PUT /v1/policies/users", policyBody(t, `permit (principal, action == Action::"http", resource)
when { resource.scheme == "https" && resource.host == "api.example" && resource.method == "GET" && resource.path like "/v1/users*" && context.door == "forward" };`)).status(200)
	acme.do(t, "PUT /v1/company/policy", `{"decisions":"all"}`).status(200)
	a := g.asks(t, authz, read...)
	a.is(t, "what a policy permits", 200, "")
	g.asks(t, authz, append(describes("GET", "/v1/users/../admin"), read[4])...).is(t, "what none permits", 403, "POLICY_DENIED")
	records := acme.authorizations(t)
	denied, allowed := records[len(records)-1], records[len(records)-2]
	if got := a.header.Get("X-Attestd-Record"); got != fmt.Sprint(len(records)-2) {
		t.Errorf("the record of what was allowed is %s", got)
	}
	same(t, "its payload", allowed.Payload, `{"door":"forward","action":"http","resource":{"type":"url","id":"https://api.example/v1/users"},"method":"GET"}`)
	same(t, "that of what was denied", denied.Payload, `{"door":"forward","action":"http","resource":{"type":"url","id":"https://api.example/v1/admin"},"method":"GET"}`)
	same(t, "its decision", denied.Decision, `{"by":[],"code":"POLICY_DENIED","context":{"door":"forward","scopes":["http:GET"],"time":"<time>"},"passport":"<anything>","policies":"<anything>","revision":1,"verdict":"deny"}`)
	acme.do(t, "POST /v1/policies/test", `{"remove":["users"]}`).has(`{"different":[{"index":"<anything>","was":"deny","becomes":"allow","by":[]}]}`)
	acme.do(t, "GET /v1/verify", "").has(`{"valid":true}`)
}

// Whatever a client puts into its request, and whatever a proxy forgets, lets nothing through.
func TestForwardAuthorizationRefuses(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme, other := s.company(t, "acme"), s.company(t, "umbrella")
	bot, dead := acme.signer(t, "bot", jose.ES256), acme.signer(t, "dead", jose.EdDSA).signsIn(t)
	otherBot := other.signer(t, "bot", jose.ES256).signsIn(t)
	good := "Service-Passport: " + acme.passport(t, "bot", `{"scopes":["http:GET"]}`)
	bearer := "Authorization: Bearer " + bot.signsIn(t).credential
	bound := acme.do(t, "POST /v1/agents/bot/passport", `{"scopes":["*"],"jkt":"`+bot.thumbprint()+`"}`).status(201).str("passport")
	boundToken := bot.signsIn(t, bot.proof(t, bot.key, "POST", "/v1/oauth/token", "")).credential
	proof := func(key *jose.PrivateKey, method, url, token string, at time.Time) string {
		made, err := dpop.Make(t.Context(), key, dpop.Request{Method: method, URL: url, AccessToken: token}, at)
		must.OK(t, err)
		return "DPoP: " + made
	}
	const url = "https://api.example/v1/users"
	now := time.Now()
	used := proof(bot.key, "GET", url, boundToken, now)
	usedPassport := proof(bot.key, "GET", url, bound, now)
	g := acme.gateway(t)
	get := describes("GET", "/v1/users?x=1")
	with := func(more ...string) []string { return append(append([]string{}, get...), more...) }
	g.asks(t, authz, with("Authorization: DPoP "+boundToken, used)...).is(t, "a bound token with its proof", 200, "")
	g.asks(t, authz, with("Service-Passport: "+bound, usedPassport)...).is(t, "a bound passport with its proof", 200, "")
	revoked := acme.passport(t, "bot", `{"scopes":["*"]}`)
	acme.do(t, "POST /v1/passports/"+jti(t, acme, revoked)+"/revoke", `{"reason":"lost"}`).status(200)
	deadPassport := acme.passport(t, "dead", `{"scopes":["*"]}`)
	acme.do(t, "POST /v1/agents/dead/disable", "").status(200)
	elsewhere := bot.signsIn(t).do(t, "GET /v1/agents/bot/svid?audience=https://elsewhere.example", "").status(200).str("svid")
	replaced := func(of []string, name, value string) []string {
		var changed []string
		for _, h := range of {
			if strings.HasPrefix(h, name+": ") {
				h = name + ": " + value
			}
			if h != name+": " {
				changed = append(changed, h)
			}
		}
		return changed
	}
	ungated := gateway{acme, ""}
	type attack struct {
		name    string
		by      gateway
		headers []string
		status  int
		code    string
	}
	const described, refused, required, gate = "FORWARDED_REQUEST", "CREDENTIAL_REFUSED", "CREDENTIAL_REQUIRED", "GATEWAY_CREDENTIAL"
	attacks := []attack{
		{"no credential of the proxy", ungated, with(good), 403, gate},
		{"the proxy's credential in the client's header", ungated, with(good, "Authorization: Bearer "+g.key), 403, gate},
		{"an unknown credential of the proxy", gateway{acme, "key_" + strings.Repeat("A", 43)}, with(good), 403, gate},
		{"two credentials of the proxy", g, with(good, "X-Attestd-Authorization: Bearer "+g.key), 403, gate},
		{"an agent's token as the proxy's credential", gateway{acme, strings.TrimPrefix(bearer, "Authorization: Bearer ")}, with(good), 403, gate},
		{"a proxy of another company", other.gateway(t), with(good), 401, "SIGNATURE_INVALID"},
		{"a proxy of another company, and a token", other.gateway(t), with(bearer), 401, refused},

		{"no method", g, replaced(with(good), "X-Original-Method", ""), 403, described},
		{"no URI", g, replaced(with(good), "X-Original-URI", ""), 403, described},
		{"no host", g, replaced(with(good), "X-Forwarded-Host", ""), 403, described},
		{"no scheme", g, replaced(with(good), "X-Forwarded-Proto", ""), 403, described},
		{"another method beside it", g, with(good, "X-Forwarded-Method: DELETE"), 403, described},
		{"another URI beside it", g, with(good, "X-Forwarded-Uri: /admin"), 403, described},
		{"a method twice", g, with(good, "X-Original-Method: GET"), 403, described},
		{"a host twice", g, with(good, "X-Forwarded-Host: api.example"), 403, described},
		{"hosts joined by a comma", g, replaced(with(good), "X-Forwarded-Host", "evil.example, api.example"), 403, described},
		{"schemes joined by a comma", g, replaced(with(good), "X-Forwarded-Proto", "https,http"), 403, described},
		{"another scheme", g, replaced(with(good), "X-Forwarded-Proto", "ftp"), 403, described},
		{"a method in lower case", g, replaced(with(good), "X-Original-Method", "get"), 403, described},
		{"an escaped slash", g, replaced(with(good), "X-Original-URI", "/v1%2Fadmin"), 403, described},
		{"an escaped NUL", g, replaced(with(good), "X-Original-URI", "/v1%00"), 403, described},
		{"a backslash", g, replaced(with(good), "X-Original-URI", `/v1\admin`), 403, described},
		{"an empty segment", g, replaced(with(good), "X-Original-URI", "//v1"), 403, described},
		{"escapes of escapes", g, replaced(with(good), "X-Original-URI", "/%252e%252e/admin"), 403, described},
		{"above the root", g, replaced(with(good), "X-Original-URI", "/v1/../../admin"), 403, described},
		{"dots with a parameter", g, replaced(with(good), "X-Original-URI", "/v1/..;/admin"), 403, described},
		{"an absolute URI", g, replaced(with(good), "X-Original-URI", "https://api.example/v1"), 403, described},
		{"a fragment", g, replaced(with(good), "X-Original-URI", "/v1#x"), 403, described},
		{"a long URI", g, replaced(with(good), "X-Original-URI", "/"+strings.Repeat("a", 20<<10)), 403, described},

		{"no credential of the client", g, get, 401, required},
		{"an empty passport", g, with("Service-Passport: "), 401, required},
		{"a credential by another scheme", g, with("Authorization: Basic Ym90OmJvdA=="), 401, required},
		{"a passport with an underscore in its header's name", g, with("Service_Passport: " + strings.TrimPrefix(good, "Service-Passport: ")), 401, required},
		{"two passports", g, with(good, good), 403, described},
		{"two tokens", g, with(bearer, bearer), 403, described},
		{"two proofs", g, with("Authorization: DPoP "+boundToken, used, used), 403, described},
		{"no passport", g, with("Service-Passport: x"), 401, "MALFORMED_TOKEN"},
		{"a passport with another signature", g, with(good[:len(good)-8] + "AAAAAAAA"), 401, "SIGNATURE_INVALID"},
		{"a passport of another company", g, with("Service-Passport: " + other.passport(t, "bot", `{"scopes":["*"]}`)), 401, "SIGNATURE_INVALID"},
		{"a revoked passport", g, with("Service-Passport: " + revoked), 401, "PASSPORT_REVOKED"},
		{"a passport of a disabled agent", g, with("Service-Passport: " + deadPassport), 401, "PASSPORT_REVOKED"},
		{"a passport without the scope", g, with("Service-Passport: " + acme.passport(t, "bot", `{"scopes":["tool:*"]}`)), 403, "SCOPE_DENIED"},
		{"a passport for tools with arguments", g, with("Service-Passport: " + acme.passport(t, "bot", `{"scopes":["*"],"authorizationDetails":[{"type":"tool_call","tools":["*"]}]}`)), 403, "DETAILS_DENIED"},
		{"a token of another company", g, with("Authorization: Bearer " + otherBot.credential), 401, refused},
		{"a token of a disabled agent", g, with("Authorization: Bearer " + dead.credential), 401, refused},
		{"an API key of the company", g, with("Authorization: Bearer " + acme.credential), 401, refused},
		{"an unknown token", g, with("Authorization: Bearer x"), 401, refused},
		{"a JWT of nobody", g, with("Authorization: Bearer e30.e30.e30"), 401, refused},
		{"an SVID for another service", g, with("Authorization: Bearer " + elsewhere), 401, refused},
		{"the passport as a token", g, with("Authorization: Bearer " + strings.TrimPrefix(good, "Service-Passport: ")), 401, refused},

		{"a bound token as bearer", g, with("Authorization: Bearer " + boundToken), 401, refused},
		{"a bound token without a proof", g, with("Authorization: DPoP " + boundToken), 401, refused},
		{"an unbound token by DPoP", g, with(strings.Replace(bearer, "Bearer", "DPoP", 1), used), 401, refused},
		{"a proof of another URI", g, with("Authorization: DPoP "+boundToken, proof(bot.key, "GET", "https://api.example/v1/other", boundToken, now)), 401, refused},
		{"a proof of another host", g, with("Authorization: DPoP "+boundToken, proof(bot.key, "GET", "https://evil.example/v1/users", boundToken, now)), 401, refused},
		{"a proof of another scheme", g, with("Authorization: DPoP "+boundToken, proof(bot.key, "GET", "http://api.example/v1/users", boundToken, now)), 401, refused},
		{"a proof of this server", g, with("Authorization: DPoP "+boundToken, proof(bot.key, "GET", s.url+"/v1/authz", boundToken, now)), 401, refused},
		{"a proof of another method", g, with("Authorization: DPoP "+boundToken, proof(bot.key, "POST", url, boundToken, now)), 401, refused},
		{"a proof of another token", g, with("Authorization: DPoP "+boundToken, proof(bot.key, "GET", url, "x", now)), 401, refused},
		{"a proof of another key", g, with("Authorization: DPoP "+boundToken, proof(dead.key, "GET", url, boundToken, now)), 401, refused},
		{"an old proof", g, with("Authorization: DPoP "+boundToken, proof(bot.key, "GET", url, boundToken, now.Add(-time.Hour))), 401, refused},
		{"a proof that was used", g, with("Authorization: DPoP "+boundToken, used), 401, refused},
		{"a bound passport without a proof", g, with("Service-Passport: " + bound), 401, "NOT_PROVEN"},
		{"a bound passport with the proof that was used", g, with("Service-Passport: "+bound, usedPassport), 401, "NOT_PROVEN"},
		{"a bound passport with a proof of another method", g, with("Service-Passport: "+bound, proof(bot.key, "POST", url, bound, now)), 401, "NOT_PROVEN"},
		{"an unbound passport with a proof", g, with(good, proof(bot.key, "GET", url, strings.TrimPrefix(good, "Service-Passport: "), now)), 401, "NOT_PROVEN"},
	}
	for _, a := range attacks {
		a.by.asks(t, authz, a.headers...).is(t, a.name, a.status, a.code)
	}
	for _, a := range []attack{
		{"/v1/authz/v1%2Fadmin", g, nil, 403, described},
		{"/v1/authz//v1/admin", g, nil, 403, described},
		{"/v1/authz/../admin", g, nil, 403, described},
		{"/v1/authz/v1/users", g, []string{"X-Forwarded-Uri: /public"}, 403, described},
		{"/v1/authz/v1/users", g, []string{"X-Forwarded-Host: evil.example"}, 403, described},
		{"/v1/authz/v1/users", g, []string{"X-Original-Method: HEAD"}, 403, described},
		{"/v1/authz/v1/users", ungated, nil, 403, gate},
	} {
		headers := append([]string{"Host: api.example", "X-Forwarded-Proto: https", good}, a.headers...)
		a.by.asks(t, "GET "+a.name, headers...).is(t, "of Envoy: "+a.name+fmt.Sprint(a.headers), a.status, a.code)
	}
	// what the proxy is told never has a header that the client has sent
	a := g.asks(t, authz, with("X-Attestd-Agent: admin", "X-Attestd-Spiffe-Id: spiffe://attestd.local/company/acme/agent/admin")...)
	a.is(t, "identity headers from outside", 401, required)

	acme.do(t, "GET /v1/verify", "").has(`{"valid":true}`)
}

// While nothing can be decided, the answer is a 403 that says so, for every other one makes a proxy
// fail or forward.
func TestForwardAuthorizationFailsClosed(t *testing.T) {
	t.Parallel()
	s := start(t, func(cfg *server.Config) { cfg.Limits = limit.Limits{Log: 2, Company: 10} })
	acme := s.company(t, "acme")
	acme.agent(t, "bot")
	g := acme.gateway(t)
	headers := append(describes("GET", "/"), "Service-Passport: "+acme.passport(t, "bot", `{"scopes":["*"]}`))
	g.asks(t, authz, headers...).is(t, "before", 200, "")
	acme.suspend(t)
	g.asks(t, authz, headers...).is(t, "suspended", 403, "COMPANY_SUSPENDED")
	a := g.asks(t, authz, headers...)
	a.is(t, "too many requests", 403, "RATE_LIMITED")
	if a.header.Get("Retry-After") == "" {
		t.Error("nothing says when to ask again")
	}
}
