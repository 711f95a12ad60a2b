package server_test

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	josev4 "github.com/go-jose/go-jose/v4"
	josejwt "github.com/go-jose/go-jose/v4/jwt"

	"attestd/crypto/dpop"
	"attestd/crypto/jose"
	"attestd/internal/must"
	"attestd/server"
)

// otherIssuer is an issuer of tokens elsewhere, with its metadata and its key set.
type otherIssuer struct {
	*httptest.Server
	asked atomic.Int64

	mu     sync.Mutex
	key    *rsa.PrivateKey
	kid    string
	answer http.HandlerFunc // of the key set; nil for the key set
}

var issuerKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

func newIssuer(t testing.TB) *otherIssuer {
	i := &otherIssuer{key: issuerKey(), kid: "k1"}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q}`, i.URL, i.URL+"/jwks")
	})
	mux.HandleFunc("/jwks", func(w http.ResponseWriter, r *http.Request) {
		i.asked.Add(1)
		i.mu.Lock()
		answer := i.answer
		i.mu.Unlock()
		if answer != nil {
			answer(w, r)
			return
		}
		w.Write(i.jwks(t))
	})
	i.Server = httptest.NewServer(mux)
	t.Cleanup(i.Server.CloseClientConnections)
	t.Cleanup(i.Close)
	return i
}

func (i *otherIssuer) jwks(t testing.TB) []byte {
	i.mu.Lock()
	defer i.mu.Unlock()
	set, err := json.Marshal(josev4.JSONWebKeySet{Keys: []josev4.JSONWebKey{{Key: i.key.Public(), KeyID: i.kid, Use: "sig", Algorithm: "RS256"}}})
	if err != nil {
		t.Error(err)
	}
	return set
}

type claims = map[string]any

// token signs claims and adds those of a workload of the repository octo-org/octo-repo.
func (i *otherIssuer) token(t testing.TB, audience string, more claims) string {
	t.Helper()
	now := time.Now().Unix()
	all := claims{
		"iss": i.URL, "aud": audience, "sub": "repo:octo-org/octo-repo:ref:refs/heads/main", "repository": "octo-org/octo-repo",
		"ref": "refs/heads/main", "iat": now, "nbf": now, "exp": now + 300, "jti": rand.Text(),
	}
	for name, value := range more {
		if all[name] = value; value == nil {
			delete(all, name)
		}
	}
	signer, err := josev4.NewSigner(josev4.SigningKey{Algorithm: josev4.RS256, Key: josev4.JSONWebKey{Key: i.key, KeyID: i.kid}}, (&josev4.SignerOptions{}).WithType("JWT"))
	must.OK(t, err)
	compact, err := josejwt.Signed(signer).Claims(all).Serialize()
	must.OK(t, err)
	return compact
}

func privateFederation(c *server.Config) { c.FederationAllowPrivate = true }

// issuer is the issuer of the company, the audience of tokens for it.
func (c caller) issuer() string { return c.url + "/o/" + c.id }

func federationBody(name, issuer, audience, rules string) string {
	return fmt.Sprintf(`{"name":%q,"issuer":%q,"audience":%q,"rules":%s}`, name, issuer, audience, rules)
}

const ciRules = `[{"match":{"repository":"octo-org/*","ref":"refs/heads/main"},"agentId":"ci-{repository}","ttl":600,"register":true}]`

func assertionBody(token string) string {
	body, _ := json.Marshal(map[string]string{"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": token})
	return string(body)
}

// federates presents a token without any credential.
func (c caller) federates(t testing.TB, token string, headers ...string) *reply {
	t.Helper()
	return c.with("").do(t, tokenCall, assertionBody(token), append(headers, "Content-Type: application/json")...)
}

// A federation is made, shown with the state of its keys, and deleted, by an admin of its company
// alone.
func TestFederations(t *testing.T) {
	t.Parallel()
	s := start(t, privateFederation)
	c, other := s.company(t, "acme"), s.company(t, "zoo")
	i := newIssuer(t)
	made := c.do(t, "POST /v1/federation", federationBody("ci", i.URL, c.issuer(), ciRules)).status(201)
	if made.str("rules", 0, "agentId") != "ci-{repository}" || made.str("issuer") != i.URL {
		t.Errorf("%s", made.raw)
	}
	c.do(t, "POST /v1/federation", federationBody("ci", "https://x.example", "a", ciRules)).status(409)
	c.do(t, "POST /v1/federation", federationBody("ci2", i.URL, c.issuer(), ciRules)).status(409)
	c.federates(t, i.token(t, c.issuer(), nil)).status(200)
	shown := c.do(t, "GET /v1/federation/ci", "").status(200)
	if !strings.Contains(string(shown.raw), `"keys":{"count":1,"fetchedAt":"2`) {
		t.Errorf("%s", shown.raw)
	}
	if all := c.do(t, "GET /v1/federation", "").status(200); !strings.Contains(string(all.raw), `{"federations":[{"name":"ci",`) {
		t.Errorf("%s", all.raw)
	}
	if all := other.do(t, "GET /v1/federation", "").status(200); string(all.raw) != `{"federations":[]}`+"\n" && string(all.raw) != `{"federations":[]}` {
		t.Errorf("another company sees %s", all.raw)
	}
	other.do(t, "GET /v1/federation/ci", "").status(404)
	other.do(t, "DELETE /v1/federation/ci", "").status(404)
	c.do(t, "DELETE /v1/federation/ci", "").status(200)
	c.do(t, "DELETE /v1/federation/ci", "").status(404)

	set := string(i.jwks(t))
	for body, want := range map[string]string{
		federationBody("a/b", i.URL, "a", ciRules):                                                                              "name",
		federationBody("a", "https://ci.example/?x", "a", ciRules):                                                              "must not have a query",
		federationBody("a", "ftp://ci.example", "a", ciRules):                                                                   "issuer must be an https URL, or have its keys",
		federationBody("a", "kubernetes", "a", ciRules):                                                                         "issuer must be an absolute URL",
		federationBody("a", "https://169.254.169.254", "a", ciRules):                                                            "address that is not public",
		federationBody("a", "https://ci.example\u00e9", "a", ciRules):                                                           "visible ASCII",
		federationBody("a", i.URL, "a b", ciRules):                                                                              "audience must be",
		federationBody("a", i.URL, "a", `[{"match":{"sub":"repo:*"},"agentId":"a"}]`):                                           "rules/0/match must match a claim that only the workload has",
		federationBody("a", i.URL, "a", `{}`):                                                                                   "rules must be an array",
		strings.Replace(federationBody("a", i.URL, "a", ciRules), `"rules"`, `"jwks":{"keys":[]},"rules"`, 1):                   "jwks has no key",
		strings.Replace(federationBody("a", i.URL, "a", ciRules), `"rules"`, `"jwks":`+set+`,"jwksUri":"https://x","rules"`, 1): "must not stand beside jwks",
		strings.Replace(federationBody("a", i.URL, "a", ciRules), `"rules"`, `"jwksUri":"http://user:x@ci.example","rules"`, 1): "must not hold a password",
		strings.Replace(federationBody("a", i.URL, "a", ciRules), `"rules"`, `"rule":1,"rules"`, 1):                             "rule",
	} {
		if answer := c.do(t, "POST /v1/federation", body).status(400); !strings.Contains(answer.str("error"), want) {
			t.Errorf("%s\n%s, want %q", body, answer.raw, want)
		}
	}
	if n := len(c.do(t, "GET /v1/federation", "").status(200).raw); n > 25 {
		t.Error("a refused federation is there")
	}
	pinned := strings.Replace(federationBody("pinned", "https://kubernetes.default.svc.cluster.local", c.issuer(), `[{"match":{"sub":"s"},"agentId":"b"}]`), `"rules"`, `"jwks":`+set+`,"rules"`, 1)
	if made := c.do(t, "POST /v1/federation", pinned).status(201); !strings.Contains(string(made.raw), `"keys":{"count":1,"fetchedAt":null}`) || !strings.Contains(string(made.raw), `"jwks":{"keys":[{`) {
		t.Errorf("%s", made.raw)
	}
}

// Without the permission of the operator no issuer on this machine is asked.
func TestFederationWithinIsRefused(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := s.company(t, "acme")
	i := newIssuer(t)
	c.do(t, "POST /v1/federation", federationBody("ci", i.URL, c.issuer(), ciRules)).status(400)
	c.do(t, "POST /v1/federation", federationBody("ci", "https://127.0.0.1", c.issuer(), ciRules)).status(400)
	if i.asked.Load() != 0 {
		t.Error("an issuer within was asked")
	}
}

// A workload becomes the agent of the rule, which is registered, acts in its own name alone, and
// ends with its federation. The control log says who it was, once.
func TestWorkloadBecomesItsAgent(t *testing.T) {
	t.Parallel()
	s := start(t, privateFederation)
	c := s.company(t, "acme")
	i := newIssuer(t)
	c.do(t, "POST /v1/federation", federationBody("ci", i.URL, c.issuer(), ciRules)).status(201)
	answer := c.federates(t, i.token(t, c.issuer(), nil)).status(200)
	if answer.str("token_type") != "Bearer" || answer.at("expires_in").(float64) > 300 || answer.at("expires_in").(float64) < 290 {
		t.Errorf("%s", answer.raw)
	}
	long := c.federates(t, i.token(t, c.issuer(), claims{"exp": time.Now().Unix() + 7200})).status(200)
	if n := long.at("expires_in").(float64); n != 600 {
		t.Errorf("%v s, and the rule says 600", n)
	}
	agent := c.with(answer.str("access_token"))
	agent.do(t, "POST /v1/attest", `{"agentId":"ci-octo-org__octo-repo","actionType":"deploy","payload":1}`).status(201)
	agent.do(t, "POST /v1/attest", `{"agentId":"other","actionType":"deploy","payload":1}`).status(403)
	agent.do(t, "GET /v1/agents", "").status(403)
	agent.do(t, "POST /v1/keys", `{}`).status(403)
	agent.do(t, "GET /v1/agents/ci-octo-org__octo-repo/svid", "").status(200)

	log := string(c.do(t, "GET /v1/chain?log=control", "").status(200).raw)
	for want, times := range map[string]int{
		`"actionType":"federation.created"`: 1, `"actionType":"federation.used"`: 1, `"actionType":"agent.registered"`: 1,
		`"by":"federation:ci"`: 2, `"tokenSubject":"repo:octo-org/octo-repo:ref:refs/heads/main"`: 1,
	} {
		if n := strings.Count(log, want); n != times {
			t.Errorf("%s stands %d times in the control log: %s", want, n, log)
		}
	}
	c.do(t, "DELETE /v1/federation/ci", "").status(200)
	agent.do(t, "POST /v1/attest", `{"agentId":"ci-octo-org__octo-repo","actionType":"deploy","payload":1}`).status(401)
	c.federates(t, i.token(t, c.issuer(), nil)).status(400)
}

// A DPoP proof binds the token: it is refused as Bearer, and with proofs of another key.
func TestFederatedTokenIsBound(t *testing.T) {
	t.Parallel()
	s := start(t, privateFederation)
	c := s.company(t, "acme")
	i := newIssuer(t)
	c.do(t, "POST /v1/federation", federationBody("ci", i.URL, c.issuer(), ciRules)).status(201)
	proof := func(key *jose.PrivateKey, path, token string) string {
		t.Helper()
		proof, err := dpop.Make(t.Context(), key, dpop.Request{Method: "POST", URL: s.url + path, AccessToken: token}, time.Now())
		must.OK(t, err)
		return "DPoP: " + proof
	}
	key := newKey(t, jose.ES256)
	signIn := proof(key, "/v1/oauth/token", "")
	answer := c.federates(t, i.token(t, c.issuer(), nil), signIn).status(200)
	token := answer.str("access_token")
	if answer.str("token_type") != "DPoP" {
		t.Errorf("%s", answer.raw)
	}
	c.federates(t, i.token(t, c.issuer(), nil), signIn).gets(400, `{"error":"invalid_dpop_proof","error_description":"…used before…"}`)
	if bad := c.federates(t, i.token(t, c.issuer(), nil), proof(key, "/v1/attest", "")).status(400); bad.str("error") != "invalid_dpop_proof" {
		t.Errorf("%s", bad.raw)
	}
	const body = `{"agentId":"ci-octo-org__octo-repo","actionType":"deploy","payload":1}`
	c.with(token).do(t, "POST /v1/attest", body).status(401)
	as := func(key *jose.PrivateKey) *reply {
		return c.with("").do(t, "POST /v1/attest", body, "Authorization: DPoP "+token, proof(key, "/v1/attest", token))
	}
	as(newKey(t, jose.ES256)).status(401)
	as(key).status(201)
}

// Whatever is wrong with an assertion is 400 invalid_grant, and the description names the check.
func TestRefusedAssertions(t *testing.T) {
	t.Parallel()
	s := start(t, privateFederation)
	c, other := s.company(t, "acme"), s.company(t, "zoo")
	i, another := newIssuer(t), newIssuer(t)
	rules := `[{"match":{"repository":"octo-org/*","ref":"refs/heads/main"},"agentId":"ci-{repository}","ttl":600},
		{"match":{"sub":"disabled"},"agentId":"disabled"},{"match":{"sub":"a_/b"},"agentId":"{sub}"}]`
	c.do(t, "POST /v1/federation", federationBody("ci", i.URL, c.issuer(), rules)).status(201)
	c.do(t, "POST /v1/federation", federationBody("second", i.URL, "second", ciRules)).status(201)
	other.do(t, "POST /v1/federation", federationBody("ci", another.URL, other.issuer(), ciRules)).status(201)
	c.agent(t, "ci-octo-org__octo-repo")
	c.agent(t, "disabled")
	c.do(t, "POST /v1/agents/disabled/disable", "").status(200)
	once := i.token(t, c.issuer(), nil)
	c.federates(t, once).status(200)
	now := time.Now().Unix()
	var all []string
	for name, test := range map[string]struct{ token, want string }{
		"replayed":                     {once, "used before"},
		"no token":                     {"x", "three parts"},
		"issuer of another company":    {another.token(t, c.issuer(), nil), "does not trust"},
		"issuer of nobody":             {i.token(t, c.issuer(), claims{"iss": "https://evil.example"}), "does not trust"},
		"company that is unknown":      {i.token(t, c.url+"/o/nobody", nil), "does not trust"},
		"company that does not trust":  {i.token(t, other.issuer(), nil), "does not trust"},
		"audience that names none":     {i.token(t, "https://other.example", nil), "issuer of the company"},
		"audience of another":          {i.token(t, c.issuer()+"/", nil), "does not trust"},
		"audience beside":              {i.token(t, "second", nil), "issuer of the company"},
		"signed by another":            {another.token(t, c.issuer(), claims{"iss": i.URL, "x": 1}) + "A", ""},
		"expired":                      {i.token(t, c.issuer(), claims{"exp": now - 1}), "ended"},
		"too long":                     {i.token(t, c.issuer(), claims{"exp": now + 90000}), "a day ahead"},
		"not yet":                      {i.token(t, c.issuer(), claims{"nbf": now + 200}), "not valid yet"},
		"from the future":              {i.token(t, c.issuer(), claims{"iat": now + 200}), "iat"},
		"no exp":                       {i.token(t, c.issuer(), claims{"exp": nil}), "exp"},
		"other branch":                 {i.token(t, c.issuer(), claims{"ref": "refs/heads/evil"}), "no rule"},
		"other owner":                  {i.token(t, c.issuer(), claims{"repository": "evil/octo-org/x"}), "no rule"},
		"owner alike":                  {i.token(t, c.issuer(), claims{"repository": "octo-org-evil/x"}), "no rule"},
		"agent not registered":         {i.token(t, c.issuer(), claims{"repository": "octo-org/new"}), "not registered"},
		"agent disabled":               {i.token(t, c.issuer(), claims{"repository": nil, "sub": "disabled"}), "disabled"},
		"claim that is no part of one": {i.token(t, c.issuer(), claims{"repository": nil, "sub": "a_/b"}), "cannot be a part"},
	} {
		answer := c.federates(t, test.token).status(400)
		if answer.str("error") != "invalid_grant" || !strings.Contains(answer.str("error_description"), test.want) {
			t.Errorf("%s: %s, want %q", name, answer.raw, test.want)
		}
		all = append(all, answer.str("error_description"))
	}
	if slices.ContainsFunc(all, func(s string) bool { return strings.Contains(s, "octo-org") || strings.Contains(s, "evil") }) {
		t.Errorf("a description quotes a token: %q", all)
	}
	c.with("").do(t, tokenCall, `{"grant_type":"urn:ietf:params:oauth:grant-type:jwt-bearer"}`, "Content-Type: application/json").status(400)
}

// An issuer that hangs costs the requests with its tokens two seconds, and no others anything.
func TestIssuerThatHangs(t *testing.T) {
	t.Parallel()
	s := start(t, privateFederation)
	c, other := s.company(t, "acme"), s.company(t, "zoo")
	bad, good := newIssuer(t), newIssuer(t)
	bad.answer = func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	c.do(t, "POST /v1/federation", federationBody("bad", bad.URL, c.issuer(), ciRules)).status(201)
	other.do(t, "POST /v1/federation", federationBody("good", good.URL, other.issuer(), ciRules)).status(201)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			answer := c.federates(t, bad.token(t, c.issuer(), nil)).status(503)
			if answer.str("code") != "NOT_DONE" || answer.header.Get("Retry-After") == "" {
				t.Errorf("%s", answer.raw)
			}
		})
	}
	for range 20 {
		other.federates(t, good.token(t, other.issuer(), nil)).status(200)
	}
	wg.Wait()
	if n := bad.asked.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

// On the path of its company the audience may be any that the federation has. The token is known to
// introspection in its company alone, and ends when it is revoked.
func TestFederatedTokenOfCompanyEndpoint(t *testing.T) {
	t.Parallel()
	s := start(t, privateFederation)
	c, other := s.company(t, "acme"), s.company(t, "zoo")
	i := newIssuer(t)
	c.do(t, "POST /v1/federation", federationBody("ci", i.URL, "attest", ciRules)).status(201)
	const json = "Content-Type: application/json"
	c.with("").do(t, tokenCall, assertionBody(i.token(t, "attest", nil)), json).status(400)
	c.with("").do(t, "POST /o/zoo/token", assertionBody(i.token(t, "attest", nil)), json).status(400)
	c.with("").do(t, "POST /o/acme/token", strings.Replace(assertionBody(i.token(t, "attest", nil)), "{", `{"scope":"admin",`, 1), json).status(400)
	answer := c.with("").do(t, "POST /o/acme/token", strings.Replace(assertionBody(i.token(t, "attest", nil)), "{", `{"scope":"agent",`, 1), json).status(200)
	token := answer.str("access_token")
	if answer.str("scope") != "agent" {
		t.Errorf("%s", answer.raw)
	}
	about := "token=" + token
	form := "Content-Type: application/x-www-form-urlencoded"
	found := c.do(t, "POST /o/acme/introspect", about, form).status(200)
	if found.at("active") != true || found.str("agent_id") != "ci-octo-org__octo-repo" || found.str("scope") != "agent" {
		t.Errorf("%s", found.raw)
	}
	if found := other.do(t, "POST /o/zoo/introspect", about, form).status(200); found.at("active") != false {
		t.Errorf("another company learns %s", found.raw)
	}
	other.do(t, "POST /o/zoo/revoke", about, form).status(200)
	c.with(token).do(t, "GET /v1/agents/ci-octo-org__octo-repo/svid", "").status(200)
	c.do(t, "POST /o/acme/revoke", about, form).status(200)
	c.with(token).do(t, "GET /v1/agents/ci-octo-org__octo-repo/svid", "").status(401)
	if found := c.do(t, "POST /o/acme/introspect", about, form).status(200); found.at("active") != false {
		t.Errorf("after its revocation: %s", found.raw)
	}
}

// Token exchange (RFC 8693) gives the same for the same, and what a workload cannot have by it is
// refused.
func TestWorkloadExchangesItsToken(t *testing.T) {
	t.Parallel()
	s := start(t, privateFederation)
	c := s.company(t, "acme")
	i := newIssuer(t)
	c.do(t, "POST /v1/federation", federationBody("ci", i.URL, c.issuer(), ciRules)).status(201)
	exchange := func(path, kind, more string) *reply {
		t.Helper()
		body := "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange&subject_token=" + i.token(t, c.issuer(), nil) +
			"&subject_token_type=urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3A" + kind + more
		return c.with("").do(t, "POST "+path, body, "Content-Type: application/x-www-form-urlencoded")
	}
	for path, kind := range map[string]string{"/v1/oauth/token": "jwt", "/o/acme/token": "id_token"} {
		answer := exchange(path, kind, "&requested_token_type=urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3Aaccess_token").status(200)
		if answer.str("issued_token_type") != "urn:ietf:params:oauth:token-type:access_token" || answer.str("token_type") != "Bearer" {
			t.Errorf("%s", answer.raw)
		}
		c.with(answer.str("access_token")).do(t, "POST /v1/attest", `{"agentId":"ci-octo-org__octo-repo","actionType":"deploy","payload":1}`).status(201)
	}
	for more, want := range map[string]string{
		"&actor_token=x":                    "invalid_request",
		"&requested_token_type=urn%3Ax":     "invalid_request",
		"&audience=https%3A%2F%2Fx.example": "invalid_target",
		"&resource=https%3A%2F%2Fx.example": "invalid_target",
		"&scope=admin":                      "invalid_scope",
		"&scope=reader":                     "invalid_scope",
		"&may_act=spiffe%3A%2F%2Fx":         "invalid_request",
	} {
		if answer := exchange("/v1/oauth/token", "jwt", more).status(400); answer.str("error") != want {
			t.Errorf("%s: %s", more, answer.raw)
		}
	}
	asserted := c.with("").do(t, "POST /v1/oauth/token", "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&resource=https%3A%2F%2Fx.example&assertion="+
		i.token(t, c.issuer(), nil), "Content-Type: application/x-www-form-urlencoded").status(400)
	if asserted.str("error") != "invalid_target" {
		t.Errorf("%s", asserted.raw)
	}
	if answer := exchange("/v1/oauth/token", "saml2", "").status(400); answer.str("error") != "invalid_request" {
		t.Errorf("%s", answer.raw)
	}
}

// What an issuer's users can make the company record is limited: a rule admits a number of subjects
// on a day, and refuses others without a record. Admitted subjects continue.
func TestRuleLetsInSoManySubjects(t *testing.T) {
	t.Parallel()
	s := start(t, privateFederation, func(c *server.Config) { c.Bounds.Subjects = 3 })
	c := s.company(t, "acme")
	i := newIssuer(t)
	rules := `[{"match":{"sub":"repo:octo-org/*:ref:refs/heads/main"},"agentId":"ci","ttl":600},{"match":{"sub":"other"},"agentId":"ci"}]`
	c.do(t, "POST /v1/federation", federationBody("ci", i.URL, c.issuer(), rules)).status(201)
	c.agent(t, "ci")
	as := func(subject string) *reply { return c.federates(t, i.token(t, c.issuer(), claims{"sub": subject})) }
	repo := func(n int) string { return fmt.Sprintf("repo:octo-org/r%d:ref:refs/heads/main", n) }
	for n := range 3 {
		as(repo(n)).status(200)
	}
	before := c.do(t, "GET /v1/chain?log=control", "").raw
	for n := 3; n < 10; n++ {
		as(repo(n)).gets(400, `{"error":"invalid_grant","error_description":"the rule has let in as many subjects today as it may…"}`)
	}
	as(repo(1)).status(200)
	if after := c.do(t, "GET /v1/chain?log=control", "").raw; string(after) != string(before) {
		t.Error("what was refused stands in the control log")
	}
	as("other").status(200)
	if n := strings.Count(string(c.do(t, "GET /v1/chain?log=control", "").raw), `"federation.used"`); n != 4 {
		t.Errorf("%d records of use", n)
	}
}
