package web_test

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	josev4 "github.com/go-jose/go-jose/v4"
	josejwt "github.com/go-jose/go-jose/v4/jwt"

	"attestd/internal/must"
)

// startProvider starts an identity provider at which ann is signed in already: whoever comes goes
// back at once.
func startProvider(t *testing.T) string {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	must.OK(t, err)
	nonces := make(chan string, 1)
	mux := http.NewServeMux()
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	answer := func(w http.ResponseWriter, v any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v)
	}
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"issuer": s.URL, "authorization_endpoint": s.URL + "/authorize", "token_endpoint": s.URL + "/token", "jwks_uri": s.URL + "/jwks"})
	})
	mux.HandleFunc("/jwks", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, josev4.JSONWebKeySet{Keys: []josev4.JSONWebKey{{Key: key.Public(), KeyID: "1", Use: "sig", Algorithm: "RS256"}}})
	})
	mux.HandleFunc("/authorize", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		nonces <- q.Get("nonce")
		http.Redirect(w, r, q.Get("redirect_uri")+"?"+url.Values{"code": {"c"}, "state": {q.Get("state")}}.Encode(), http.StatusFound)
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, _ *http.Request) {
		signer, err := josev4.NewSigner(josev4.SigningKey{Algorithm: josev4.RS256, Key: josev4.JSONWebKey{Key: key, KeyID: "1"}}, nil)
		must.OK(t, err)
		now := time.Now().Unix()
		token, err := josejwt.Signed(signer).Claims(map[string]any{
			"iss": s.URL, "aud": "attestd", "sub": "1", "iat": now, "exp": now + 60, "nonce": <-nonces, "name": "Ann", "preferred_username": "ann", "hd": "acme.example",
		}).Serialize()
		must.OK(t, err)
		answer(w, map[string]any{"access_token": "x", "token_type": "Bearer", "id_token": token})
	})
	return s.URL
}

// Somebody signs in with an account at the company's identity provider, in the browser's own way
// there and back, makes a passkey, and changes a right with it.
func TestBrowserAccount(t *testing.T) {
	provider := startProvider(t)
	dir := t.TempDir()
	secret, rules := filepath.Join(dir, "secret"), filepath.Join(dir, "rules.json")
	must.OK(t, os.WriteFile(secret, []byte("a-secret"), 0o600))
	must.OK(t, os.WriteFile(rules, []byte(`[{"match":{"hd":"acme.example","preferred_username":"*"},"companyId":"acme","personId":"{preferred_username}","roles":["admin"]}]`), 0o600))
	s := startService(t, "", "", "--federation-allow-private", "--oidc-issuer", provider, "--oidc-client-id", "attestd", "--oidc-client-secret-file", secret, "--oidc-rules", rules)
	s.company("acme")
	b := openBrowser(t, strings.Replace(s.base, "127.0.0.1", "localhost", 1))
	b.authenticator()
	at, err := url.Parse(provider)
	must.OK(t, err)
	b.provider.Store(&at.Host)
	b.goTo("#/start")
	b.press("Sign in with your company’s account")
	b.reads(`.top .who`, "Ann")
	b.reload()
	b.reads(`.top .who`, "Ann")
	b.goTo("#/people")
	b.reads(`[data-me]`, "by account")
	b.press("Add a passkey")
	b.shows(`[data-me] [data-passkey]`)
}
