package server_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"attestd/crypto/assertion"
	"attestd/crypto/jose"
	"attestd/crypto/jose/josetest"
)

// serves makes an issuer's key set that of a client.
func (i *otherIssuer) serves(keys ...string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.answer = func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, `{"keys":[%s]}`, strings.Join(keys, ",")) }
}

func (i *otherIssuer) answers(answer http.HandlerFunc) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.answer = answer
}

// fetchedClient creates a client whose keys are at a URL, and returns its ID.
func (c caller) fetchedClient(t testing.TB, url string) string {
	t.Helper()
	return c.do(t, "POST /v1/oauth/clients", `{"role":"writer","jwksUri":"`+url+`"}`).
		gets(201, `{"clientId":"cc_…","companyId":"`+c.id+`","createdAt":"<time>"}`).str("clientId")
}

// signsIn presents an assertion of a client, in the name of the key's kid.
func (s *service) signsIn(t testing.TB, id string, key *jose.PrivateKey, kid string) *reply {
	t.Helper()
	text := josetest.Forge(t, key, josetest.Marshal(t, map[string]any{"alg": key.Key().Algorithm, "kid": kid}), josetest.Marshal(t, claims{
		"iss": id, "sub": id, "aud": s.url + "/v1/oauth/token", "jti": newKey(t, jose.EdDSA).Key().Thumbprint, "exp": time.Now().Unix() + 60,
	}))
	return s.anyone().do(t, tokenCall, oauthForm("grant_type", "client_credentials", "client_assertion_type", assertion.Type, "client_assertion", text), formType)
}

// A client whose keys are fetched signs in with them, also on its own company's paths. The list and
// the control log name it with their URL.
func TestClientSignsInWithFetchedKey(t *testing.T) {
	t.Parallel()
	s := start(t, privateFederation)
	acme, zoo := s.company(t, "acme"), s.company(t, "zoo")
	one, two := newKey(t, jose.ES256), newKey(t, jose.EdDSA)
	at := newIssuer(t)
	at.serves(withKID(one, "k1"), withKID(two, "k2"))
	id := acme.fetchedClient(t, at.URL+"/jwks")
	token := s.signsIn(t, id, one, "k1").gets(200, `{"access_token":"oauth_<secret>","token_type":"Bearer","expires_in":3600}`).str("access_token")
	acme.with(token).do(t, "POST /v1/attest", attestBody("a", "1", "")).status(201)
	acme.with(token).do(t, "POST /v1/keys", "").status(403)
	s.signsIn(t, id, two, "k2").status(200)
	s.signsIn(t, id, two, two.Key().Thumbprint).status(200)
	s.signsIn(t, id, two, "k1").gets(401, `{"error":"invalid_client","error_description":"client_assertion is signed with no key of a client"}`)
	s.signsIn(t, id, newKey(t, jose.ES256), "k1").status(401)
	s.signsIn(t, zoo.fetchedClient(t, at.URL+"/other"), one, "k1").status(401)
	secret := oauthForm("grant_type", "client_credentials", "client_id", id, "client_secret", "cs_"+strings.Repeat("A", 43))
	s.anyone().do(t, tokenCall, secret, formType).gets(401, `{"error":"invalid_client"}`)
	if n := at.asked.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}

	acme.do(t, "GET /v1/oauth/clients", "").gets(200, `{"clients":[{"clientId":"cc_…","createdAt":"<time>","jwksUri":"`+at.URL+`/jwks","keys":{"count":2,"fetchedAt":"<time>"}}]}`)
	log := acme.do(t, "GET /v1/records?log=control&action=oauth-client.created", "")
	log.contains(`"jwksUri":"` + at.URL + `/jwks"`)
	acme.do(t, "GET /v1/verify?log=control", "").has(`{"valid":true}`)
	acme.do(t, "DELETE /v1/oauth/clients/"+id, "").status(200)
	s.signsIn(t, id, one, "k1").status(401)
}

// What is no URL of a public key set is refused, and so are two places for one client's keys.
func TestClientKeyURLsAreChecked(t *testing.T) {
	t.Parallel()
	acme := start(t).company(t, "acme")
	for body, want := range map[string]string{
		`{"jwksUri":""}`: "must be a string that is not empty",
		`{"jwksUri":"http://client.example/jwks"}`:                               "must be an https URL",
		`{"jwksUri":"https://127.0.0.1/jwks"}`:                                   "address that is not public",
		`{"jwksUri":"https://[::ffff:10.0.0.1]/"}`:                               "address that is not public",
		`{"jwksUri":"https://169.254.169.254/"}`:                                 "address that is not public",
		`{"jwksUri":"https://u:p@client.example/"}`:                              "must not hold a password",
		`{"jwksUri":"https://client.example/#k"}`:                                "must not have a fragment",
		`{"jwksUri":"file:///etc/passwd"}`:                                       "absolute URL",
		`{"jwksUri":7}`:                                                          "jwksUri",
		`{"jwks_uri":"https://client.example/jwks"}`:                             "jwksUri",
		`{"jwksURI":"https://client.example/jwks"}`:                              "jwksUri",
		`{"jwksUri":"https://client.example/` + strings.Repeat("x", 2048) + `"}`: "2048 bytes",
		strings.Replace(jwksOf(newKey(t, jose.EdDSA).Key().JWK()), "{", `{"jwksUri":"https://client.example/",`, 1): "must not stand beside jwks",
	} {
		if answer := acme.do(t, "POST /v1/oauth/clients", body).status(400); !strings.Contains(answer.str("error"), want) {
			t.Errorf("%.80s: %s, want %q", body, answer.raw, want)
		}
	}
	acme.do(t, "GET /v1/oauth/clients", "").gets(200, `{"clients":[]}`)
	acme.do(t, "POST /v1/oauth/clients", `{"jwksUri":null}`).has(`{"clientSecret":"…"}`)
}

// A key set that redirects, has grown, is no key set or is at an internal address signs in no
// client, and the internal address gets no request. The list reports what failed.
func TestBadKeySetsOfClients(t *testing.T) {
	t.Parallel()
	key := newKey(t, jose.ES256)
	good := `{"keys":[` + withKID(key, "k1") + `]}`
	inner := newIssuer(t)
	inner.serves(withKID(key, "k1"))
	for does, test := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"redirects": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, inner.URL+"/jwks", http.StatusFound) }, "status 302"},
		"grows": {func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, strings.Replace(good, "{", "{"+strings.Repeat(" ", 64<<10), 1))
		}, "longer than 65536 bytes"},
		"is a page":     {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }, "not a JSON object"},
		"has no key":    {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"keys":[]}`) }, "has no key"},
		"has a private": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, `{"keys":[%s]}`, key.JWK()) }, "private key"},
		"is gone":       {http.NotFound, "status 404"},
		"breaks off":    {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "no whole answer"},
	} {
		t.Run(does, func(t *testing.T) {
			t.Parallel()
			s := start(t, privateFederation)
			acme, at := s.company(t, "acme"), newIssuer(t)
			at.answers(test.answer)
			id := acme.fetchedClient(t, at.URL+"/jwks")
			answer := s.signsIn(t, id, key, "k1").status(401)
			if text := answer.str("error_description"); !strings.Contains(text, "client_assertion cannot be checked: the key set cannot be fetched: ") || !strings.Contains(text, test.want) {
				t.Errorf("%s, want %q", answer.raw, test.want)
			}
			if listed := acme.do(t, "GET /v1/oauth/clients", "").status(200); !strings.Contains(listed.str("clients", 0, "keys", "failure"), test.want) {
				t.Errorf("%s, want %q", listed.raw, test.want)
			}
		})
	}
	t.Run("is within", func(t *testing.T) {
		t.Parallel()
		s := start(t)
		id := s.company(t, "acme").fetchedClient(t, "https://localhost"+strings.TrimPrefix(inner.URL, "http://127.0.0.1")+"/jwks")
		if answer := s.signsIn(t, id, key, "k1").status(401); !strings.Contains(answer.str("error_description"), "its address is not public") {
			t.Errorf("%s", answer.raw)
		}
	})
	t.Cleanup(func() {
		if n := inner.asked.Load(); n != 0 {
			t.Errorf("a server within was asked %d times", n)
		}
	})
}

// A key set that hangs costs its client's requests two seconds, at most eight at once, and another
// company's nothing.
func TestKeySetOfClientThatHangs(t *testing.T) {
	t.Parallel()
	s := start(t, privateFederation)
	acme, zoo := s.company(t, "acme"), s.company(t, "zoo")
	key := newKey(t, jose.ES256)
	bad, good := newIssuer(t), newIssuer(t)
	bad.answers(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	good.serves(withKID(key, "k1"))
	hangs, fetched := acme.fetchedClient(t, bad.URL+"/jwks"), zoo.fetchedClient(t, good.URL+"/jwks")
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			began := time.Now()
			answer := s.signsIn(t, hangs, key, "k1").status(503)
			if answer.str("code") != "NOT_DONE" || answer.header.Get("Retry-After") == "" || time.Since(began) > 4*time.Second {
				t.Errorf("%s after %v", answer.raw, time.Since(began))
			}
		})
	}
	for range 20 {
		s.signsIn(t, fetched, key, "k1").status(200)
	}
	acme.do(t, "POST /v1/attest", attestBody("a", "1", "")).status(201)
	wg.Wait()
	if n := bad.asked.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
}
