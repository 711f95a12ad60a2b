package interop

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/spiffe/go-spiffe/v2/bundle/jwtbundle"
	"github.com/spiffe/go-spiffe/v2/bundle/spiffebundle"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/svid/jwtsvid"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"attestd/internal/must"
)

// issuing registers a company with the agent bot.
func issuing(t *testing.T) *company {
	t.Helper()
	c := &company{client: &http.Client{Timeout: patience}, path: filepath.Join(t.TempDir(), "attestd.db")}
	c.base, _ = serve(t, c.path)
	var made struct{ APIKey string }
	c.ask(t, "POST", "/v1/companies", `{"companyId":"acme"}`, &made)
	c.key = made.APIKey
	c.ask(t, "POST", "/v1/agents/register", `{"agentId":"bot"}`, new(any))
	return c
}

// token issues a token for an audience.
func (c *company) token(t *testing.T, audience, algorithm string) string {
	t.Helper()
	var made struct{ Token string }
	c.ask(t, "POST", "/v1/agents/bot/token", `{"audience":"`+audience+`","alg":"`+algorithm+`"}`, &made)
	return made.Token
}

// go-oidc discovers the issuer and verifies its tokens, through rotations, and none of a
// compromised key once it has read the key set again.
func TestOIDCVerifiesTokens(t *testing.T) {
	t.Parallel()
	c := issuing(t)
	provider, err := oidc.NewProvider(t.Context(), c.base+"/o/acme")
	must.OK(t, err)
	verifier := provider.Verifier(&oidc.Config{ClientID: "https://mcp.example", SupportedSigningAlgs: []string{oidc.ES256, oidc.RS256, oidc.EdDSA}})
	var before string
	for range 2 {
		for _, algorithm := range []string{oidc.ES256, oidc.RS256, oidc.EdDSA} {
			before = c.token(t, "https://mcp.example", algorithm)
			token, err := verifier.Verify(t.Context(), before)
			must.OK(t, err)
			if token.Subject != "spiffe://attestd.local/company/acme/agent/bot" || token.Issuer != c.base+"/o/acme" {
				t.Errorf("%s: %+v", algorithm, token)
			}
			if _, err := verifier.Verify(t.Context(), c.token(t, "https://elsewhere.example", algorithm)); err == nil {
				t.Errorf("%s: a token for another audience is accepted", algorithm)
			}
		}
		c.ask(t, "POST", "/v1/companies/rotate-keys", "{}", new(any))
	}
	c.ask(t, "POST", "/v1/companies/rotate-keys", `{"compromised":true}`, new(any))
	after := c.token(t, "https://mcp.example", oidc.ES256)
	if _, err := verifier.Verify(t.Context(), after); err != nil {
		t.Errorf("after a theft: %v", err)
	}
	if _, err := verifier.Verify(t.Context(), before); err == nil {
		t.Error("a token of a compromised key is accepted with the new key set")
	}
}

// x/oauth2 gets access tokens of an OAuth client at the token endpoint of the metadata.
func TestOAuth2GetsTokens(t *testing.T) {
	t.Parallel()
	c := issuing(t)
	provider, err := oidc.NewProvider(t.Context(), c.base+"/o/acme")
	must.OK(t, err)
	var client struct{ ClientID, ClientSecret string }
	c.ask(t, "POST", "/v1/oauth/clients", `{"role":"reader"}`, &client)
	for _, style := range []oauth2.AuthStyle{oauth2.AuthStyleInHeader, oauth2.AuthStyleInParams} {
		config := clientcredentials.Config{ClientID: client.ClientID, ClientSecret: client.ClientSecret, TokenURL: provider.Endpoint().TokenURL, AuthStyle: style}
		answer, err := config.Client(t.Context()).Get(c.base + "/v1/company")
		must.OK(t, err)
		answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			t.Errorf("style %v: %s", style, answer.Status)
		}
	}
}

// x/oauth2 follows the metadata of the API as a resource (RFC 9728) to a token, and with that to an
// answer.
func TestOAuth2FollowsResourceMetadata(t *testing.T) {
	t.Parallel()
	c := issuing(t)
	var metadata struct {
		Resource string
		Servers  []string `json:"authorization_servers"`
	}
	c.ask(t, "GET", "/.well-known/oauth-protected-resource/o/acme", "", &metadata)
	provider, err := oidc.NewProvider(t.Context(), metadata.Servers[0])
	must.OK(t, err)
	var client struct{ ClientID, ClientSecret string }
	c.ask(t, "POST", "/v1/oauth/clients", `{"role":"reader"}`, &client)
	for resource, want := range map[string]int{metadata.Resource: http.StatusOK, "https://mcp.example": http.StatusUnauthorized} {
		config := clientcredentials.Config{ClientID: client.ClientID, ClientSecret: client.ClientSecret, TokenURL: provider.Endpoint().TokenURL,
			EndpointParams: url.Values{"resource": {resource}}}
		answer, err := config.Client(t.Context()).Get(c.base + "/v1/company")
		must.OK(t, err)
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("a token for %s: %s", resource, answer.Status)
		}
	}
}

// go-spiffe verifies a JWT-SVID with the company's bundle, as its own trust domain would hold it.
func TestSPIFFEVerifiesSVIDs(t *testing.T) {
	t.Parallel()
	c := issuing(t)
	domain := spiffeid.RequireTrustDomainFromString("attestd.local")
	sequence := uint64(0)
	for _, algorithm := range []string{"ES256", "RS256"} {
		var made struct{ SVID string }
		c.ask(t, "GET", "/v1/agents/bot/svid?alg="+algorithm+"&audience="+url.QueryEscape("spiffe://mesh.example/pay"), "", &made)
		text, err := c.do("GET", "/o/acme/spiffe-bundle", "")
		must.OK(t, err)
		bundle, err := spiffebundle.Read(domain, bytes.NewReader(text))
		must.OK(t, err)
		now, is := bundle.SequenceNumber()
		hint, has := bundle.RefreshHint()
		if !is || now <= sequence || !has || hint != 5*time.Minute {
			t.Errorf("sequence %d after %d, hint %v", now, sequence, hint)
		}
		sequence = now
		svid, err := jwtsvid.ParseAndValidate(made.SVID, jwtbundle.NewSet(bundle.JWTBundle()), []string{"spiffe://mesh.example/pay"})
		must.OK(t, err)
		if svid.ID.String() != "spiffe://attestd.local/company/acme/agent/bot" || !svid.Expiry.After(time.Now()) {
			t.Errorf("%+v", svid)
		}
		if _, err := jwtsvid.ParseAndValidate(made.SVID, jwtbundle.NewSet(bundle.JWTBundle()), []string{"elsewhere"}); err == nil {
			t.Error("an SVID for another audience is accepted")
		}
		token := c.token(t, "spiffe://mesh.example/pay", algorithm) // which is a JWT-SVID too
		if _, err := jwtsvid.ParseAndValidate(token, jwtbundle.NewSet(bundle.JWTBundle()), []string{"spiffe://mesh.example/pay"}); err != nil {
			t.Error(err)
		}
		c.ask(t, "POST", "/v1/companies/rotate-keys", "{}", new(any)) // by which the sequence grows
	}
	var set struct{ Keys []json.RawMessage }
	c.token(t, "a", "EdDSA")
	c.ask(t, "GET", "/o/acme/spiffe-bundle", "", &set)
	if text, err := json.Marshal(set.Keys); err != nil || len(set.Keys) < 2 || strings.Contains(string(text), "Ed25519") {
		t.Errorf("%s", text)
	}
}
