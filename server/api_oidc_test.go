package server_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	josev4 "github.com/go-jose/go-jose/v4"
	josejwt "github.com/go-jose/go-jose/v4/jwt"

	"attestd/crypto/passkey"
	"attestd/crypto/passkey/passkeytest"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/server"
)

// The first sign-in with an account makes the person whom the rule names, and each one signs that
// person in. Roles and groups follow, with a control record where they change alone.
func TestAccountSignsIn(t *testing.T) {
	t.Parallel()
	p := newAccounts(t)
	s := start(t, p.of(t, acmeRules))
	acme := s.company(t, "acme")
	b := s.browser(t, passkey.ES256)
	b.asks(t, "GET /v1/people/sign-in", "").gets(200, `{"passkey":true,"oidc":true}`)
	p.says(map[string]any{"name": "Alice Smith", "email": "alice@acme.example", "email_verified": true})
	went := b.signsInAt(t, p).status(303)
	if to := went.header.Get("Location"); to != b.origin+"/#/join/signed-in" {
		t.Errorf("back to %s", to)
	}
	for _, c := range (&http.Response{Header: went.header}).Cookies() {
		if !strings.HasPrefix(c.Name, "__Host-attestd-") || !c.HttpOnly || !c.Secure || c.Path != "/" || c.Domain != "" || c.SameSite != http.SameSiteLaxMode {
			t.Errorf("the cookie %s", c)
		}
	}
	if b.account != "" {
		t.Error("the cookie of the way there stays")
	}
	me := b.asks(t, "GET /v1/people/me", "").status(200)
	if me.str("personId") != "alice" || me.str("name") != "Alice Smith" || me.str("email") != "alice@acme.example" || me.str("session", "signedIn") != "oidc" || me.str("subjects", 0, "issuer") != p.URL {
		t.Errorf("%s", me.raw)
	}
	records := func() []any {
		return acme.do(t, "GET /v1/records?log=control&limit=1000", "").status(200).at("records").([]any)
	}
	before := len(records())
	b.signsInAt(t, p).status(303)
	if got := records(); len(got) != before+1 {
		t.Errorf("a second sign-in has made %d records", len(got)-before)
	}
	newest := acme.do(t, "GET /v1/records?log=control&order=newest&limit=1", "").status(200)
	for _, want := range []string{`"actionType":"person.signed-in"`, `"by":"person:alice"`, `"signedIn":"oidc"`, `"passkey":null`, `"account":{"issuer":"` + p.URL + `","sub":"248289761001"}`} {
		if !strings.Contains(string(newest.raw), want) {
			t.Errorf("the record lacks %s: %s", want, newest.raw)
		}
	}
	// what an admin changes is what the rule says again, from the next sign-in on
	acme.do(t, "PATCH /v1/people/alice", `{"groups":["legal"]}`).status(200)
	b.signsInAt(t, p).status(303)
	changed := acme.do(t, "GET /v1/people/alice", "").status(200)
	if changed.str("groups", 0) != "finance" {
		t.Errorf("%s", changed.raw)
	}
	acme.do(t, "PATCH /v1/people/alice", `{"disabled":true}`).status(200)
	b.asks(t, "GET /v1/people/me", "").status(401)
	b.cookie = ""
	b.signsInAt(t, p).gets(403, `{"error":"…","code":"PERSON_DISABLED"}`)
	if b.cookie != "" {
		t.Error("a session has begun")
	}
	acme.do(t, "GET /v1/verify?log=control", "").status(200).contains(`"valid":true`)
}

// Rights need a passkey: the first one is enrolled within five minutes of the sign-in, and never
// again without an assertion or an invitation.
func TestAccountEnrolsTheFirstPasskey(t *testing.T) {
	t.Parallel()
	p := newAccounts(t)
	s := start(t, p.of(t, acmeRules))
	acme := s.company(t, "acme")
	b := s.browser(t, passkey.ES256)
	b.signsInAt(t, p).status(303)
	b.asks(t, "POST /v1/agents/register", `{"agentId":"bot"}`).gets(403, `{"error":"…","code":"REAUTHENTICATE"}`)
	b.asks(t, "GET /v1/keys", "").gets(403, `{"error":"…","code":"REAUTHENTICATE"}`)
	b.asks(t, "POST /v1/people/alice/invitations", "").gets(403, `{"error":"…","code":"REAUTHENTICATE"}`)
	enrol := func() *reply {
		return b.asks(t, "POST /v1/people/me/passkeys", body(t, "credential", b.creates(t, b.asks(t, "POST /v1/people/me/passkeys/options", ""))))
	}
	enrol().status(201)
	records := acme.do(t, "GET /v1/records?log=control&order=newest&limit=1", "").status(200)
	for _, want := range []string{`"actionType":"passkey.enrolled"`, `"by":"person:alice"`, `"signedIn":"oidc"`, `"formerPasskey":null`, `"invitation":null`} {
		if !strings.Contains(string(records.raw), want) {
			t.Errorf("the record lacks %s: %s", want, records.raw)
		}
	}
	first := b.Authenticator
	b.Authenticator = passkeytest.New(t, passkey.EdDSA)
	enrol().gets(403, `{"error":"…","code":"REAUTHENTICATE"}`)
	b.Authenticator = first
	b.reauthenticates(t).status(200)
	b.asks(t, "POST /v1/agents/register", `{"agentId":"bot"}`).status(201)
	// a passkey that was revoked is no reason for another one
	acme.person(t, "root", "admin")
	acme.do(t, "DELETE /v1/people/alice/passkeys/"+first.ID(), "").status(200)
	b.signsInAt(t, p).status(303)
	b.Authenticator = passkeytest.New(t, passkey.EdDSA)
	enrol().gets(403, `{"error":"…","code":"REAUTHENTICATE"}`)
	// and not later than five minutes after the sign-in
	s.ageAccount(t, p, b, 6*time.Minute)
	enrol().gets(403, `{"error":"…","code":"REAUTHENTICATE"}`)
	s.ageAccount(t, p, b, 4*time.Minute)
	enrol().status(201)
	acme.do(t, "GET /v1/verify?log=control", "").status(200).contains(`"valid":true`)
}

// What comes back from somewhere else, or to somewhere else, signs nobody in, and leaves nothing.
func TestAccountIsRefused(t *testing.T) {
	t.Parallel()
	p := newAccounts(t)
	s := start(t, p.of(t, acmeRules))
	acme := s.company(t, "acme")
	s.company(t, "zoo")
	b := s.browser(t, passkey.ES256)
	refused := func(what, code string, r *reply) {
		t.Helper()
		if r.code < 400 || r.str("code") != code || b.cookie != "" || r.header.Get("Location") != "" || strings.Contains(string(r.raw), "PRIVATE") {
			t.Errorf("%s: %d %s", what, r.code, r.raw)
		}
	}
	unsigned := func(header string) func(map[string]any) string {
		return func(all map[string]any) string {
			_, rest, _ := strings.Cut(p.signed(all), ".")
			claims, signature, _ := strings.Cut(rest, ".")
			if strings.Contains(header, "bm9uZ") { // none
				signature = ""
			}
			return header + "." + claims + "." + signature
		}
	}
	now := time.Now().Unix()
	for what, claims := range map[string]map[string]any{
		"another nonce":                        {"nonce": "n-0S6_WzA2Mj"},
		"no nonce":                             {"nonce": nil},
		"another client":                       {"aud": "another"},
		"several clients and no azp":           {"aud": []string{idpClient, "another"}},
		"another authorized party":             {"azp": "another"},
		"several clients, authorized is other": {"aud": []string{idpClient, "another"}, "azp": "another"},
		"another issuer":                       {"iss": "https://idp.evil.example"},
		"ended":                                {"exp": now - 1},
		"without an end":                       {"exp": nil},
		"of tomorrow":                          {"iat": now + 600},
		"not yet valid":                        {"nbf": now + 600},
		"another access token":                 {"at_hash": "77QmUPtjPfzWtF2AnpK9RQ"},
		"without a subject":                    {"sub": ""},
		"a subject of too many":                {"sub": strings.Repeat("x", 256)},
		"a subject with a line":                {"sub": "a\nb"},
	} {
		p.says(claims)
		refused(what, "OIDC_REFUSED", b.signsInAt(t, p))
	}
	p.says(nil)
	for what, sign := range map[string]func(map[string]any) string{
		"alg none":        unsigned("eyJhbGciOiJub25lIn0"),
		"alg None":        unsigned("eyJhbGciOiJOb25lIn0"),
		"another alg":     unsigned("eyJhbGciOiJQUzI1NiIsImtpZCI6ImsxIn0"),
		"HMAC of the key": func(all map[string]any) string { return hmacSigned(t, all, []byte(idpSecret)) },
		"no token":        func(map[string]any) string { return "x" },
		"claims twice": func(all map[string]any) string {
			return strings.Replace(p.signed(all), ".", ".eyJhIjoxfQ", 1)
		},
	} {
		p.set(func(p *accounts) { p.sign = sign })
		refused(what, "OIDC_REFUSED", b.signsInAt(t, p))
	}
	p.set(func(p *accounts) { p.sign = nil })

	with := func(answer url.Values, name string, value ...string) url.Values {
		if answer[name] = value; len(value) == 0 {
			answer.Del(name)
		}
		return answer
	}
	refused("iss of another provider", "OIDC_REFUSED", b.returns(t, with(b.leaves(t, p), "iss", "https://idp.evil.example")))
	refused("no iss", "OIDC_REFUSED", b.returns(t, with(b.leaves(t, p), "iss")))
	refused("an unknown code", "OIDC_REFUSED", b.returns(t, with(b.leaves(t, p), "code", "SplxlOBeZQQYbYS6WxSbIA")))
	refused("no code", "OIDC_REFUSED", b.returns(t, with(b.leaves(t, p), "code")))
	refused("no state", "OIDC_STATE", b.returns(t, with(b.leaves(t, p), "state")))
	refused("a state of its own", "OIDC_STATE", b.returns(t, with(b.leaves(t, p), "state", strings.Repeat("A", 75))))
	refused("a long answer", "OIDC_STATE", b.returns(t, with(b.leaves(t, p), "code", strings.Repeat("A", 5000))))
	denied := b.returns(t, with(with(b.leaves(t, p), "code"), "error", "access_denied"))
	refused("refused by the provider", "OIDC_REFUSED", denied)
	denied.contains("access_denied")
	refused("a reason that is none", "OIDC_REFUSED", b.returns(t, with(b.leaves(t, p), "error", "<script>")))

	// the code of somebody else, in the own answer: its verifier is another browser's
	victim := s.browser(t, passkey.ES256)
	stolen := victim.leaves(t, p)
	refused("a code that was injected", "OIDC_REFUSED", b.returns(t, with(b.leaves(t, p), "code", stolen.Get("code"))))
	refused("the state of another browser", "OIDC_STATE", b.returns(t, victim.leaves(t, p)))
	b.leaves(t, p)
	refused("the state of another browser beside its own", "OIDC_STATE", b.returns(t, victim.leaves(t, p)))
	whole := b.leaves(t, p)
	b.account = ""
	refused("no cookie", "OIDC_STATE", b.returns(t, whole))
	b.account = "__Host-attestd-account=" + strings.Repeat("x", 47)
	refused("a cookie of its own", "OIDC_STATE", b.returns(t, whole))
	whole = b.leaves(t, p)
	mine := b.account
	refused("two cookies", "OIDC_STATE", b.asks(t, "GET /v1/people/oidc/callback?"+whole.Encode(), "", "Cookie: "+mine+"; "+mine))
	b.account = mine
	b.asks(t, "GET /v1/people/oidc", "", "Host: evil.example").status(409)
	refused("back under another name", "OIDC_STATE", b.asks(t, "GET /v1/people/oidc/callback?"+whole.Encode(), "", "Host: evil.example"))

	// nothing of it has made anybody
	if people := acme.do(t, "GET /v1/people", "").status(200).at("people").([]any); len(people) != 0 {
		t.Errorf("%d people", len(people))
	}

	// an answer counts once, in all browsers
	p.says(nil)
	answer := b.leaves(t, p)
	mine = b.account
	code := p.codes[answer.Get("code")]
	b.returns(t, answer).status(303)
	b.cookie, b.account = "", mine
	refused("a second time", "OIDC_REFUSED", b.returns(t, answer))
	// of a provider that redeems a code twice
	p.set(func(p *accounts) { p.codes[answer.Get("code")] = code })
	b.account = mine
	refused("a state that was used", "OIDC_STATE", b.returns(t, answer))

	// accounts that no rule admits, or that rules give to nobody
	for what, c := range map[string]struct {
		code   string
		claims map[string]any
	}{
		"of another company":        {"OIDC_NO_RULE", map[string]any{"hd": "zoo.example"}},
		"of no company":             {"OIDC_NO_RULE", map[string]any{"hd": nil}},
		"an ID that is none":        {"OIDC_NO_RULE", map[string]any{"preferred_username": "a b"}},
		"an ID that means a path":   {"OIDC_NO_RULE", map[string]any{"sub": "2", "preferred_username": "me"}},
		"an ID that somebody has":   {"OIDC_NO_PERSON", map[string]any{"sub": "2"}},
		"a list in place of a text": {"OIDC_NO_RULE", map[string]any{"sub": "2", "preferred_username": []string{"bob"}}},
	} {
		p.says(c.claims)
		refused(what, c.code, b.signsInAt(t, p))
	}
	twice := b.leaves(t, p)
	b.asks(t, "GET /v1/people/oidc/callback?"+twice.Encode()+"&state="+twice.Get("state"), "").status(400)
	// another parameter sends nobody elsewhere
	p.says(nil)
	open := b.leaves(t, p)
	open.Set("redirect_uri", "https://evil.example")
	open.Set("next", "//evil.example")
	if to := b.returns(t, open).status(303).header.Get("Location"); to != b.origin+"/#/join/signed-in" {
		t.Errorf("sent to %s", to)
	}
	b.asks(t, "GET /v1/people/oidc?redirect_uri=https://evil.example", "").status(400)
}

// hmacSigned signs claims with a secret that both have, as no provider may.
func hmacSigned(t testing.TB, all map[string]any, secret []byte) string {
	t.Helper()
	signer, err := josev4.NewSigner(josev4.SigningKey{Algorithm: josev4.HS256, Key: append(secret, make([]byte, 32)...)}, nil)
	must.OK(t, err)
	compact, err := josejwt.Signed(signer).Claims(all).Serialize()
	must.OK(t, err)
	return compact
}

// An account that is of no person signs nobody in, whatever company's admin has it on a list.
func TestAccountsOfPeople(t *testing.T) {
	t.Parallel()
	p := newAccounts(t)
	s := start(t, p.of(t, ""))
	acme := s.company(t, "acme")
	b := s.browser(t, passkey.ES256)
	b.signsInAt(t, p).gets(403, `{"error":"…","code":"OIDC_NO_PERSON"}`)
	account := fmt.Sprintf(`[{"issuer":%q,"sub":"248289761001"}]`, p.URL)
	acme.do(t, "POST /v1/people", `{"personId":"ann","name":"Ann","roles":["approver"],"subjects":`+account+`}`).status(201).contains(`"subjects":` + account)
	acme.do(t, "POST /v1/people", `{"personId":"bob","name":"Bob","subjects":`+account+`}`).gets(409, `{"error":"…","code":"SUBJECT_TAKEN"}`)
	acme.do(t, "POST /v1/people", `{"personId":"bob","name":"Bob"}`).status(201).contains(`"subjects":[]`)
	acme.do(t, "PATCH /v1/people/bob", `{"subjects":`+account+`}`).status(409)
	for _, wrong := range []string{`{}`, `"x"`, `[{"issuer":"x"}]`, `[{"issuer":"x","sub":"y","more":1}]`, `[{"issuer":"","sub":"y"}]`, `[{"issuer":"x","sub":1}]`, `[{"issuer":"a b","sub":"y"}]`,
		`[{"issuer":"x","sub":"y"},{"issuer":"x","sub":"y"}]`, `[` + strings.TrimSuffix(strings.Repeat(`{"issuer":"x","sub":"y"},`, 17), ",") + `]`, `[{"issuer":"x","issuer":"x","sub":"y"}]`} {
		acme.do(t, "PATCH /v1/people/bob", `{"subjects":`+wrong+`}`).status(400)
	}
	b.signsInAt(t, p).status(303)
	b.asks(t, "GET /v1/people/me", "").status(200).contains(`"personId":"ann"`).contains(`"roles":["approver"]`)
	acme.do(t, "PATCH /v1/people/ann", `{"subjects":[]}`).status(200).contains(`"subjects":[]`)
	b.cookie = ""
	b.signsInAt(t, p).gets(403, `{"error":"…","code":"OIDC_NO_PERSON"}`)
	// with a second company nothing says of which one an account is
	acme.do(t, "PATCH /v1/people/ann", `{"subjects":`+account+`}`).status(200)
	s.company(t, "zoo")
	b.signsInAt(t, p).gets(403, `{"error":"…","code":"OIDC_NO_RULE"}`)
	acme.do(t, "GET /v1/verify?log=control", "").status(200).contains(`"valid":true`)
}

// A rule takes no right from the last admin, nor makes anybody of a company that is suspended.
func TestAccountsChangeNoCompany(t *testing.T) {
	t.Parallel()
	p := newAccounts(t)
	s := start(t, p.of(t, `[{"match":{"hd":"acme.example"},"companyId":"acme","roles":["reader"]},{"match":{"hd":"gone.example"},"companyId":"gone"}]`))
	acme := s.company(t, "acme")
	alice := acme.person(t, "alice", "admin")
	acme.do(t, "PATCH /v1/people/alice", fmt.Sprintf(`{"subjects":[{"issuer":%q,"sub":"248289761001"}]}`, p.URL)).status(200)
	b := s.browser(t, passkey.ES256)
	b.signsInAt(t, p).gets(409, `{"error":"…","code":"LAST_ADMIN"}`)
	alice.asks(t, "GET /v1/people/me", "").status(200).contains(`"roles":["admin"]`)
	acme.person(t, "root", "admin")
	b.signsInAt(t, p).status(303)
	alice.asks(t, "GET /v1/people/me", "").status(200).contains(`"roles":["reader"]`)
	p.says(map[string]any{"hd": "gone.example"})
	b.signsInAt(t, p).gets(403, `{"error":"…","code":"OIDC_NO_RULE"}`)
	p.says(nil)
	b.cookie = ""
	acme.suspend(t)
	b.signsInAt(t, p).gets(403, `{"error":"…","code":"COMPANY_SUSPENDED"}`)
	alice.cookie = ""
	alice.signsIn(t).gets(403, `{"error":"…","code":"COMPANY_SUSPENDED"}`)
	if b.cookie != "" || alice.cookie != "" {
		t.Error("a session has begun")
	}
}

// A provider that is away, hangs, or answers something else, costs a clear sentence and nothing
// more: the same sign-in works when it is back.
func TestProviderIsAway(t *testing.T) {
	t.Parallel()
	p := newAccounts(t)
	s := start(t, p.of(t, acmeRules))
	acme := s.company(t, "acme")
	b := s.browser(t, passkey.ES256)
	answer := b.leaves(t, p)
	mine, code := b.account, p.codes[answer.Get("code")]
	for what, away := range map[string]http.HandlerFunc{
		"an error":     func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "PRIVATE", 500) },
		"no answer":    func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"a page":       func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>PRIVATE")) },
		"another form": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"access_token":"x"}`)) },
		"a long answer": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"x":"` + strings.Repeat("x", 300<<10) + `"}`))
		},
		"elsewhere": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://evil.example", http.StatusTemporaryRedirect)
		},
		"another secret": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(401)
			_, _ = w.Write([]byte(`{"error":"invalid_client"}`))
		},
	} {
		p.set(func(p *accounts) { p.answer = away })
		if r := b.returns(t, answer).gets(503, `{"error":"…","code":"OIDC_UNAVAILABLE","requestId":"…"}`); strings.Contains(string(r.raw), "PRIVATE") || strings.Contains(string(r.raw), idpSecret) {
			t.Errorf("%s: %s", what, r.raw)
		}
	}
	if people := acme.do(t, "GET /v1/people", "").status(200).at("people").([]any); len(people) != 0 || b.cookie != "" {
		t.Errorf("%d people", len(people))
	}
	p.set(func(p *accounts) { p.answer, p.codes[answer.Get("code")] = nil, code })
	b.account = mine
	b.returns(t, answer).status(303)

	for what, metadata := range map[string]map[string]any{
		"another issuer":              {"issuer": "https://idp.evil.example"},
		"an endpoint elsewhere":       {"token_endpoint": "http://idp.evil.example/token"},
		"an endpoint that is no URL":  {"authorization_endpoint": "javascript:alert(1)"},
		"an endpoint of the metadata": {"jwks_uri": "http://169.254.169.254/jwks"},
		"an endpoint with a password": {"authorization_endpoint": "https://a:b@idp.example/authorize"},
	} {
		q := newAccounts(t)
		q.metadata = metadata
		other := start(t, q.of(t, acmeRules))
		if r := other.browser(t, passkey.ES256).asks(t, "GET /v1/people/oidc", "").status(503); r.str("code") != "OIDC_UNAVAILABLE" {
			t.Errorf("%s: %s", what, r.raw)
		}
	}
	q := newAccounts(t)
	late := start(t, q.of(t, acmeRules))
	q.Close()
	late.browser(t, passkey.ES256).asks(t, "GET /v1/people/oidc", "").gets(503, `{"error":"…","code":"OIDC_UNAVAILABLE","requestId":"…"}`)
	without := start(t)
	b = without.browser(t, passkey.ES256)
	b.asks(t, "GET /v1/people/sign-in", "").gets(200, `{"passkey":true,"oidc":false}`)
	b.asks(t, "GET /v1/people/oidc", "").gets(404, `{"error":"…","code":"OIDC_OFF"}`)
	b.asks(t, "GET /v1/people/oidc/callback?state=x&code=y", "").gets(404, `{"error":"…","code":"OIDC_OFF"}`)
}

// A sign-in with an account that has begun at one server ends at another one of the database, once,
// and what ends at one has ended at all.
func TestAccountCountsOnAllServers(t *testing.T) {
	testenv.Needs(t, testenv.NotQuick)
	testenv.Concurrent(t)
	t.Parallel()
	p := newAccounts(t)
	of := p.of(t, acmeRules)
	first, second := startTwo(t, func(c *server.Config) { of(c); c.BaseURL = "https://attestd.example" })
	acme := first.company(t, "acme")
	at := func(s *service, b *browser) *browser {
		there := s.browser(t, passkey.ES256)
		there.origin, there.rpID = "https://attestd.example", "attestd.example"
		if b != nil {
			there.Authenticator, there.cookie, there.account, there.handle = b.Authenticator, b.cookie, b.account, b.handle
		}
		return there
	}
	here := at(first, nil)
	answer := here.leaves(t, p)
	code := p.codes[answer.Get("code")]
	there := at(second, here)
	there.returns(t, answer).status(303)
	here.cookie = there.cookie
	for _, b := range []*browser{here, there} {
		b.asks(t, "GET /v1/people/me", "").status(200).contains(`"personId":"alice"`)
	}
	p.set(func(p *accounts) { p.codes[answer.Get("code")] = code })
	at(first, here).returns(t, answer).gets(401, `{"error":"…","code":"OIDC_STATE"}`)
	// the challenge of one server counts at the other, once
	made := here.creates(t, here.asks(t, "POST /v1/people/me/passkeys/options", ""))
	there.handle = here.handle
	there.asks(t, "POST /v1/people/me/passkeys", body(t, "credential", made)).status(201)
	signed := body(t, "credential", here.signs(t, here.asks(t, "POST /v1/people/sign-in/options", "")))
	fresh := at(second, here)
	fresh.asks(t, "POST /v1/people/sign-in", signed).status(200)
	at(first, here).asks(t, "POST /v1/people/sign-in", signed).gets(401, `{"error":"…","code":"PASSKEY_CHALLENGE"}`)
	acme.do(t, "POST /v1/people", `{"personId":"root","name":"Root","roles":["admin"]}`).status(201)
	at(second, nil).accepts(t, acme.do(t, "POST /v1/people/root/invitations", "").status(201).str("url")).status(201)
	acme.do(t, "PATCH /v1/people/alice", `{"disabled":true}`).status(200)
	for _, b := range []*browser{here, there, fresh} {
		b.asks(t, "GET /v1/people/me", "").status(401)
	}
}
