package server_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"attestd/crypto/jose"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/server"
	"attestd/server/limit"
)

// certified is a caller with a client certificate and an optional further credential.
func (s *secure) certified(t testing.TB, id string, h2 bool, certs ...tls.Certificate) caller {
	t.Helper()
	return caller{service: &service{url: s.url, client: s.as(t, h2, certs...), log: s.log}, id: id}
}

const botURI = "spiffe://attestd.local/company/acme/agent/bot"

// A client certificate signs in as the agent that its SPIFFE ID names, with the role of an agent:
// it attests for itself alone, and nothing else of its company is open to it.
func TestClientCertificateSignsInAgent(t *testing.T) {
	t.Parallel()
	s := startTLS(t)
	acme := s.company(t, "acme")
	acme.agent(t, "bot")
	acme.agent(t, "other")
	for _, h2 := range []bool{false, true} {
		for _, ca := range []*testenv.CA{s.clientCA, s.clientCA.Intermediate(t)} {
			bot := s.certified(t, "acme", h2, ca.ClientPair(t, botURI))
			bot.do(t, "POST /v1/attest", `{"agentId":"bot","actionType":"deploy","payload":1}`).status(201)
			bot.do(t, "POST /v1/attest", `{"agentId":"other","actionType":"deploy","payload":1}`).status(403)
			bot.do(t, "GET /v1/agents/bot/svid", "").status(200)
			bot.do(t, "GET /v1/agents/other/svid", "").status(403)
			bot.do(t, "GET /v1/company", "").status(403)
			bot.do(t, "POST /v1/keys", "").status(403)
			bot.do(t, "GET /v1/chain", "").status(403)
			bot.do(t, "GET /v1/ws", "", handshake...).status(403)
			// a route of other kinds of callers is unaffected
			bot.do(t, "GET /v1/ca/public-key?companyId=acme", "").status(200)
		}
	}
	// at the OAuth endpoints too
	bot := s.certified(t, "acme", false, s.clientCA.ClientPair(t, botURI))
	bot.do(t, "POST /o/acme/introspect", "token=x", "Content-Type: application/x-www-form-urlencoded").gets(200, `{"active":false}`)
	if s.log.says("x509-svid") > 0 {
		t.Error("the log names certificates")
	}
}

// Each certificate that is not exactly right is refused with 401, even with a valid key.
func TestClientCertificateAttacks(t *testing.T) {
	t.Parallel()
	s := startTLS(t)
	acme := s.company(t, "acme")
	for _, agent := range []string{"bot", "off"} {
		acme.agent(t, agent)
	}
	s.company(t, "globex").agent(t, "elsewhere")
	acme.do(t, "POST /v1/agents/off/disable", "").status(200)
	uris := func(ids ...string) func(*x509.Certificate) {
		return func(c *x509.Certificate) {
			c.URIs = nil
			for _, id := range ids {
				u, err := url.Parse(id)
				must.OK(t, err)
				c.URIs = append(c.URIs, u)
			}
		}
	}
	raw := func(name string) func(*x509.Certificate) { // a URI that url.URL would spell otherwise
		return func(c *x509.Certificate) {
			c.URIs = nil
			c.ExtraExtensions = append(c.ExtraExtensions, sanOf(name))
		}
	}
	for name, pair := range map[string]tls.Certificate{
		"of another CA":           testenv.NewCA(t).ClientPair(t, botURI),
		"of another trust domain": s.clientCA.ClientPair(t, "spiffe://other.example/company/acme/agent/bot"),
		"of an unknown company":   s.clientCA.ClientPair(t, "spiffe://attestd.local/company/nobody/agent/bot"),
		"of the installation":     s.clientCA.ClientPair(t, "spiffe://attestd.local/company/@installation/agent/bot"),
		"of an unknown agent":     s.clientCA.ClientPair(t, "spiffe://attestd.local/company/acme/agent/elsewhere"),
		"self-signed":             testenv.SelfSigned(t, botURI),
		"of a disabled agent":     s.clientCA.ClientPair(t, "spiffe://attestd.local/company/acme/agent/off"),
		"of a company":            s.clientCA.ClientPair(t, "spiffe://attestd.local/company/acme"),
		"with a longer path":      s.clientCA.ClientPair(t, botURI+"/x"),
		"with a query":            s.clientCA.ClientPair(t, botURI+"?x=1"),
		"with an empty fragment":  s.clientCA.ClientPair(t, botURI, raw(botURI+"#")),
		"with a capital scheme":   s.clientCA.ClientPair(t, botURI, raw("SPIFFE"+botURI[6:])),
		"with escapes":            s.clientCA.ClientPair(t, botURI, raw(strings.Replace(botURI, "bot", "%62ot", 1))),
		"with two URIs":           s.clientCA.ClientPair(t, botURI, uris(botURI, botURI)),
		"with another URI":        s.clientCA.ClientPair(t, botURI, uris(botURI, "https://a.example/")),
		"without a URI":           s.clientCA.ClientPair(t, botURI, uris()),
		"expired": s.clientCA.ClientPair(t, botURI, func(c *x509.Certificate) {
			c.NotAfter = time.Now().Add(-time.Second)
		}),
		"not valid yet": s.clientCA.ClientPair(t, botURI, func(c *x509.Certificate) {
			c.NotBefore = time.Now().Add(time.Hour)
		}),
		"without a usage": s.clientCA.ClientPair(t, botURI, func(c *x509.Certificate) { c.ExtKeyUsage = nil }),
		"for servers":     s.clientCA.ClientPair(t, botURI, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }),
		"for anything":    s.clientCA.ClientPair(t, botURI, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageAny} }),
		"of a CA": s.clientCA.ClientPair(t, botURI, func(c *x509.Certificate) {
			c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign|x509.KeyUsageDigitalSignature
		}),
		"without digitalSignature": s.clientCA.ClientPair(t, botURI, func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageKeyAgreement }),
	} {
		t.Run(name, func(t *testing.T) {
			who := s.certified(t, "acme", false, pair)
			for _, c := range []caller{who, who.with(acme.credential), who.with("svc_wrong")} {
				r := c.do(t, "POST /v1/attest", `{"agentId":"bot","actionType":"a","payload":1}`).status(401).sets("WWW-Authenticate: Bearer …")
				if message, _ := r.json.(map[string]any)["error"].(string); c.credential != acme.credential && c.credential == "" && !strings.Contains(message, "certificate") {
					t.Errorf("the answer does not say why: %s", message)
				}
				c.do(t, "GET /v1/keys", "").status(401)
			}
			who.do(t, "GET /v1/health", "").status(200)
		})
	}
	if n := len(acme.checkChain(t)); n != 0 {
		t.Errorf("%d records were appended", n)
	}
}

// A further credential must be of the agent of the certificate, or the request is refused.
func TestClientCertificateWithCredential(t *testing.T) {
	t.Parallel()
	s := startTLS(t)
	acme := s.company(t, "acme")
	bot := acme.signer(t, "bot", jose.EdDSA).signsIn(t).credential
	other := acme.signer(t, "other", jose.EdDSA).signsIn(t).credential
	with := s.certified(t, "acme", true, s.clientCA.ClientPair(t, botURI))
	attest := `{"agentId":"bot","actionType":"a","payload":1}`
	with.with(bot).do(t, "POST /v1/attest", attest).status(201)
	for _, credential := range []string{acme.credential, acme.oauthToken(t), other} {
		with.with(credential).do(t, "POST /v1/attest", attest).status(401)
	}
	with.do(t, "POST /v1/attest", attest, "Authorization:").status(401)
	// at the token endpoint too
	client := acme.do(t, "POST /v1/oauth/clients", "").status(201)
	body := `{"grant_type":"client_credentials","client_id":"` + client.str("clientId") + `","client_secret":"` + client.str("clientSecret") + `"}`
	with.do(t, "POST /v1/oauth/token", body, "Content-Type: application/json").status(401)
	s.certified(t, "acme", true).do(t, "POST /v1/oauth/token", body, "Content-Type: application/json").status(200)
}

// A connection outlives its certificate and its agent: each request asks again.
func TestClientCertificateOnReusedConnection(t *testing.T) {
	t.Parallel()
	s := startTLS(t)
	acme := s.company(t, "acme")
	acme.agent(t, "bot")
	attest := `{"agentId":"bot","actionType":"a","payload":1}`
	bot := s.certified(t, "acme", true, s.clientCA.ClientPair(t, botURI))
	bot.do(t, "POST /v1/attest", attest).status(201)
	acme.do(t, "POST /v1/agents/bot/disable", "").status(200)
	bot.do(t, "POST /v1/attest", attest).status(401)
	acme.do(t, "POST /v1/agents/bot/enable", "").status(200)
	bot.do(t, "POST /v1/attest", attest).status(201)

	soon := s.certified(t, "acme", true, s.clientCA.ClientPair(t, botURI, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(2 * time.Second) }))
	soon.do(t, "POST /v1/attest", attest).status(201)
	for soon.do(t, "POST /v1/attest", attest).code == 201 && t.Context().Err() == nil {
	}
	soon.do(t, "POST /v1/attest", attest).status(401)

	// another CA replaces the one before
	must.OK(t, os.WriteFile(s.clientFile, testenv.NewCA(t).PEM(), 0o600))
	for bot.do(t, "POST /v1/attest", attest).code == 201 && t.Context().Err() == nil {
	}
	bot.do(t, "POST /v1/attest", attest).status(401)
	for !strings.Contains(string(acme.do(t, "GET /v1/chain?log=control", "").status(200).raw), `"clientCAs":{"from":"`) {
		if t.Context().Err() != nil {
			t.Fatal("the control log does not say that client CAs were changed")
		}
	}
}

// Limits count for the agent, whichever of its certificates it shows.
func TestClientCertificateLimits(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	s := startTLS(t, func(c *server.Config) {
		c.Limits = limit.Limits{Attest: 3, Standard: 1000, Sensitive: 1000, Log: 1000, Company: 10}
	})
	acme := s.company(t, "acme")
	acme.agent(t, "bot")
	acme.agent(t, "other")
	attest := func(agent string) int {
		c := s.certified(t, "acme", true, s.clientCA.ClientPair(t, strings.Replace(botURI, "bot", agent, 1)))
		return c.do(t, "POST /v1/attest", `{"agentId":"`+agent+`","actionType":"a","payload":1}`).code
	}
	for i, want := range []int{201, 201, 201, 429, 429} {
		if got := attest("bot"); got != want {
			t.Errorf("attestation %d: %d, want %d", i, got, want)
		}
	}
	if got := attest("other"); got != 201 {
		t.Errorf("another agent: %d", got)
	}
}

// sanOf is the extension with one URI among the names, as it is spelt.
func sanOf(uri string) pkix.Extension {
	value, err := asn1.Marshal([]asn1.RawValue{{Class: asn1.ClassContextSpecific, Tag: 6, Bytes: []byte(uri)}})
	if err != nil {
		panic(err)
	}
	return pkix.Extension{Id: asn1.ObjectIdentifier{2, 5, 29, 17}, Value: value}
}

// A client that sends more certificates than it may has no connection.
func TestClientCertificateSize(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	s := startTLS(t)
	pair := s.clientCA.ClientPair(t, botURI)
	for range 8 {
		pair.Certificate = append(pair.Certificate, s.clientCA.Cert.Raw)
	}
	req, err := http.NewRequest("GET", s.url+"/v1/health", nil)
	must.OK(t, err)
	res, err := s.as(t, false, pair).Do(req)
	if err == nil {
		res.Body.Close()
		t.Errorf("9 certificates: %d", res.StatusCode)
	}
}
