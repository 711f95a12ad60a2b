package server_test

import (
	"crypto/rand"
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	josev4 "github.com/go-jose/go-jose/v4"
	josejwt "github.com/go-jose/go-jose/v4/jwt"

	"attestd/crypto/assertion"
	"attestd/crypto/jose"
	"attestd/internal/must"
)

// asserts signs an identity assertion of the person alice for a client, in which some claims are
// changed.
func (i *otherIssuer) asserts(t testing.TB, typ, audience, client string, changes claims) string {
	t.Helper()
	now := time.Now().Unix()
	all := claims{"iss": i.URL, "aud": audience, "sub": "alice", "client_id": client, "iat": now, "exp": now + 300, "jti": rand.Text()}
	maps.Copy(all, changes)
	maps.DeleteFunc(all, func(_ string, value any) bool { return value == nil })
	signer, err := josev4.NewSigner(josev4.SigningKey{Algorithm: josev4.RS256, Key: josev4.JSONWebKey{Key: i.key, KeyID: i.kid}}, (&josev4.SignerOptions{}).WithType(josev4.ContentType(typ)))
	must.OK(t, err)
	compact, err := josejwt.Signed(signer).Claims(all).Serialize()
	must.OK(t, err)
	return compact
}

const identityType = "oauth-id-jag+jwt"

// presents sends an identity assertion; more are pairs of a parameter and its value.
func (c caller) presents(t testing.TB, path, token string, more []string, headers ...string) *reply {
	t.Helper()
	params := append([]string{"grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion", token}, more...)
	return c.with("").do(t, "POST "+path, oauthForm(params...), append(headers, formType)...)
}

// idp is an identity provider that a company trusts for persons, with a client of the company.
type idp struct {
	*otherIssuer
	client oauthClient
}

func (c caller) idp(t testing.TB) idp {
	t.Helper()
	p := idp{newIssuer(t), c.oauthClient(t, "reader")}
	rules := `[{"match":{"client_id":"` + p.client.clientID + `","sub":"*"},"agentId":"assistant","person":true},{"match":{"sub":"alice"},"agentId":"workload"}]`
	c.do(t, "POST /v1/federation", federationBody("idp", p.URL, c.issuer(), rules)).status(201)
	c.agent(t, "assistant")
	c.agent(t, "workload")
	return p
}

// A client presents the identity assertion of a person, and gets a token of the agent that acts for
// that person: in records, introspection, exchanges and the control log.
func TestAgentActsForPerson(t *testing.T) {
	t.Parallel()
	s := start(t, privateFederation)
	acme := s.company(t, "acme")
	p := acme.idp(t)
	person, agentID := p.URL+"#alice", acme.companySPIFFE()+"/agent/assistant"
	assertion := p.asserts(t, identityType, acme.issuer(), p.client.clientID, claims{"scope": "agent other", "resource": acme.issuer()})
	answer := acme.presents(t, "/o/acme/token", assertion, []string{"scope", "agent"}, p.client.basic()).
		gets(200, `{"access_token":"…","token_type":"Bearer","expires_in":"<number>","scope":"agent"}`)
	token := answer.str("access_token")
	if n := answer.at("expires_in").(float64); n > 300 || n < 290 {
		t.Errorf("%v s of an assertion of 300 s", n)
	}
	agent := acme.with(token)
	jti := decoded(t, assertion, 1)["jti"].(string)
	want := `{"act":{"sub":"` + agentID + `"},"delegationChain":["` + person + `","` + agentID + `"],"subject":"` + person + `","tokenId":"` + jti + `"}`
	record := agent.do(t, "POST /v1/attest", `{"agentId":"assistant","actionType":"a","payload":1}`, "Idempotency-Key: k").status(201)
	if got, _ := json.Marshal(record.at("delegation")); string(got) != want {
		t.Errorf("the record has %s, want %s", got, want)
	}
	batch := agent.do(t, "POST /v1/attest/batch", `{"records":[{"agentId":"assistant","actionType":"b","payload":2}]}`)
	if got, _ := json.Marshal(batch.status(201).at("records", 0, "delegation")); string(got) != want {
		t.Errorf("the record of a batch has %s", got)
	}
	acme.do(t, "GET /v1/verify", "").has(`{"valid":true}`)
	if found := acme.do(t, "GET /v1/records?delegatedBy="+strings.ReplaceAll(person, "#", "%23"), "").status(200).at("records").([]any); len(found) != 2 {
		t.Errorf("%d records are found by the person", len(found))
	}
	acme.about(t, "acme", "introspect", token).gets(200, `{"active":true,"iss":"`+acme.issuer()+`","aud":"`+acme.issuer()+`","org":"acme","exp":"<number>","sub":"`+person+`",
		"client_id":"`+p.client.clientID+`","agent_id":"assistant","scope":"agent","token_type":"Bearer","act":{"sub":"`+agentID+`"}}`)
	log := string(acme.do(t, "GET /v1/chain?log=control", "").status(200).raw)
	if !strings.Contains(log, `"tokenSubject":"alice"`) || !strings.Contains(log, `"clientId":"`+p.client.clientID+`","federation":"idp"`) || !strings.Contains(log, `"issuer":"`+p.URL+`"`) {
		t.Errorf("the control log has %s", log)
	}

	// the agent's own tokens and keys are not the person's to give
	for _, call := range []string{"POST /v1/agents/assistant/token", "GET /v1/agents/assistant/svid", "POST /v1/agents/assistant/keys", "POST /v1/agents/assistant/passport/rotate"} {
		agent.do(t, call, "").gets(403, `{"error":"Forbidden: …","code":"FORBIDDEN_AGENT"}`)
	}
	agent.do(t, "POST /v1/attest", `{"agentId":"workload","actionType":"a","payload":1}`).status(403)
	svid := acme.do(t, "GET /v1/agents/assistant/svid", "").str("svid")
	withDelegation := func(token string) string {
		body, _ := json.Marshal(map[string]any{"agentId": "assistant", "actionType": "c", "payload": 1, "delegation": token})
		return string(body)
	}
	agent.do(t, "POST /v1/attest", withDelegation(svid)).gets(400, `{"error":"Invalid delegation: …another subject"}`)

	// another agent comes to act for the person, by exchange
	other := acme.agent(t, "other")
	passed := acme.exchanges(t, token, actor(other)...).status(200).str("access_token")
	if members := decoded(t, passed, 1); members["sub"] != person || members["act"].(map[string]any)["sub"] != acme.companySPIFFE()+"/agent/other" {
		t.Errorf("%v", members)
	}
	if got := acme.records(t, passed); !strings.Contains(got, `"delegationChain":["`+person+`","`+agentID+`","`+acme.companySPIFFE()+`/agent/other"]`) {
		t.Errorf("the record has %s", got)
	}
	agent.do(t, "POST /v1/attest", withDelegation(passed)).gets(400, `{"error":"Invalid delegation: …/agent/other…"}`)
	byItself := acme.exchanges(t, token).status(200).str("access_token")
	agent.do(t, "POST /v1/attest", withDelegation(byItself)).status(201)
	acme.namesForExchanges(t, "https://x.example")
	acme.exchanges(t, svid, actor(token)...).gets(400, `{"error":"invalid_request","error_description":"actor_token must be the actor's own…"}`)
	agent.exchanges(t, other).gets(400, `{"error":"invalid_request","error_description":"the access token is for a person…"}`)
	agent.exchanges(t, token, "audience", "https://x.example").has(`{"token_type":"Bearer"}`)
	acme.exchanges(t, token, "audience", "https://x.example").status(200)

	// the same key for another person is another request
	bob := acme.presents(t, "/v1/oauth/token", p.asserts(t, identityType, acme.issuer(), p.client.clientID, claims{"sub": "bob"}), nil, p.client.basic()).status(200).str("access_token")
	acme.with(bob).do(t, "POST /v1/attest", `{"agentId":"assistant","actionType":"a","payload":1}`, "Idempotency-Key: k").status(422)
	agent.do(t, "POST /v1/attest", `{"agentId":"assistant","actionType":"a","payload":1}`, "Idempotency-Key: k").sets("Idempotent-Replayed: true")

	// the agent ends no token of the client, and the client ends the agent's
	own := p.client.token(t)
	s.anyone().with(token).about(t, "acme", "revoke", own).gets(400, `{"error":"unauthorized_client","error_description":"…"}`)
	s.anyone().about(t, "acme", "revoke", bob, p.client.basic()).gets(200, `{}`)
	acme.with(bob).do(t, "POST /v1/attest", `{"agentId":"assistant","actionType":"a","payload":1}`).status(401)
	agent.do(t, "POST /v1/attest", `{"agentId":"assistant","actionType":"a","payload":1}`).status(201)
	acme.do(t, "DELETE /v1/oauth/clients/"+p.client.clientID, "").status(200)
	agent.do(t, "POST /v1/attest", `{"agentId":"assistant","actionType":"a","payload":1}`).status(401)
	acme.about(t, "acme", "introspect", token).gets(200, inactive)
}

// The matrix of refusals of identity assertions: none is accepted.
func TestRefusedIdentityAssertions(t *testing.T) {
	t.Parallel()
	s := start(t, privateFederation)
	acme, zoo := s.company(t, "acme"), s.company(t, "zoo")
	p := acme.idp(t)
	other, foreign := acme.oauthClient(t, "admin"), zoo.oauthClient(t, "admin")
	bot := acme.signer(t, "bot", jose.ES256)
	acme.do(t, "POST /v1/federation", federationBody("second", p.URL, "second", `[{"match":{"client_id":"`+p.client.clientID+`"},"agentId":"assistant","person":true}]`)).status(201)
	evil := newIssuer(t)
	now := time.Now().Unix()
	once := p.asserts(t, identityType, acme.issuer(), p.client.clientID, nil)
	acme.presents(t, "/o/acme/token", once, nil, p.client.basic()).status(200)
	id := p.client.clientID
	asserts := func(changes claims) string { return p.asserts(t, identityType, acme.issuer(), id, changes) }
	botAssertion := []string{"client_assertion_type", assertion.Type, "client_assertion", bot.assertion(t)}
	thumbprint := newKey(t, jose.ES256).Key().Thumbprint
	for name, test := range map[string]struct {
		token, path string
		more        []string
		header      string
		status      int
		want        string
	}{
		"no client":                     {token: asserts(nil), status: 401, want: "invalid_client presented by the client"},
		"secret wrong":                  {token: asserts(nil), more: []string{"client_id", id, "client_secret", "cs_x"}, status: 401, want: "invalid_client"},
		"client without a secret":       {token: asserts(nil), more: []string{"client_id", id}, status: 401, want: "invalid_client"},
		"API key":                       {token: asserts(nil), header: "Authorization: Bearer " + acme.credential, status: 401, want: "invalid_client"},
		"client's token":                {token: asserts(nil), header: "Authorization: Bearer " + p.client.token(t), status: 401, want: "invalid_client"},
		"another client":                {token: asserts(nil), header: other.basic(), want: "invalid_grant for another client"},
		"another company's client":      {token: asserts(nil), header: foreign.basic(), status: 401, want: "invalid_client"},
		"another company's, elsewhere":  {token: asserts(nil), path: "/v1/oauth/token", header: foreign.basic(), want: "invalid_grant not of the company"},
		"on another company's path":     {token: asserts(nil), path: "/o/zoo/token", header: foreign.basic(), want: "invalid_grant does not trust"},
		"agent as client":               {token: asserts(claims{"client_id": bot.spiffe()}), path: "/v1/oauth/token", more: botAssertion, want: "unauthorized_client"},
		"client_id of another":          {token: asserts(claims{"client_id": other.clientID}), want: "invalid_grant for another client"},
		"client_id of no rule":          {token: asserts(claims{"client_id": other.clientID}), header: other.basic(), want: "invalid_grant no rule"},
		"no client_id":                  {token: asserts(claims{"client_id": nil}), want: "invalid_grant client_id"},
		"replayed":                      {token: once, want: "invalid_grant used before"},
		"no jti":                        {token: asserts(claims{"jti": nil}), want: "invalid_grant jti"},
		"no iat":                        {token: asserts(claims{"iat": nil}), want: "invalid_grant iat"},
		"expired":                       {token: asserts(claims{"exp": now - 1}), want: "invalid_grant ended"},
		"no exp":                        {token: asserts(claims{"exp": nil}), want: "invalid_grant exp"},
		"more than a day":               {token: asserts(claims{"exp": now + 90000}), want: "invalid_grant a day ahead"},
		"from the future":               {token: asserts(claims{"iat": now + 600}), want: "invalid_grant iat"},
		"not yet valid":                 {token: asserts(claims{"nbf": now + 600}), want: "invalid_grant nbf"},
		"issuer that nobody trusts":     {token: evil.asserts(t, identityType, acme.issuer(), id, nil), want: "invalid_grant does not trust"},
		"signed by another":             {token: tampered(asserts(nil)), want: "invalid_grant"},
		"audience of another company":   {token: p.asserts(t, identityType, zoo.issuer(), id, nil), path: "/v1/oauth/token", want: "invalid_grant does not trust"},
		"audience of another, here":     {token: p.asserts(t, identityType, zoo.issuer(), id, nil), want: "invalid_grant aud"},
		"audience of the federation":    {token: p.asserts(t, identityType, "second", id, nil), want: "invalid_grant issuer of the company as aud"},
		"audience the token endpoint":   {token: p.asserts(t, identityType, acme.issuer()+"/token", id, nil), want: "invalid_grant aud"},
		"two audiences":                 {token: asserts(claims{"aud": []string{acme.issuer(), "x"}}), want: "invalid_grant exactly one aud"},
		"person of no form":             {token: asserts(claims{"sub": "a b"}), want: "invalid_grant sub"},
		"person that no rule names":     {token: asserts(claims{"sub": "a/b"}), want: "invalid_grant no rule"},
		"somebody acts already":         {token: asserts(claims{"act": claims{"sub": "x"}}), want: "invalid_grant act"},
		"scope without agent":           {token: asserts(claims{"scope": "admin"}), want: "invalid_grant scope"},
		"scope empty":                   {token: asserts(claims{"scope": ""}), want: "invalid_grant scope"},
		"scope asked for is wider":      {token: asserts(nil), more: []string{"scope", "admin"}, want: "invalid_scope"},
		"resource of another":           {token: asserts(claims{"resource": "https://x.example"}), want: "invalid_grant resource"},
		"ours and another's resource":   {token: asserts(claims{"resource": []string{acme.issuer(), "https://x.example"}}), want: "invalid_grant resource"},
		"resource is asked for":         {token: asserts(nil), more: []string{"resource", "https://x.example"}, want: "invalid_target"},
		"authorization details":         {token: asserts(claims{"authorization_details": []any{}}), want: "invalid_grant authorization_details"},
		"bound, without a proof":        {token: asserts(claims{"cnf": claims{"jkt": thumbprint}}), want: "invalid_grant bound"},
		"bound, proof of another key":   {token: asserts(claims{"cnf": claims{"jkt": thumbprint}}), more: []string{"DPoP"}, want: "invalid_grant bound"},
		"typ JWT, and no workload's":    {token: p.asserts(t, "JWT", acme.issuer(), id, claims{"sub": "carol"}), want: "invalid_grant no rule"},
		"typ at+jwt, and no workload's": {token: p.asserts(t, "at+jwt", acme.issuer(), id, claims{"sub": "carol"}), want: "invalid_grant no rule"},
		"typ that looks alike":          {token: p.asserts(t, "id-jag+jwt", acme.issuer(), id, nil), want: "invalid_grant typ"},
	} {
		path, header := test.path, test.header
		if path == "" {
			path = "/o/acme/token"
		}
		headers := []string{}
		if len(test.more) == 1 { // a proof of a key of its own
			test.more, headers = nil, append(headers, bot.proof(t, newKey(t, jose.ES256), "POST", path, ""))
		}
		if header == "" && test.more == nil && name != "no client" || header == "" && strings.Contains(name, "asked for") {
			header = p.client.basic()
		}
		if header != "" {
			headers = append(headers, header)
		}
		answer := acme.presents(t, path, test.token, test.more, headers...)
		var refused struct {
			Error       string `json:"error"`
			Description string `json:"error_description"`
		}
		must.OK(t, json.Unmarshal(answer.raw, &refused))
		kind, part, _ := strings.Cut(test.want, " ")
		if test.status == 0 {
			test.status = http.StatusBadRequest
		}
		if missing := answer.code == 400 && refused.Error == "invalid_request" && test.status == 401; !missing &&
			(answer.code != test.status || refused.Error != kind || !strings.Contains(refused.Description, part)) {
			t.Errorf("%s: %d %s, want %s", name, answer.code, answer.raw, test.want)
		}
		if strings.Contains(refused.Description, "alice") || strings.Contains(refused.Description, "carol") {
			t.Errorf("%s: the description quotes the assertion: %s", name, refused.Description)
		}
	}
	exchange := oauthForm("grant_type", grant, "subject_token", asserts(nil), "subject_token_type", jwtType)
	acme.with("").do(t, "POST /o/acme/token", exchange, p.client.basic(), formType).gets(400, `{"error":"invalid_request","error_description":"…jwt-bearer"}`)
	// with the typ of a workload the same claims are a workload's, whose rule is another
	workload := acme.federates(t, p.asserts(t, "JWT", acme.issuer(), id, nil)).status(200).str("access_token")
	record := acme.with(workload).do(t, "POST /v1/attest", `{"agentId":"workload","actionType":"a","payload":1}`).status(201)
	if strings.Contains(string(record.raw), "delegation") {
		t.Errorf("%s", record.raw)
	}
	for issuer, status := range map[string]int{"https://idp.example/a#b": 400, "idp": 400, "spiffe://attestd.local": 400, "https://idp.example": 201} {
		body := federationBody("x", issuer, "x", `[{"match":{"client_id":"cc_1"},"agentId":"a","person":true}]`)
		acme.do(t, "POST /v1/federation", strings.Replace(body, `"rules"`, `"jwks":`+string(p.jwks(t))+`,"rules"`, 1)).status(status)
	}
}

// A proof binds the token of a person's agent, and an assertion that is bound needs that key; a
// client with keys of its own presents assertions too.
func TestTokenForPersonIsBound(t *testing.T) {
	t.Parallel()
	s := start(t, privateFederation)
	acme := s.company(t, "acme")
	p := acme.idp(t)
	key := newKey(t, jose.ES256)
	proof := func(path, token string) string { return signer{caller: acme}.proof(t, key, "POST", path, token) }
	bound := p.asserts(t, identityType, acme.issuer(), p.client.clientID, claims{"cnf": claims{"jkt": key.Key().Thumbprint}})
	token := acme.presents(t, "/o/acme/token", bound, nil, p.client.basic(), proof("/o/acme/token", "")).has(`{"token_type":"DPoP"}`).str("access_token")
	const body = `{"agentId":"assistant","actionType":"a","payload":1}`
	acme.with(token).do(t, "POST /v1/attest", body).status(401)
	acme.with("").do(t, "POST /v1/attest", body, "Authorization: DPoP "+token, proof("/v1/attest", token)).contains(p.URL + "#alice")
	acme.about(t, "acme", "introspect", token).has(`{"token_type":"DPoP","cnf":{"jkt":"` + key.Key().Thumbprint + `"},"sub":"` + p.URL + `#alice"}`)
}
