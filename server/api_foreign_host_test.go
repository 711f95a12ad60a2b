package server_test

import (
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"attestd/crypto/assertion"
	"attestd/crypto/cred"
	"attestd/crypto/jose"
	"attestd/crypto/jose/josetest"
	"attestd/internal/must"
	"attestd/server"
	"attestd/store/storetest"
)

// at is the agent as it believes to talk to the server at a URL.
func (a signer) at(url string) signer {
	a.service = &service{url: url}
	return a
}

// port is that of the server, with a colon.
func (s *service) port() string {
	u, _ := url.Parse(s.url)
	return ":" + u.Port()
}

// Without --base-url, what was made for another server counts nowhere here, whichever name and
// scheme a request has: no assertion, no proof, no token of another issuer. Nothing is signed in
// that name, and no document calls it the server's. Each refusal names the setting.
func TestUnknownHostIsNoIdentity(t *testing.T) {
	t.Parallel()
	s := start(t, privateFederation)
	acme := s.company(t, "acme")
	a := acme.signer(t, "bot", jose.EdDSA)
	bound := a.with("").do(t, tokenCall, signInBody(a.assertion(t)), "Content-Type: application/json", a.proof(t, a.key, "POST", "/v1/oauth/token", "")).status(200).str("access_token")
	svid := acme.do(t, "GET /v1/agents/bot/svid", "").str("svid")
	ci, person := newIssuer(t), acme.idp(t)
	clientKey := newKey(t, jose.ES256)
	keyClient := acme.do(t, "POST /v1/oauth/clients", jwksOf(withKID(clientKey, "k"))).status(201).str("clientId")
	secretClient := acme.oauthClient(t, "admin")
	reader := acme.with(acme.do(t, "POST /v1/keys", `{"role":"reader"}`).status(201).str("key"))
	opaque := secretClient.asks(t, []string{"scope", "reader"}).status(200).str("access_token")
	const sentence = "…set --base-url…"
	for host, proto := range map[string]string{
		"evil.example": "http", "evil.example" + s.port(): "http", "EVIL.example": "https", "localhost": "http", "localhost:1": "http",
		"127.0.0.1": "http", "[::1]:1": "http", "localhost.evil.example" + s.port(): "http", "10.0.0.1" + s.port(): "http", "0.0.0.0" + s.port(): "http",
	} {
		t.Run(host, func(t *testing.T) {
			theirs := a.at(proto + "://" + host)
			as := []string{"Host: " + host, "X-Forwarded-Proto: " + proto, "X-Forwarded-Host: " + host}
			with := func(more ...string) []string { return append(more, as...) }
			const asJSON = "Content-Type: application/json"

			// nothing counts that was made for that server
			s.anyone().do(t, tokenCall, signInBody(theirs.assertion(t)), with(asJSON)...).gets(401, `{"error":"invalid_client","error_description":"`+sentence+`"}`)
			for _, audience := range []string{"/o/acme", "/o/acme/token"} {
				text, err := assertion.Make(t.Context(), a.key, a.spiffe(), theirs.url+audience, time.Now())
				must.OK(t, err)
				s.anyone().do(t, "POST /o/acme/token", signInBody(text), with(asJSON)...).gets(401, `{"error":"invalid_client","error_description":"`+sentence+`"}`)
			}
			ofClient := josetest.Forge(t, clientKey, []byte(`{"alg":"ES256","kid":"k"}`), josetest.Marshal(t, claims{
				"iss": keyClient, "sub": keyClient, "aud": theirs.url + "/v1/oauth/token", "jti": "j", "exp": time.Now().Unix() + 60}))
			s.anyone().do(t, tokenCall, signInBody(ofClient), with(asJSON)...).gets(401, `{"error":"invalid_client","error_description":"`+sentence+`"}`)
			secretClient.asks(t, nil, with(theirs.proof(t, a.key, "POST", "/v1/oauth/token", ""))...).gets(400, `{"error":"invalid_dpop_proof","error_description":"`+sentence+`"}`)
			a.with("").do(t, "GET "+a.keys(), "", with("Authorization: DPoP "+bound, theirs.proof(t, a.key, "GET", a.keys(), bound))...).
				gets(401, `{"error":"Unauthorized: `+sentence+`","code":"INVALID_DPOP_PROOF"}`)
			next := newKey(t, jose.EdDSA)
			acme.do(t, "POST "+a.keys(), enrolBody(next), with(theirs.proof(t, next, "POST", a.keys(), ""))...).gets(400, `{"error":"`+sentence+`","code":"INVALID_DPOP_PROOF"}`)
			s.anyone().do(t, tokenCall, assertionBody(ci.token(t, theirs.url+"/o/acme", nil)), with(asJSON)...).gets(400, `{"error":"invalid_grant","error_description":"`+sentence+`"}`)
			for _, audience := range []string{theirs.url + "/o/acme", "acme", "/o/acme"} {
				token := person.asserts(t, identityType, audience, person.client.clientID, nil)
				who := []string{"client_id", person.client.clientID, "client_secret", person.client.secret}
				acme.presents(t, "/v1/oauth/token", token, who, as...).gets(400, `{"error":"invalid_grant","error_description":"`+sentence+`"}`)
				acme.presents(t, "/o/acme/token", token, who, as...).status(400)
			}

			// nothing is signed in its name
			acme.do(t, "POST /v1/agents/bot/token", `{"audience":"a"}`, as...).gets(421, `{"error":"Misdirected Request: `+sentence+`","code":"NAME_UNKNOWN"}`)
			acme.do(t, "GET /v1/agents/bot/svid?audience=a", "", as...).status(421)
			secretClient.asks(t, []string{"resource", "https://mcp.example"}, as...).gets(400, `{"error":"invalid_request","error_description":"`+sentence+`"}`)
			exchange := oauthForm("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange", "subject_token", svid, "subject_token_type", "urn:ietf:params:oauth:token-type:jwt")
			acme.do(t, tokenCall, exchange, with(formType)...).gets(400, `{"error":"invalid_request","error_description":"`+sentence+`"}`)

			// no document calls the name the server's
			for _, path := range []string{
				"/.well-known/oauth-authorization-server/o/acme", "/.well-known/openid-configuration/o/acme", "/o/acme/.well-known/openid-configuration",
				"/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/o/acme",
			} {
				s.anyone().do(t, "GET "+path, "", as...).gets(421, `{"error":"Misdirected Request: `+sentence+`","code":"NAME_UNKNOWN"}`).sets("Cache-Control: no-store")
			}
			r := acme.do(t, "POST /o/acme/introspect", oauthForm("token", opaque), with(formType)...).has(`{"active":true}`)
			if strings.Contains(string(r.raw), `"iss"`) || strings.Contains(string(r.raw), `"aud"`) {
				t.Errorf("%s", r.raw)
			}
			reader.do(t, "POST /v1/keys", "", as...).status(403).sets(`WWW-Authenticate: Bearer error="insufficient_scope", scope="admin"`)

			// what has no name in it goes on, and the specified document has that of the request
			acme.do(t, "POST /v1/attest", attestBody("a", "1", ""), as...).status(201)
			secretClient.asks(t, nil, as...).status(200)
			s.keySetOf(t, "/o/acme/jwks")
			s.anyone().do(t, "GET /v1/ca/well-known?companyId=acme", "", as...).has(`{"issuer":"spiffe://attestd.local/ca","jwks_uri":"` + theirs.url + `/v1/ca/public-key?companyId=acme"}`)
		})
	}
}

// Loopback names with the server's port are its own, in any spelling. The scheme is that of the
// connection, or what a trusted proxy says.
func TestOwnNamesWithoutBaseURL(t *testing.T) {
	t.Parallel()
	for _, proxies := range []string{"", "127.0.0.0/8"} {
		s := start(t, func(c *server.Config) {
			if proxies != "" {
				c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix(proxies)}
			}
		})
		a := s.company(t, "acme").signer(t, "bot", jose.EdDSA)
		for host, name := range map[string]string{"localhost": "localhost", "LOCALHOST": "localhost", "127.0.0.1": "127.0.0.1", "127.9.9.9": "127.9.9.9", "[::1]": "[::1]", "[::ffff:127.0.0.1]": "127.0.0.1"} {
			for _, proto := range []string{"", "http", "https", "javascript"} {
				headers := []string{"Host: " + host + s.port()}
				if proto != "" {
					headers = append(headers, "X-Forwarded-Proto: "+proto)
				}
				ours, others := "http://"+name+s.port(), "https://"+name+s.port()
				if proxies != "" && proto == "https" {
					ours, others = others, ours
				}
				s.anyone().do(t, "GET /o/acme/.well-known/openid-configuration", "", headers...).has(`{"issuer":"` + ours + `/o/acme"}`)
				headers = append(headers, "Content-Type: application/json")
				s.anyone().do(t, tokenCall, signInBody(a.at(ours).assertion(t)), headers...).status(200)
				s.anyone().do(t, tokenCall, signInBody(a.at(others).assertion(t)), headers...).status(401)
			}
		}
	}
}

// The issuer of SVIDs names one service where its trust domain was chosen. The default one is that
// of many, so an assertion for its issuer may have been made for another of them.
func TestSVIDIssuerAsAudience(t *testing.T) {
	t.Parallel()
	for domain, status := range map[string]int{"": 401, cred.DefaultTrustDomain: 401, "id.example": 200} {
		s := startOn(t, storetest.New(t), cred.Domain{TrustDomain: domain, Service: "service"})
		a := s.company(t, "acme").signer(t, "bot", jose.EdDSA)
		if domain == "" {
			domain = cred.DefaultTrustDomain
		}
		text, err := assertion.Make(t.Context(), a.key, "spiffe://"+domain+"/company/acme/agent/bot", "spiffe://"+domain+"/ca", time.Now())
		must.OK(t, err)
		s.anyone().do(t, tokenCall, signInBody(text), "Content-Type: application/json").status(status)
	}
}
