package mcpserver_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/golang-jwt/jwt/v5"

	"attestd/agent/mcpserver"
	"attestd/crypto/jose/josetest"
	"attestd/internal/keysets"
	"attestd/internal/must"
	"attestd/sdk/attestd"
)

const (
	resource     = "https://mcp.example/mcp"
	metadataPath = "/.well-known/oauth-protected-resource/mcp"
	listens      = "127.0.0.1:1" // which the handler believes
)

// issuers is an attestd's issuers acme and zoo. Of a stranger it publishes no key.
type issuers struct {
	*httptest.Server
	keys    map[string]crypto.Signer // by their kid, which begins with the company
	down    atomic.Bool
	fetched atomic.Int64 // key sets
}

func newIssuers(t *testing.T) *issuers {
	t.Helper()
	i := &issuers{keys: map[string]crypto.Signer{}}
	for _, kid := range []string{"acme", "zoo", "stranger"} {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		must.OK(t, err)
		i.keys[kid] = k
	}
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	must.OK(t, err)
	rs, err := rsa.GenerateKey(rand.Reader, 2048)
	must.OK(t, err)
	i.keys["acme EdDSA"], i.keys["acme RS256"] = ed, rs
	mux := http.NewServeMux()
	mux.HandleFunc("GET /o/{company}/.well-known/openid-configuration", func(w http.ResponseWriter, r *http.Request) {
		if i.down.Load() {
			http.Error(w, "down", http.StatusBadGateway)
			return
		}
		of := i.of(r.PathValue("company"))
		fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q}`, of, of+"/jwks")
	})
	mux.HandleFunc("GET /o/{company}/jwks", func(w http.ResponseWriter, r *http.Request) {
		i.fetched.Add(1)
		var set jose.JSONWebKeySet
		for kid, k := range i.keys {
			if company, _, _ := strings.Cut(kid, " "); company == r.PathValue("company") {
				set.Keys = append(set.Keys, jose.JSONWebKey{Key: k.Public(), KeyID: kid, Use: "sig"})
			}
		}
		w.Header().Set("Cache-Control", "public, max-age=300")
		_, _ = w.Write(josetest.Marshal(t, set))
	})
	i.Server = httptest.NewServer(mux)
	t.Cleanup(i.Close)
	return i
}

func (i *issuers) of(company string) string { return i.URL + "/o/" + company }

// protected is the server of acme as a resource, with the tools of an attestd that cannot be
// reached, or of service.
func (i *issuers) protected(t *testing.T, url, service string) http.Handler {
	t.Helper()
	must.OK(t, mcpserver.CheckResource(url))
	sets := keysets.New(keysets.NewClient(keysets.Options{AllowPrivate: true}))
	t.Cleanup(sets.Close)
	client, err := attestd.New(attestd.Config{URL: service, Credential: attestd.Key("svc_k"), Retry: &attestd.Retry{}})
	must.OK(t, err)
	t.Cleanup(client.Close)
	return mcpserver.New(mcpserver.Config{Version: "1"}).Protected(&mcpserver.Resource{
		URL: url, Issuer: i.of("acme"), Company: "acme", Keys: sets, Service: client,
	}, "1")
}

const nowhere = "http://127.0.0.1:1"

// draft is an access token before it is signed.
type draft struct {
	kid    string
	method jwt.SigningMethod
	header map[string]any
	claims jwt.MapClaims
	secret any                 // instead of the key
	change func(string) string // afterwards
}

// sound is a token that is accepted.
func (i *issuers) sound() *draft {
	now := time.Now().Unix()
	return &draft{
		kid: "acme", method: jwt.SigningMethodES256, header: map[string]any{"typ": "at+jwt", "kid": "acme"},
		claims: jwt.MapClaims{
			"iss": i.of("acme"), "sub": "c1", "client_id": "c1", "aud": resource, "org": "acme", "scope": "writer", "jti": "j",
			"iat": now - 1, "exp": now + 300,
		},
	}
}

func (i *issuers) sign(t *testing.T, d *draft) string {
	t.Helper()
	token := jwt.NewWithClaims(d.method, d.claims)
	for name, value := range d.header {
		token.Header[name] = value
	}
	key := d.secret
	if key == nil {
		key = i.keys[d.kid]
	}
	signed, err := token.SignedString(key)
	must.OK(t, err)
	if d.change != nil {
		signed = d.change(signed)
	}
	return signed
}

// scoped is a sound token with a scope, of an agent where one is named.
func (i *issuers) scoped(t *testing.T, scope, agent string) string {
	t.Helper()
	d := i.sound()
	d.claims["scope"] = scope
	if agent != "" {
		d.claims["agent_id"] = agent
	}
	return i.sign(t, d)
}

const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`

// post sends a request with a bearer token, if there is one.
func post(h http.Handler, body, bearer string, change func(*http.Request)) (answer *http.Response, text string) {
	r := httptest.NewRequest(http.MethodPost, "http://"+listens+"/mcp", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if bearer != "" {
		r.Header.Set("Authorization", "Bearer "+bearer)
	}
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	all, _ := io.ReadAll(w.Result().Body)
	return w.Result(), strings.TrimSpace(string(all))
}
