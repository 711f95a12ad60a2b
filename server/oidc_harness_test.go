package server_test

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	josev4 "github.com/go-jose/go-jose/v4"
	josejwt "github.com/go-jose/go-jose/v4/jwt"

	"attestd/internal/must"
	"attestd/server"
	api "attestd/service"
	"attestd/service/federation"
	"attestd/store"
)

// accounts is an identity provider, at which this service is a client. It demands what OAuth 2.1
// demands of a server: the secret, the redirect URI, and the verifier of the code.
type accounts struct {
	*httptest.Server
	t testing.TB

	mu       sync.Mutex
	metadata map[string]any // in addition
	codes    map[string]authorization
	// what the ID token is to say otherwise; nil removes a claim
	claims map[string]any
	sign   func(claims map[string]any) string // in place of the issuer's key; nil for that
	answer http.HandlerFunc                   // of the token endpoint, in place of tokens
	asked  []url.Values                       // of the token endpoint
}

// authorization is for what a code was given.
type authorization struct{ challenge, redirect, nonce string }

const idpClient, idpSecret = "attestd-client", "a-secret-of-this-service-only"

func newAccounts(t testing.TB) *accounts {
	p := &accounts{t: t, codes: map[string]authorization{}}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		m := map[string]any{
			"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/jwks",
			"authorization_response_iss_parameter_supported": true,
		}
		for name, value := range p.metadata {
			m[name] = value
		}
		_ = json.NewEncoder(w).Encode(m)
	})
	mux.HandleFunc("/jwks", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(josev4.JSONWebKeySet{Keys: []josev4.JSONWebKey{{Key: issuerKey().Public(), KeyID: "k1", Use: "sig", Algorithm: "RS256"}}})
	})
	mux.HandleFunc("/token", p.token)
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Server.CloseClientConnections)
	t.Cleanup(p.Close)
	return p
}

func (p *accounts) token(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = r.ParseForm()
	p.asked = append(p.asked, r.PostForm)
	if p.answer != nil {
		p.answer(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	refuse := func(status int, code string) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]string{"error": code, "error_description": "PRIVATE"})
	}
	if id, secret, ok := r.BasicAuth(); !ok || id != idpClient || secret != idpSecret {
		refuse(401, "invalid_client")
		return
	}
	code := r.PostForm.Get("code")
	has, is := p.codes[code]
	delete(p.codes, code)
	sum := sha256.Sum256([]byte(r.PostForm.Get("code_verifier")))
	if !is || has.redirect != r.PostForm.Get("redirect_uri") || has.challenge != base64.RawURLEncoding.EncodeToString(sum[:]) {
		refuse(400, "invalid_grant")
		return
	}
	now := time.Now().Unix()
	all := map[string]any{"iss": p.URL, "aud": idpClient, "sub": "248289761001", "iat": now, "exp": now + 300, "nonce": has.nonce, "preferred_username": "alice", "hd": "acme.example"}
	for name, value := range p.claims {
		if all[name] = value; value == nil {
			delete(all, name)
		}
	}
	sign := p.sign
	if sign == nil {
		sign = p.signed
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"access_token": rand.Text(), "token_type": "Bearer", "id_token": sign(all)})
}

func (p *accounts) signed(all map[string]any) string {
	signer, err := josev4.NewSigner(josev4.SigningKey{Algorithm: josev4.RS256, Key: josev4.JSONWebKey{Key: issuerKey(), KeyID: "k1"}}, (&josev4.SignerOptions{}).WithType("JWT"))
	must.OK(p.t, err)
	compact, err := josejwt.Signed(signer).Claims(all).Serialize()
	must.OK(p.t, err)
	return compact
}

// says changes what ID tokens say from now on.
func (p *accounts) says(more map[string]any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.claims = more
}

// set changes the provider.
func (p *accounts) set(change func(p *accounts)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(p)
}

// authorizes is what somebody does at the page of the provider: the answer is the query with which
// the browser is sent back.
func (p *accounts) authorizes(t testing.TB, location string) url.Values {
	t.Helper()
	u, err := url.Parse(location)
	must.OK(t, err)
	q := u.Query()
	if u.Path != "/authorize" || q.Get("response_type") != "code" || q.Get("client_id") != idpClient || q.Get("code_challenge_method") != "S256" || !strings.Contains(" "+q.Get("scope")+" ", " openid ") || len(q.Get("nonce")) < 32 || len(q.Get("state")) < 32 {
		t.Fatalf("the service asks %s", location)
	}
	code := rand.Text()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.codes[code] = authorization{q.Get("code_challenge"), q.Get("redirect_uri"), q.Get("nonce")}
	return url.Values{"code": {code}, "state": {q.Get("state")}, "iss": {p.URL}}
}

// of makes the provider that of a service, with rules.
func (p *accounts) of(t testing.TB, rules string) func(*server.Config) {
	c := &api.OIDCConfig{Issuer: p.URL, ClientID: idpClient, Secret: idpSecret}
	if rules != "" {
		var err error
		c.Rules, err = federation.ParsePeople([]byte(rules))
		must.OK(t, err)
	}
	return func(cfg *server.Config) { cfg.OIDC, cfg.FederationAllowPrivate = c, true }
}

const acmeRules = `[{"match":{"hd":"acme.example","preferred_username":"*"},"companyId":"acme","personId":"{preferred_username}","roles":["admin"],"groups":["finance"]}]`

// leaves goes to the identity provider, where somebody signs in.
func (b *browser) leaves(t testing.TB, p *accounts) url.Values {
	t.Helper()
	return p.authorizes(t, b.asks(t, "GET /v1/people/oidc", "", "X-Attestd-Console: ").status(303).header.Get("Location"))
}

// returns comes back from the identity provider, as a page of that sends it.
func (b *browser) returns(t testing.TB, answer url.Values) *reply {
	t.Helper()
	return b.asks(t, "GET /v1/people/oidc/callback?"+answer.Encode(), "", "X-Attestd-Console: ")
}

// signsInAt signs in with an account at the identity provider.
func (b *browser) signsInAt(t testing.TB, p *accounts) *reply {
	t.Helper()
	return b.returns(t, b.leaves(t, p))
}

// ageAccount has ann of acme signed in by a sign-in with an account of some time ago.
func (s *service) ageAccount(t testing.TB, p *accounts, b *browser, ago time.Duration) {
	t.Helper()
	company, err := s.store.Companies.Get(t.Context(), "acme")
	must.OK(t, err)
	before := time.Now().Add(-ago)
	a := store.AccountSignIn{
		Account: store.Subject{Issuer: p.URL, Sub: "of ann"}, State: store.UsedProof{Name: sha256.Sum256([]byte(rand.Text())), Ends: before.Add(time.Minute)},
		Create: &store.Person{ID: "ann", Name: "Ann", Roles: []string{store.PersonReader}},
	}
	_, secret, err := s.store.People.SignInWithAccount(t.Context(), company, a, 1000, before)
	must.OK(t, err)
	b.cookie = "__Host-attestd-session=" + secret
}
