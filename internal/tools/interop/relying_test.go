package interop

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	capjwt "github.com/hashicorp/cap/jwt"
	"github.com/spiffe/go-spiffe/v2/bundle/jwtbundle"
	"github.com/spiffe/go-spiffe/v2/bundle/spiffebundle"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/svid/jwtsvid"

	"attestd/crypto/assertion"
	"attestd/crypto/dpop"
	"attestd/crypto/jose"
	"attestd/internal/must"
)

// relying are the audiences of those who verify our tokens, as docs/identity/tokens-for-others.md
// names them. Every audience on the pages about identity is one of these.
func relying(t *testing.T) (audiences []string) {
	t.Helper()
	const pageOfTable = "../../../docs/identity/tokens-for-others.md"
	page, err := os.ReadFile(pageOfTable)
	must.OK(t, err)
	_, table, begins := strings.Cut(string(page), "<!-- relying parties -->")
	table, _, ends := strings.Cut(table, "<!-- /relying parties -->")
	if !begins || !ends {
		t.Fatalf("%s has no table of relying parties", pageOfTable)
	}
	for _, row := range regexp.MustCompile("(?m)^\\| [^|]+ \\| `([^`]+)` \\|").FindAllStringSubmatch(table, -1) {
		audiences = append(audiences, row[1])
	}
	pages, err := filepath.Glob("../../../docs/identity/*.md")
	must.OK(t, err)
	used := 0
	for _, name := range append(pages, "../../../docs/identity.md") {
		text, err := os.ReadFile(name)
		must.OK(t, err)
		used += usesOf(t, name, string(text), audiences)
	}
	if used < 10 {
		t.Errorf("only %d examples ask for a token for one of them", used)
	}
	if len(audiences) < 9 {
		t.Errorf("only %q are named", audiences)
	}
	return audiences
}

var audienceOf = regexp.MustCompile(`(?:--client-id-list|--allowed-audiences|--audiences?|resource=|audience=|audiences: \[|"bound_audiences": "|:aud": ")\s*([^\s\]",&]+)`)

// usesOf counts the audiences for which the code on a page asks for tokens. Each is a named one.
func usesOf(t *testing.T, page, text string, audiences []string) (uses int) {
	t.Helper()
	for i, block := range strings.Split(text, "```") {
		for _, found := range audienceOf.FindAllStringSubmatch(block, -1) {
			// a workload's token is for the issuer, which verifies it itself
			ours := strings.HasPrefix(found[1], "https://attest.example.com/o/")
			if isCode := i%2 == 1; !isCode || ours {
				continue
			}
			if uses++; !slices.Contains(audiences, found[1]) {
				t.Errorf("%s asks for a token for %s, which the table does not name", page, found[1])
			}
		}
	}
	return uses
}

// member is an agent with a key of its own that has signed in.
type member struct {
	*company
	name, id string
	key      *jose.PrivateKey
	token    string // its access token
}

func (c *company) member(t *testing.T, name string) member {
	t.Helper()
	m := member{c, name, "spiffe://attestd.local/company/acme/agent/" + name, nil, ""}
	c.ask(t, "POST", "/v1/agents/register", `{"agentId":"`+name+`"}`, new(any))
	var err error
	m.key, err = jose.GenerateKey(jose.ES256)
	must.OK(t, err)
	path := "/v1/agents/" + name + "/keys"
	proof, err := dpop.Make(t.Context(), m.key, dpop.Request{Method: "POST", URL: c.base + path}, time.Now())
	must.OK(t, err)
	if status, answer := c.send(t, "POST", path, `{"jwk":`+m.key.Key().JWK()+`}`, c.key, "DPoP", proof); status != http.StatusCreated {
		t.Fatalf("enrol: %d %s", status, answer)
	}
	_, answer := c.send(t, "POST", "/o/acme/token", m.signIn(t, nil), "")
	m.token = m.issued(t, answer)[0]
	return m
}

// send sends a request with a credential, if any; headers are pairs.
func (c *company) send(t *testing.T, method, path, body, credential string, headers ...string) (status int, answer []byte) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, c.base+path, strings.NewReader(body))
	must.OK(t, err)
	r.Header.Set("Content-Type", "application/json")
	if !strings.HasPrefix(body, "{") {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if credential != "" {
		r.Header.Set("Authorization", "Bearer "+credential)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := c.client.Do(r)
	must.OK(t, err)
	defer res.Body.Close()
	var text bytes.Buffer
	_, err = text.ReadFrom(res.Body)
	must.OK(t, err)
	return res.StatusCode, text.Bytes()
}

// signIn is a request for an access token, with more parameters.
func (m member) signIn(t *testing.T, more url.Values) string {
	t.Helper()
	text, err := assertion.Make(t.Context(), m.key, m.id, m.base+"/o/acme", time.Now())
	must.OK(t, err)
	form := url.Values{"grant_type": {"client_credentials"}, "client_assertion_type": {assertion.Type}, "client_assertion": {text}}
	for name, values := range more {
		form[name] = values
	}
	return form.Encode()
}

// issued returns the tokens in an answer; none of a refusal.
func (m member) issued(t *testing.T, answer []byte) (tokens []string) {
	t.Helper()
	var members map[string]any
	must.OK(t, json.Unmarshal(answer, &members))
	for _, name := range []string{"token", "svid", "access_token"} {
		if text, is := members[name].(string); is {
			tokens = append(tokens, text)
		}
	}
	return tokens
}

// held are tokens of an agent that another one may have been handed, in any way: those of its own
// for each audience, and those with which the other one was allowed to act.
func (m member) held(t *testing.T, audiences []string, other member) (tokens []string) {
	t.Helper()
	add := func(method, path, body, credential string) {
		_, answer := m.send(t, method, path, body, credential)
		tokens = append(tokens, m.issued(t, answer)...)
	}
	ours := m.base + "/o/acme"
	tokens = append(tokens, m.token)
	add("GET", "/v1/agents/"+m.name+"/svid", "", m.token)
	for _, audience := range append([]string{ours}, audiences...) {
		add("POST", "/v1/agents/"+m.name+"/token", `{"audience":"`+audience+`"}`, m.token)
		add("GET", "/v1/agents/"+m.name+"/svid?audience="+url.QueryEscape(audience), "", m.token)
		add("POST", "/o/acme/token", m.signIn(t, url.Values{"resource": {audience}}), "")
	}
	for _, may := range []string{"", other.id} {
		form := exchangeOf(m.token, "")
		if may != "" {
			form.Set("may_act", may)
		}
		add("POST", "/o/acme/token", form.Encode(), m.token)
	}
	add("POST", "/v1/token-exchange", `{"agentId":"`+m.name+`","actingOn":"acme","scope":"pay"}`, m.company.key)
	return tokens
}

func exchangeOf(subject, audience string) url.Values {
	kind := "urn:ietf:params:oauth:token-type:jwt"
	if strings.HasPrefix(subject, "oauth_") {
		kind = "urn:ietf:params:oauth:token-type:access_token"
	}
	form := url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:token-exchange"}, "subject_token": {subject}, "subject_token_type": {kind}}
	if audience != "" {
		form.Set("audience", audience)
	}
	return form
}

// gets asks, as an agent, for all that it can get for an audience, with the tokens that it holds.
func (m member) gets(t *testing.T, audience string, held []string, other member) (tokens []string) {
	t.Helper()
	ask := func(method, path, body, credential string) {
		_, answer := m.send(t, method, path, body, credential)
		tokens = append(tokens, m.issued(t, answer)...)
	}
	for _, agent := range []string{m.name, other.name} {
		for _, algorithm := range []string{"ES256", "RS256", "EdDSA"} {
			ask("POST", "/v1/agents/"+agent+"/token", `{"audience":"`+audience+`","alg":"`+algorithm+`"}`, m.token)
			ask("GET", "/v1/agents/"+agent+"/svid?alg="+algorithm+"&audience="+url.QueryEscape(audience), "", m.token)
		}
		ask("POST", "/v1/agents/"+agent+"/token", `{"audience":["`+audience+`","another"]}`, m.token)
	}
	ask("POST", "/o/acme/token", m.signIn(t, url.Values{"resource": {audience}}), "")
	for _, subject := range append([]string{m.token}, held...) {
		for _, as := range []url.Values{{"audience": {audience}}, {"resource": {audience}}, {"audience": {audience}, "may_act": {m.id}}, {"audience": {audience}, "requested_token_type": {"urn:ietf:params:oauth:token-type:jwt"}}} {
			form := exchangeOf(subject, "")
			for name, values := range as {
				form[name] = values
			}
			ask("POST", "/o/acme/token", form.Encode(), m.token)
		}
	}
	return tokens
}

// verifier is a third-party library as its users configure it: with issuer and audience. It returns
// the subject of a token.
type verifier struct {
	name   string
	verify func(token, audience string) (subject string, err error)
}

func verifiers(t *testing.T, c *company) []verifier {
	t.Helper()
	issuer := c.base + "/o/acme"
	provider, err := oidc.NewProvider(t.Context(), issuer)
	must.OK(t, err)
	keys, err := capjwt.NewOIDCDiscoveryKeySet(t.Context(), issuer, "")
	must.OK(t, err)
	validator, err := capjwt.NewValidator(keys)
	must.OK(t, err)
	domain := spiffeid.RequireTrustDomainFromString("attestd.local")
	text, err := c.do("GET", "/o/acme/spiffe-bundle", "")
	must.OK(t, err)
	bundle, err := spiffebundle.Read(domain, bytes.NewReader(text))
	must.OK(t, err)
	return []verifier{
		{"go-oidc", func(token, audience string) (string, error) {
			read, err := provider.Verifier(&oidc.Config{ClientID: audience, SupportedSigningAlgs: []string{oidc.ES256, oidc.RS256, oidc.EdDSA}}).Verify(t.Context(), token)
			if err != nil {
				return "", err
			}
			return read.Subject, nil
		}},
		{"hashicorp/cap", func(token, audience string) (string, error) {
			claims, err := validator.Validate(t.Context(), token, capjwt.Expected{
				Issuer: issuer, Audiences: []string{audience}, SigningAlgorithms: []capjwt.Alg{capjwt.ES256, capjwt.RS256, capjwt.EdDSA},
			})
			return fmt.Sprint(claims["sub"]), err
		}},
		{"go-spiffe", func(token, audience string) (string, error) {
			svid, err := jwtsvid.ParseAndValidate(token, jwtbundle.NewSet(bundle.JWTBundle()), []string{audience})
			if err != nil {
				return "", err
			}
			return svid.ID.String(), nil
		}},
	}
}

// claimsOf decodes a part of a JWT.
func claimsOf(t *testing.T, token string, part int) (claims struct {
	Type  string `json:"typ"`
	Agent string `json:"agent_id"`
	Act   *struct{ Sub string }
}) {
	t.Helper()
	text, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[part])
	must.OK(t, err)
	must.OK(t, json.Unmarshal(text, &claims))
	return claims
}

// For whatever audience an agent asks, and whatever tokens of others it holds, those who verify its
// tokens identify it only as itself. Where an admin has named the audiences for exchanges, they
// identify it as the other one: then each such token says who acts by its typ, act and agent_id, on
// which the conditions of docs/identity/tokens-for-others.md rest.
func TestVerifiersTakeAgentsForThemselves(t *testing.T) {
	t.Parallel()
	audiences := relying(t)
	c := issuing(t)
	planner, runner := c.member(t, "planner"), c.member(t, "runner")
	held := planner.held(t, audiences, runner)
	if len(held) < 2*len(audiences) {
		t.Fatalf("runner holds %d tokens", len(held))
	}
	for _, algorithm := range []string{"ES256", "RS256", "EdDSA"} {
		c.token(t, "x", algorithm) // whose key is published from then on
	}
	all := verifiers(t, c)
	// take returns how many tokens of runner each library takes, and calls another for those with
	// another subject.
	take := func(another func(v verifier, audience, token, subject string)) map[string]int {
		accepted := map[string]int{}
		for _, audience := range audiences {
			for _, token := range runner.gets(t, audience, held, planner) {
				if strings.Count(token, ".") != 2 {
					continue // opaque, and for this service alone
				}
				for _, v := range all {
					subject, err := v.verify(token, audience)
					if err != nil {
						continue
					}
					accepted[v.name+" for "+audience]++
					if subject != runner.id {
						another(v, audience, token, subject)
					}
				}
			}
		}
		return accepted
	}
	accepted := take(func(v verifier, audience, token, subject string) {
		t.Errorf("%s takes runner for %s at %s: %s", v.name, subject, audience, token)
	})
	for _, v := range all {
		for _, audience := range audiences {
			if accepted[v.name+" for "+audience] < 4 {
				t.Errorf("%s takes %d tokens of runner for %s: the test shows nothing", v.name, accepted[v.name+" for "+audience], audience)
			}
		}
	}

	named, err := json.Marshal(map[string][]string{"exchangeAudiences": audiences})
	must.OK(t, err)
	_, err = c.do("PUT", "/v1/company/policy", string(named))
	must.OK(t, err)
	mistaken := map[string]int{}
	take(func(v verifier, audience, token, subject string) {
		mistaken[audience]++
		header, claims := claimsOf(t, token, 0), claimsOf(t, token, 1)
		if v.name == "go-spiffe" || header.Type != "at+jwt" || claims.Act == nil || claims.Act.Sub != runner.id || claims.Agent != "runner" {
			t.Errorf("%s takes runner for %s at %s, and nothing in the token says that runner acts: %s", v.name, subject, audience, token)
		}
	})
	for _, audience := range audiences {
		if mistaken[audience] == 0 {
			t.Errorf("nothing is exchanged for %s, which is named: the test shows nothing", audience)
		}
	}
}
