package server_test

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"attestd/crypto/assertion"
	"attestd/crypto/dpop"
	"attestd/crypto/jose"
	"attestd/internal/must"
	"attestd/internal/testenv"
)

// callersOfRoutes says who may call each route. Every other caller is refused. The kinds of
// callers, and their names, are those of httpapi/callers.go:
//
//	anonymous  a caller without a credential; if it is the only kind, no credential is read
//	reader, writer, admin   an API key of the role, or an OAuth client's token that allows it
//	client     an OAuth client of any role, by its secret, its assertion or a token
//	agent      an agent for itself: by a key of its own, a federation or a client certificate
//	forPerson  an agent for a person
//	enrolling  by an enrolment token
//	person     a person who has signed in, by the cookie of the session; has a role too
//
// The token endpoints have a row for each grant.
const callersOfRoutes = `
POST   /v1/companies                                   anonymous
POST   /v1/setup                                       anonymous
GET    /v1/company                                     reader writer admin
POST   /v1/companies/svid                              admin
POST   /v1/companies/rotate-keys                       admin
POST   /v1/recover-key                                 anonymous
POST   /v1/agents/register                             admin
GET    /v1/agents                                      reader writer admin
GET    /v1/agents/{agentId}                            reader writer admin
POST   /v1/agents/{agentId}/disable                    admin
POST   /v1/agents/{agentId}/enable                     admin
POST   /v1/agents/{agentId}/keys                       admin agent enrolling
GET    /v1/agents/{agentId}/keys                       reader writer admin agent forPerson
DELETE /v1/agents/{agentId}/keys/{thumbprint}          admin agent
POST   /v1/agents/{agentId}/enrolments                 admin
GET    /v1/enrolment                                   enrolling
PUT    /v1/agents/{agentId}/policy                     admin
PUT    /v1/company/policy                              admin
POST   /v1/agents/{agentId}/token                      admin agent
GET    /v1/agents/{agentId}/svid                       admin agent
POST   /v1/keys                                        admin
GET    /v1/keys                                        admin
DELETE /v1/keys/{key}                                  admin
POST   /v1/oauth/clients                               admin
GET    /v1/oauth/clients                               admin
DELETE /v1/oauth/clients/{clientId}                    admin
POST   /v1/federation                                  admin
GET    /v1/federation                                  admin
GET    /v1/federation/{name}                           admin
DELETE /v1/federation/{name}                           admin
GET    /v1/policies                                    reader writer admin
POST   /v1/policies/test                               reader writer admin
GET    /v1/policies/{policyId}                         reader writer admin
PUT    /v1/policies/{policyId}                         admin
DELETE /v1/policies/{policyId}                         admin
POST   /v1/approvals                                   writer admin agent forPerson
GET    /v1/approvals                                   reader writer admin
GET    /v1/approvals/{approvalId}                      reader writer admin agent forPerson
DELETE /v1/approvals/{approvalId}                      writer admin agent forPerson
POST   /v1/approvals/{approvalId}/options              person
POST   /v1/approvals/{approvalId}/decision             person
POST   /access/v1/evaluation                           reader writer admin agent forPerson
POST   /access/v1/evaluations                          reader writer admin agent forPerson
POST   /v1/people                                      admin
GET    /v1/people                                      admin
GET    /v1/people/{personId}                           admin
PATCH  /v1/people/{personId}                           admin
DELETE /v1/people/{personId}                           admin
POST   /v1/people/{personId}/invitations               admin
DELETE /v1/people/{personId}/passkeys/{credentialId}   admin
POST   /v1/people/enrol/options                        anonymous
POST   /v1/people/enrol                                anonymous
POST   /v1/people/sign-in/options                      anonymous
POST   /v1/people/sign-in                              anonymous
GET    /v1/people/me                                   person
POST   /v1/people/me/passkeys/options                  person
POST   /v1/people/me/passkeys                          person
DELETE /v1/people/me/passkeys/{credentialId}           person
POST   /v1/people/me/reauthenticate/options            person
POST   /v1/people/me/reauthenticate                    person
GET    /v1/people/me/sessions                          person
DELETE /v1/people/me/sessions                          person
DELETE /v1/people/me/sessions/{sessionId}              person
GET    /v1/credentials                                 admin
POST   /v1/oauth/token          client_credentials     client agent
POST   /v1/oauth/token          token-exchange         admin agent forPerson
POST   /v1/oauth/token          jwt-bearer             anonymous
POST   /o/{companyId}/token     client_credentials     client agent
POST   /o/{companyId}/token     token-exchange         admin agent forPerson
POST   /o/{companyId}/token     jwt-bearer             anonymous
POST   /o/{companyId}/introspect                       client admin agent forPerson
POST   /o/{companyId}/revoke                           client admin agent forPerson
POST   /v1/attest                                      writer admin agent forPerson
POST   /v1/attest/batch                                writer admin agent forPerson
POST   /v1/hooks/claude-code                           writer admin agent forPerson
POST   /v1/otlp/v1/traces                              writer admin agent forPerson
POST   /v1/otlp/v1/logs                                writer admin agent forPerson
GET    /v1/sessions                                    reader writer admin
GET    /v1/sessions/{agentId}/{sid}                    reader writer admin
GET    /v1/sessions/{agentId}/{sid}/records            reader writer admin
GET    /v1/chain                                       reader writer admin
GET    /v1/records                                     reader writer admin
GET    /v1/records/histogram                           reader writer admin
GET    /v1/verify                                      reader writer admin
GET    /v1/proof/{index}                               reader writer admin
GET    /v1/authority/{index}                           reader writer admin
GET    /v1/evidence/{index}                            reader writer admin
GET    /v1/report                                      reader writer admin
GET    /v1/consistency                                 reader writer admin
GET    /v1/logs                                        reader writer admin
GET    /v1/log/{logId}/checkpoint                      reader writer admin
GET    /v1/log/{logId}/tile/{path}                     reader writer admin
GET    /v1/log/{logId}/proof/{index}                   reader writer admin
GET    /v1/log/{logId}/consistency                     reader writer admin
POST   /v1/witness/add-checkpoint                      anonymous
GET    /v1/witness                                     anonymous
GET    /v1/witness/{originHash}/checkpoint             anonymous
POST   /v1/webhooks                                    admin
GET    /v1/webhooks                                    admin
GET    /v1/webhooks/{webhookId}                        admin
DELETE /v1/webhooks/{webhookId}                        admin
POST   /v1/webhooks/{webhookId}/enable                 admin
POST   /v1/webhooks/{webhookId}/disable                admin
POST   /v1/webhooks/{webhookId}/rotate-secret          admin
POST   /v1/webhooks/{webhookId}/test                   admin
POST   /v1/token-exchange                              admin
POST   /v1/token/exchange                              admin
POST   /v1/agents/{agentId}/passport                   admin
POST   /v1/agents/{agentId}/passport/rotate            admin agent
POST   /v1/passport/verify                             writer admin agent forPerson
GET    /v1/passports                                   reader writer admin
POST   /v1/passports/{jti}/revoke                      admin
POST   /v1/passports//revoke                           admin
GET    /v1/passports/revoked                           reader writer admin
GET    /v1/ocsp/{jti}                                  reader writer admin
GET    /v1/ca/public-key                               anonymous
GET    /v1/ca/public-keys                              anonymous
GET    /v1/ca/well-known                               anonymous
GET    /.well-known/oauth-authorization-server/o/{companyId}  anonymous
GET    /.well-known/oauth-protected-resource           anonymous
GET    /.well-known/oauth-protected-resource/o/{companyId}    anonymous
GET    /.well-known/authzen-configuration              anonymous
GET    /.well-known/authzen-configuration/o/{companyId}       anonymous
GET    /.well-known/openid-configuration/o/{companyId} anonymous
GET    /o/{companyId}/.well-known/openid-configuration anonymous
GET    /o/{companyId}/authorize                        anonymous
GET    /o/{companyId}/jwks                             anonymous
GET    /o/{companyId}/spiffe-bundle                    anonymous
GET    /v1/openapi.json                                anonymous
GET    /v1/health                                      anonymous
GET    /readyz                                         anonymous
GET    /v1/ws                                          anonymous reader writer admin
GET    /v1/nothing                                     anonymous
`

// undocumented are the routes of the table that the reference does not have.
var undocumented = []string{"POST /v1/passports//revoke", "GET /o/{companyId}/authorize", "GET /v1/nothing"}

// place is where a credential may be in a request.
type place struct {
	name string
	way  string               // the way by which a credential counts here; "" for none
	read func(l callers) bool // whether the route reads the place
	// whether a request shows something that no other of the row shows
	tells func(l callers, c held) bool
	put   func(c held, r *asked)
}

func everywhere(callers) bool     { return true }
func nowhere(callers) bool        { return false }
func atTheStream(l callers) bool  { return l.path == "/v1/ws" }
func atOAuth(l callers) bool      { return l.grant != "jwt-bearer" && (l.grant != "" || l.isAboutTokens()) }
func (l callers) isOfOAuth() bool { return l.grant != "" || l.isAboutTokens() }
func (l callers) isAboutTokens() bool {
	return l.path == "/o/{companyId}/introspect" || l.path == "/o/{companyId}/revoke"
}

func notAtTheStream(l callers) bool { return !atTheStream(l) }

func ifSession(_ callers, c held) bool { return c.way == "session" }
func always(callers, held) bool        { return true }
func ifGood(_ callers, c held) bool    { return c.way != "" }
func ifBound(_ callers, c held) bool   { return c.way == "dpop" }
func ifOfOAuth(l callers, _ held) bool { return l.isOfOAuth() }
func ifStream(l callers, _ held) bool  { return atTheStream(l) }
func (c held) authorization(scheme string, r *asked) (token string) {
	token = c.text(r)
	r.set("Authorization", scheme+" "+token)
	return token
}

var places = []place{
	{"Authorization: Bearer", "bearer", everywhere, always, func(c held, r *asked) { c.authorization("Bearer", r) }},
	{"Authorization: bearer, with a proof", "bearer", everywhere, ifGood, func(c held, r *asked) { r.set("DPoP", r.proof(c, c.authorization("bearer  ", r))) }},
	{"Authorization: DPoP, with a proof", "dpop", everywhere, always, func(c held, r *asked) { r.set("DPoP", r.proof(c, c.authorization("DPoP", r))) }},
	{"Authorization: DPoP, without a proof", "never", everywhere, ifGood, func(c held, r *asked) { c.authorization("DPoP", r) }},
	{"Authorization: DPoP, with a proof of another key", "never", everywhere, ifBound, func(c held, r *asked) {
		c.key = nil
		r.set("DPoP", r.proof(c, c.authorization("DPoP", r)))
	}},
	{"Authorization: Basic", "secret", atOAuth, always, func(c held, r *asked) { r.request.SetBasicAuth(c.client, c.text(r)) }},
	{"Authorization: Basic, as the user", "never", atOAuth, ifOfOAuth, func(c held, r *asked) { r.request.SetBasicAuth(c.text(r), "") }},
	{"client_secret in the body", "secret", atOAuth, ifOfOAuth, func(c held, r *asked) { r.form("client_id", c.client, "client_secret", c.text(r)) }},
	{"client_assertion in the body", "assertion", atOAuth, ifOfOAuth, func(c held, r *asked) { r.form("client_assertion_type", assertion.Type, "client_assertion", c.text(r)) }},
	{"subprotocol", "bearer", atTheStream, ifStream, func(c held, r *asked) { r.set("Sec-WebSocket-Protocol", "attestd.bearer, "+c.text(r)) }},
	{"subprotocol, with a proof", "dpop", atTheStream, ifStream, func(c held, r *asked) {
		text := c.text(r)
		r.set("Sec-WebSocket-Protocol", "attestd.bearer, "+text+", attestd.dpop, "+r.proof(c, text))
	}},
	{"cookie", "session", everywhere, ifSession, func(c held, r *asked) {
		r.set("Cookie", "__Host-attestd-session="+c.text(r))
		r.set("X-Attestd-Console", "1")
		r.set("Origin", strings.TrimSuffix(r.url, r.request.URL.EscapedPath()))
	}},
	{"cookie, without the header", "never", notAtTheStream, ifSession, func(c held, r *asked) {
		r.set("Cookie", "__Host-attestd-session="+c.text(r))
	}},
	{"everywhere else", "", nowhere, always, func(c held, r *asked) {
		text := c.text(r)
		r.set("Authorization", "Token "+text)
		for _, name := range []string{"X-Api-Key", "Proxy-Authorization", "Cookie", "X-Forwarded-Authorization", "Service-Passport"} {
			r.set(name, "Bearer "+text)
		}
		r.form("access_token", text, "token_type", "Bearer")
		if !r.isOfOAuth() { // which would refuse the query first
			r.query("access_token", text)
			r.form("client_id", c.client, "client_secret", text, "client_assertion_type", assertion.Type, "client_assertion", text)
		}
		if !atTheStream(r.callers) {
			proof := "x.y.z"
			if c.way == "dpop" {
				proof = r.proof(c, text)
			}
			r.set("Sec-WebSocket-Protocol", "attestd.bearer, "+text+", attestd.dpop, "+proof)
		}
	}},
	{"client certificate", "certificate", everywhere, always, func(c held, r *asked) { r.request.TLS.PeerCertificates = c.chain }},
}

// callers is a row of callersOfRoutes.
type callers struct {
	method, path, grant string
	may                 []string
}

func parseCallers(t *testing.T) (rows []callers) {
	t.Helper()
	for line := range strings.Lines(strings.TrimSpace(callersOfRoutes)) {
		f := strings.Fields(line)
		row := callers{method: f[0], path: f[1], may: f[2:]}
		if strings.HasSuffix(row.path, "/token") && !strings.Contains(row.path, "{agentId}") {
			row.grant, row.may = f[2], f[3:]
		}
		rows = append(rows, row)
	}
	return rows
}

// outcome is how a request must be answered.
type outcome string

const (
	passes    outcome = "passes"
	refused   outcome = "401" // the credential counts for nothing, or is missing
	forbidden outcome = "403"
)

// expected says how a credential at a place must be answered.
func (l callers) expected(c held, p place) outcome {
	may := func(kind string) bool { return slices.Contains(l.may, kind) }
	is := c.is
	switch {
	case slices.Equal(l.may, []string{"anonymous"}):
		return passes
	case !p.read(l):
		is = "anonymous"
	case p.way != c.way || c.is == "":
		return refused
	case c.foreign && strings.HasPrefix(l.path, "/o/"): // which names the company
		return refused
	}
	switch {
	case l.grant == "client_credentials" && (p.way != "secret" && p.way != "assertion" || !p.read(l)):
		return refused // a client shows who it is in no other way
	case slices.ContainsFunc(strings.Fields(is), may):
		if c.disabled && is != "anonymous" {
			return forbidden
		}
		return passes
	case is == "anonymous":
		return refused
	}
	return forbidden
}

// asked is a request of the matrix.
type asked struct {
	callers
	t            testing.TB
	request      *http.Request
	url          string // without the query
	members      url.Values
	strangersKey *jose.PrivateKey
}

func (r *asked) set(name, value string) { r.request.Header.Set(name, value) }

func (r *asked) form(pairs ...string) {
	for i := 0; i < len(pairs); i += 2 {
		r.members.Set(pairs[i], pairs[i+1])
	}
}

func (r *asked) query(name, value string) {
	q := r.request.URL.Query()
	q.Set(name, value)
	r.request.URL.RawQuery = q.Encode()
}

func (r *asked) proof(c held, token string) string {
	key := c.key
	if key == nil {
		key = r.strangersKey
	}
	proof, err := dpop.Make(r.t.Context(), key, dpop.Request{Method: r.request.Method, URL: r.url, AccessToken: token}, time.Now())
	must.OK(r.t, err)
	return proof
}

// bodies are those of requests whose success would remove what the other rows need, and for which
// an empty object would succeed: they are refused when they are read.
var bodies = map[string]string{"/v1/companies/rotate-keys": "x", "/v1/agents/{agentId}/disable": "x", "/v1/people/me/sessions": "x"}

// ask makes the request of a row with a credential at a place.
func (m *matrix) ask(t testing.TB, l callers, c held, p place) *http.Request {
	t.Helper()
	path := regexp.MustCompile(`\{\w+\}`).ReplaceAllStringFunc(l.path, func(name string) string {
		if value, ok := m.names[strings.Trim(name, "{}")]; ok {
			return value
		}
		return "none"
	})
	r := &asked{callers: l, t: t, request: httptest.NewRequest(l.method, path, nil), url: m.url + path, members: url.Values{}, strangersKey: m.strangersKey}
	r.request.Host, r.request.TLS, r.request.RemoteAddr = strings.TrimPrefix(m.url, "https://"), &tls.ConnectionState{}, "127.0.0.1:9"
	if l.path == "/v1/ws" {
		for _, h := range handshake {
			name, value, _ := strings.Cut(h, ": ")
			r.set(name, value)
		}
	}
	body, kind := bodies[l.path], "application/json"
	switch {
	case l.isAboutTokens():
		r.form("token", "x")
	case l.grant == "jwt-bearer":
		r.form("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion", "x.y.z")
	case l.grant == "token-exchange":
		r.form("grant_type", grant, "subject_token", c.subject, "subject_token_type", typeOf(c.subject))
		if c.actor != "" {
			r.form("actor_token", c.actor, "actor_token_type", typeOf(c.actor))
		}
	case l.grant != "":
		r.form("grant_type", l.grant)
	}
	p.put(c, r)
	switch {
	case l.isOfOAuth():
		body, kind = r.members.Encode(), "application/x-www-form-urlencoded"
	case l.method != "GET" && body == "":
		members := map[string]any{}
		for name := range r.members {
			members[name] = r.members.Get(name)
		}
		text, err := json.Marshal(members)
		must.OK(t, err)
		body = string(text)
	}
	if l.method != "GET" {
		r.set("Content-Type", kind)
		r.request.Body, r.request.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	}
	return r.request
}

// send sends a request past the network, or over it where it may become a WebSocket.
func (m *matrix) send(t testing.TB, request *http.Request) (status int, text []byte) {
	t.Helper()
	if request.URL.Path == "/v1/ws" && len(request.TLS.PeerCertificates) == 0 {
		over := request.Clone(t.Context())
		target, err := url.Parse(m.url)
		must.OK(t, err)
		over.URL.Scheme, over.URL.Host, over.RequestURI, over.TLS = "https", target.Host, "", nil
		answer, err := m.client.Do(over)
		must.OK(t, err)
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusSwitchingProtocols {
			text, err = io.ReadAll(answer.Body)
			must.OK(t, err)
		}
		return answer.StatusCode, text
	}
	answer := httptest.NewRecorder()
	m.served.ServeHTTP(answer, request)
	return answer.Code, answer.Body.Bytes()
}

// isAnswer reports whether an answer is the one that was expected.
func (l callers) isAnswer(want outcome, status int, text []byte) bool {
	has := func(code string) bool { return bytes.Contains(text, []byte(code)) }
	authorized := status != 401 && (status != 403 || !has("FORBIDDEN_ROLE") && !has("FORBIDDEN_AGENT") && !has("AGENT_DISABLED"))
	switch {
	case l.path == "/v1/ws" && want == passes:
		return status == 101
	case l.grant == "jwt-bearer":
		return status == 400 && has("invalid_grant")
	case want == passes && l.isOfOAuth():
		return status == 200
	case want == passes:
		return authorized && status < 500
	case l.grant == "token-exchange" && want == forbidden:
		return status == 400 && has("unauthorized_client")
	case l.grant != "" || l.isAboutTokens() && want == refused:
		// what shows in two ways who calls, or in none, is no request of OAuth
		return status == 401 || status == 400 && (has("invalid_request") || has("unauthorized_client"))
	case want == refused:
		return status == 401
	}
	return status == 403 && (has("FORBIDDEN_ROLE") || has("FORBIDDEN_AGENT") || has("AGENT_DISABLED") || has("PERSON_REQUIRED"))
}

// Every route, including the public ones and the stream, is requested with every kind of credential
// at every place where one might be. Callers of the kinds in the table above pass; all others are
// refused and change nothing. A route without a row fails the test. So does a kind of caller, or a
// table of the database with hashes of credentials, for which the test has no credential.
func TestEveryRouteWithEveryCredential(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	rows := parseCallers(t)
	everyRouteHasARow(t, rows)
	m := newMatrix(t)
	everyKindIsHeld(t, m.held)
	type cell struct {
		callers
		held
		place
		want outcome
	}
	cells := map[bool][]cell{} // by whether they pass
	for _, l := range rows {
		for _, c := range m.held {
			for _, p := range places {
				if (c.way == "certificate") != (p.way == "certificate") || !p.tells(l, c) {
					continue
				}
				want := l.expected(c, p)
				cells[want == passes] = append(cells[want == passes], cell{l, c, p, want})
			}
		}
	}
	run := func(all []cell) {
		var workers sync.WaitGroup
		next := make(chan cell)
		for range 4 {
			workers.Go(func() {
				for one := range next {
					status, text := m.send(t, m.ask(t, one.callers, one.held, one.place))
					if !one.isAnswer(one.want, status, text) {
						t.Errorf("%s %s %s with %s, %s: %d %s, want %s", one.method, one.path, one.grant, one.held.name, one.place.name, status, short(text), one.want)
					}
				}
			})
		}
		for _, one := range all {
			next <- one
		}
		close(next)
		workers.Wait()
	}
	before := m.digest(t)
	run(cells[false])
	after := m.digest(t)
	for _, digest := range []map[string]string{before, after} {
		delete(digest, "used_proof") // a proof counts once, also where the caller is refused
	}
	compareDigests(t, "caller who is refused", before, after)
	run(cells[true])
	t.Logf("%d routes, %d credentials, %d places: %d requests were to be refused, %d to pass", len(rows), len(m.held), len(places), len(cells[false]), len(cells[true]))
	if len(m.held) < 45 || len(cells[false]) < 10_000 || len(cells[true]) < 5000 {
		t.Error("the matrix has holes")
	}
}

func everyRouteHasARow(t *testing.T, rows []callers) {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromFile("../web/openapi.yaml")
	must.OK(t, err)
	served, inTable := map[string]bool{}, map[string]bool{}
	for path, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			served[method+" "+path] = true
		}
	}
	for _, call := range undocumented {
		served[call] = true
	}
	for _, l := range rows {
		inTable[l.method+" "+l.path] = true
	}
	if !maps.Equal(served, inTable) {
		for call := range served {
			if !inTable[call] {
				t.Errorf("%s has no row that says who may call it", call)
			}
		}
		for call := range inTable {
			if !served[call] {
				t.Errorf("%s has a row and is not served", call)
			}
		}
	}
}

// everyKindIsHeld compares the credentials with the kinds of callers that the server knows, and
// with the tables that have the hash of a credential.
func everyKindIsHeld(t *testing.T, all []held) {
	t.Helper()
	source, err := os.ReadFile("httpapi/callers.go")
	must.OK(t, err)
	list, _, _ := strings.Cut(string(source[bytes.Index(source, []byte("const (")):]), "\n)")
	kinds := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\t(?:Is)?(\w+)(?: +Kinds = 1 << iota)?(?: +//.*)?$`).FindAllStringSubmatch(list, -1) {
		kinds[strings.ToLower(m[1][:1])+m[1][1:]] = true
	}
	schema, err := os.ReadFile("../schema.sql")
	must.OK(t, err)
	tables := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?s)CREATE TABLE (\w+) \((.*?)\n\)`).FindAllStringSubmatch(string(schema), -1) {
		if regexp.MustCompile(`(?m)^\s+(secret_)?hash +BLOB (NOT NULL UNIQUE|PRIMARY KEY|NOT NULL CHECK)`).MatchString(m[2]) && !slices.Contains([]string{"record", "node", "invitation"}, m[1]) {
			tables[m[1]] = true
		}
	}
	heldKinds, heldTables := map[string]bool{"anonymous": true}, map[string]bool{}
	for _, c := range all {
		for _, kind := range strings.Fields(c.is) {
			heldKinds[kind] = true
		}
		if c.is != "" && c.table != "" {
			heldTables[c.table] = true
		}
	}
	if !maps.Equal(kinds, heldKinds) || len(kinds) != 9 {
		t.Errorf("the server knows callers of the kinds %v, and the credentials here are of %v", slices.Sorted(maps.Keys(kinds)), slices.Sorted(maps.Keys(heldKinds)))
	}
	if !maps.Equal(tables, heldTables) {
		t.Errorf("credentials stand in the tables %v, and those here in %v", slices.Sorted(maps.Keys(tables)), slices.Sorted(maps.Keys(heldTables)))
	}
}
