package server_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"attestd/crypto/jose"
	"attestd/internal/must"
)

const accessType = "urn:ietf:params:oauth:token-type:access_token"

// exchanges asks the token endpoint for an exchange of tokens of the company; more are pairs of a
// parameter and its value, where a value of - leaves the parameter out.
func (c caller) exchanges(t testing.TB, subject string, more ...string) *reply {
	t.Helper()
	var headers []string
	params := []string{"grant_type", grant, "subject_token", subject, "subject_token_type", typeOf(subject)}
	for i := 0; i < len(more); i += 2 {
		switch at := slices.Index(params, more[i]); {
		case more[i] == "header":
			headers = append(headers, more[i+1])
			continue
		case at >= 0 && at%2 == 0 && more[i] != "audience" && more[i] != "resource":
			params = slices.Delete(params, at, at+2)
		}
		if more[i+1] != "-" {
			params = append(params, more[i], more[i+1])
		}
	}
	return c.do(t, "POST /o/"+c.id+"/token", oauthForm(params...), append(headers, formType)...)
}

func typeOf(token string) string {
	if strings.HasPrefix(token, "oauth_") {
		return accessType
	}
	return jwtType
}

// actor are the parameters of an actor token.
func actor(token string) []string {
	return []string{"actor_token", token, "actor_token_type", typeOf(token)}
}

// namesForExchanges makes these all the audiences for which the company exchanges tokens.
func (c caller) namesForExchanges(t testing.TB, audiences ...string) {
	t.Helper()
	body, err := json.Marshal(map[string][]string{"exchangeAudiences": append([]string{}, audiences...)})
	must.OK(t, err)
	c.do(t, "PUT /v1/company/policy", string(body)).status(200)
}

// A change of the company's policy leaves what it does not name, and what is wrong with one leaves
// everything.
func TestCompanyNamesAudiences(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	const call = "PUT /v1/company/policy"
	acme.do(t, call, `{"exchangeAudiences":["vault","https://b.example","https://a.example/x"]}`).
		gets(200, `{"attest":"any","exchangeAudiences":["https://a.example/x","https://b.example","vault"],"decisions":"denied","changes":"any"}`)
	acme.do(t, call, `{"attest":"key"}`).gets(200, `{"attest":"key","exchangeAudiences":["https://a.example/x","https://b.example","vault"],"decisions":"denied","changes":"any"}`)
	acme.create(t, "writer", "").do(t, call, `{"exchangeAudiences":[]}`).status(403)
	records := len(acme.controlRecords(t))

	list := func(count int, form string) string {
		var all []string
		for i := range count {
			all = append(all, fmt.Sprintf(form, i))
		}
		body, err := json.Marshal(map[string]any{"exchangeAudiences": all})
		must.OK(t, err)
		return string(body)
	}
	long := strings.Repeat("a", 1021)
	for _, body := range []string{
		``, `{}`, `{"exchangeAudiences":null}`, `{"exchangeAudiences":"vault"}`, `{"exchangeAudiences":[1]}`,
		`{"exchangeAudiences":[""]}`, `{"exchangeAudiences":["a b"]}`, `{"exchangeAudiences":["ä"]}`, `{"exchangeAudiences":["a\u0000"]}`,
		`{"exchangeAudiences":["vault","vault"]}`,
		`{"exchangeAudiences":["https://"]}`, `{"exchangeAudiences":["HTTPS://a.example#b"]}`, `{"exchangeAudiences":["https://a:b@c.example"]}`, `{"exchangeAudiences":["https:a.example"]}`,
		`{"exchangeAudiences":[],"dryRun":true}`, `{"exchangeAudiences":[],"attest":"key","dryRun":true}`,
		`{"exchangeAudiences":[],"attest":"some"}`, `{"exchangeAudiences":[],"audiences":[]}`,
		list(65, "a%d"), list(1, long+"%04d"), list(17, long+"%02d"),
	} {
		acme.do(t, call, body).status(400)
	}
	// as it is
	acme.do(t, call, `{"attest":"key","exchangeAudiences":["vault","https://a.example/x","https://b.example"]}`).status(200)
	if now := len(acme.controlRecords(t)); now != records {
		t.Errorf("what changed nothing made %d control records", now-records)
	}

	acme.do(t, call, list(64, "a%d")).status(200)
	acme.do(t, call, list(16, long+"%03d")).status(200)
	acme.do(t, call, `{"exchangeAudiences":[],"decisions":"denied"}`).gets(200, `{"attest":"key","exchangeAudiences":[],"decisions":"denied","changes":"any"}`)
	s.company(t, "other").do(t, call, `{"attest":"any"}`).gets(200, `{"attest":"any","exchangeAudiences":[],"decisions":"denied","changes":"any"}`)
}

// actedBy is an action of an agent with a delegation.
func actedBy(agent, token string) string {
	body, _ := json.Marshal(map[string]any{"agentId": agent, "actionType": "a", "payload": 1, "delegation": token})
	return string(body)
}

// currentActor is the agent that acts with a token of either nesting, or "".
func currentActor(t testing.TB, token string) string {
	t.Helper()
	act, _ := decoded(t, token, 1)["act"].(map[string]any)
	for decoded(t, token, 0)["typ"] == "JWT" && act["act"] != nil {
		act = act["act"].(map[string]any)
	}
	id, _ := act["sub"].(string)
	return id[strings.LastIndexByte(id, '/')+1:]
}

// records appends an action of the current actor with a delegation, and returns the delegation of
// the record without its tokenId.
func (c caller) records(t testing.TB, token string) string {
	t.Helper()
	d := c.do(t, "POST /v1/attest", actedBy(currentActor(t, token), token)).status(201).at("delegation").(map[string]any)
	delete(d, "tokenId")
	text, err := json.Marshal(d)
	must.OK(t, err)
	return string(text)
}

// The token endpoint nests as RFC 8693 says, the route of the specification the other way, and each
// refuses or turns round what the other has made: a record of one chain is the same.
func TestExchangeNestsAsRFC8693(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	a, b, c := acme.agent(t, "a"), acme.agent(t, "b"), acme.agent(t, "c")
	id := func(name string) string { return acme.companySPIFFE() + "/agent/" + name }
	shape := `{"access_token":"<token>","issued_token_type":"` + jwtType + `","token_type":"N_A","expires_in":"<number>"}`
	first := acme.exchanges(t, a, actor(b)...).gets(200, shape).sets("Cache-Control: no-store", "Pragma: no-cache").str("access_token")
	second := acme.exchanges(t, first, actor(c)...).gets(200, shape).str("access_token")
	header, members := decoded(t, second, 0), decoded(t, second, 1)
	act, err := json.Marshal(members["act"])
	must.OK(t, err)
	if want := `{"act":{"sub":"` + id("b") + `"},"sub":"` + id("c") + `"}`; string(act) != want || members["sub"] != id("a") || members["aud"] != s.url+"/o/acme" || members["iss"] != s.url+"/o/acme" {
		t.Errorf("claims %v, want the act %s", members, want)
	}
	if header["typ"] != "at+jwt" || header["alg"] != "ES256" {
		t.Errorf("header %v", header)
	}
	one, _ := acme.exchange(t, a, b)
	other, chain := acme.exchange(t, one, c)
	if len(chain) != 3 {
		t.Fatalf("chain %v", chain)
	}
	want := acme.records(t, other)
	if want != `{"act":{"act":{"sub":"`+id("c")+`"},"sub":"`+id("b")+`"},"delegationChain":["`+id("a")+`","`+id("b")+`","`+id("c")+`"],"subject":"`+id("a")+`"}` {
		t.Fatalf("the specification's nesting is recorded as %s", want)
	}
	for what, token := range map[string]string{
		"exchanged twice": second,
		"of the specification's nesting, and then exchanged": acme.exchanges(t, one, actor(c)...).str("access_token"),
		"exchanged by nobody new":                            acme.exchanges(t, other).str("access_token"),
	} {
		if got := acme.records(t, token); got != want {
			t.Errorf("%s: the record has %s, want %s", what, got, want)
		}
	}
	rows := acme.do(t, "GET /v1/records?delegatedBy="+id("b"), "").status(200)
	if n := len(rows.at("records").([]any)); n != 4 {
		t.Errorf("%d records of four are found by who passed the right on", n)
	}
	acme.do(t, "GET /v1/verify", "").has(`{"valid":true}`)
	acme.do(t, exchange, exchangeBody(t, second, c, nil)).gets(400, `{"error":"Invalid subject_token: …"}`)
	acme.do(t, exchange, exchangeBody(t, a, first, nil)).gets(400, `{"error":"Invalid actor_token: …"}`)
	acme.about(t, "acme", "introspect", second).has(`{"active":true,"sub":"` + id("a") + `","act":{"sub":"` + id("c") + `","act":{"sub":"` + id("b") + `"}},"client_id":"` + acme.companySPIFFE() + `","agent_id":"c"}`)
	acme.about(t, "acme", "revoke", second).gets(200, `{}`)
	acme.about(t, "acme", "introspect", second).gets(200, inactive)
	acme.exchanges(t, second, actor(c)...).gets(400, `{"error":"invalid_request","error_description":"Invalid subject_token: …"}`)
	acme.do(t, "POST /v1/attest", actedBy("c", second)).gets(400, `{"error":"Invalid delegation: …"}`)
}

// Who may exchange: agents for themselves, and admins.
func TestWhoMayExchange(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme, zoo := s.company(t, "acme"), s.company(t, "zoo")
	a, b := acme.agent(t, "a"), acme.agent(t, "b")
	bot := acme.signer(t, "bot", jose.ES256)
	signedIn := bot.signsIn(t).caller
	admin, writer, foreign := acme.oauthClient(t, "admin"), acme.oauthClient(t, "writer"), zoo.oauthClient(t, "admin")
	anyone := acme.with("")
	id := func(name string) string { return acme.companySPIFFE() + "/agent/" + name }
	chainOf := func(answer *reply) string {
		t.Helper()
		members := decoded(t, answer.status(200).str("access_token"), 1)
		act, _ := json.Marshal(members["act"])
		return strings.ReplaceAll(members["sub"].(string)+string(act), acme.companySPIFFE()+"/agent/", "")
	}
	for what, test := range map[string]struct {
		as   caller
		more []string
		want string
	}{
		"an API key":                       {acme, actor(b), `a{"sub":"b"}`},
		"an API key, and who acts already": {acme, actor(a), `a{"sub":"a"}`},
		"a client by Basic":                {anyone, append(actor(b), "header", admin.basic()), `a{"sub":"b"}`},
		"a client in the body":             {anyone, append(actor(b), "client_id", admin.clientID, "client_secret", admin.secret), `a{"sub":"b"}`},
		"a client by its access token":     {acme.with(admin.token(t)), actor(b), `a{"sub":"b"}`},
		"an agent by its access token":     {signedIn, nil, `a{"sub":"bot"}`},
		"an agent with its token as actor": {signedIn, actor(signedIn.credential), `a{"sub":"bot"}`},
	} {
		if got := chainOf(test.as.exchanges(t, a, test.more...)); got != test.want {
			t.Errorf("%s: %s, want %s", what, got, test.want)
		}
	}
	members := decoded(t, signedIn.exchanges(t, signedIn.credential, "may_act", id("b")).status(200).str("access_token"), 1)
	if members["sub"] != id("bot") || members["act"].(map[string]any)["sub"] != id("bot") || members["scope"] != "agent" || members["client_id"] != id("bot") {
		t.Errorf("an agent's own token: %v", members)
	}
	admin.asks(t, []string{"may_act", id("b")}).gets(400, `{"error":"invalid_request","error_description":"may_act…"}`)
	const noClient, unauthorized = `{"error":"invalid_client"}`, `{"error":"unauthorized_client","error_description":"…"}`
	anyone.exchanges(t, a, actor(b)...).gets(401, noClient).sets("WWW-Authenticate: Basic…")
	acme.with("svc_x").exchanges(t, a, actor(b)...).gets(401, noClient)
	acme.with(zoo.credential).exchanges(t, a, actor(b)...).gets(401, noClient)
	anyone.exchanges(t, a, append(actor(b), "header", foreign.basic())...).gets(401, noClient)
	anyone.exchanges(t, a, append(actor(b), "header", writer.basic())...).gets(400, unauthorized)
	acme.with(admin.token(t, "scope", "writer")).exchanges(t, a, actor(b)...).gets(400, unauthorized)
	signedIn.exchanges(t, a, actor(b)...).gets(400, `{"error":"invalid_request","error_description":"actor_token is another's…"}`)
	// at the installation's own endpoint the client says which company it is
	zoo.do(t, tokenCall, oauthForm("grant_type", grant, "subject_token", a, "subject_token_type", jwtType), formType).
		gets(400, `{"error":"invalid_request","error_description":"Invalid subject_token: …"}`)
	signedIn.do(t, tokenCall, oauthForm("grant_type", grant, "subject_token", a, "subject_token_type", jwtType), formType).status(200)
	zoo.exchanges(t, a).status(400)
}

// Whatever cannot be exchanged is refused as RFC 8693 §2.2.2 says.
func TestRefusedExchanges(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme, zoo := s.company(t, "acme"), s.company(t, "zoo")
	a, b, off := acme.agent(t, "a"), acme.agent(t, "b"), acme.agent(t, "off")
	ofZoo := zoo.agent(t, "z")
	bot := acme.signer(t, "bot", jose.ES256)
	key := bot.key
	bound := bot.with("").do(t, tokenCall, signInBody(bot.assertion(t)), jsonType, bot.proof(t, key, "POST", "/v1/oauth/token", "")).status(200).str("access_token")
	revoked := bot.signsIn(t).credential
	acme.about(t, "acme", "revoke", revoked).status(200)
	delegated, _ := acme.exchange(t, a, b)
	ofOff, _ := acme.exchange(t, off, b)
	standardOff := acme.exchanges(t, off, actor(b)...).str("access_token")
	acme.do(t, "POST /v1/agents/off/disable", "").status(200)
	passport := acme.passport(t, "a", "")
	client := acme.oauthClient(t, "admin")
	foreign := acme.do(t, delegate, `{"agentId":"b","actingOn":"zoo","scope":"read write"}`).str("token")
	powers := acme.do(t, delegate, `{"agentId":"b","actingOn":"acme","scope":"read admin"}`).str("token")
	elsewhere := acme.do(t, "POST /v1/agents/a/token", `{"audience":"https://x.example"}`).str("token")
	tenActors := a
	for i := range 10 {
		actorToken := []string{b, acme.do(t, "GET /v1/agents/a/svid", "").str("svid")}[i%2]
		tenActors = acme.exchanges(t, tenActors, actor(actorToken)...).status(200).str("access_token")
	}
	may := acme.exchanges(t, a, append(actor(a), "may_act", acme.companySPIFFE()+"/agent/b")...).str("access_token")
	acme.namesForExchanges(t, "https://x.example", "x")
	forX := acme.exchanges(t, a, append(actor(b), "resource", "https://x.example")...).str("access_token")
	for what, test := range map[string]struct {
		subject string
		more    []string
		want    string // of error and error_description
	}{
		"no subject":                       {"", nil, "invalid_request subject_token is required"},
		"subject of another company":       {ofZoo, nil, "invalid_request Invalid subject_token"},
		"actor of another company":         {a, actor(ofZoo), "invalid_request Invalid actor_token"},
		"subject tampered with":            {tampered(a), nil, "invalid_request Invalid subject_token"},
		"nobody who acts":                  {a, nil, "invalid_request actor_token is required"},
		"subject for another":              {forX, nil, "invalid_request subject_token is for another audience"},
		"subject for another, and actor":   {forX, actor(b), "invalid_request subject_token is for another audience"},
		"actor for another":                {a, actor(forX), "invalid_request actor_token is for another audience"},
		"passport":                         {passport, nil, "invalid_request Invalid subject_token"},
		"passport as actor":                {a, actor(passport), "invalid_request Invalid actor_token"},
		"anything":                         {"x", nil, "invalid_grant"},
		"token revoked":                    {revoked, nil, "invalid_request Invalid subject_token"},
		"actor revoked":                    {a, actor(revoked), "invalid_request Invalid actor_token"},
		"token bound, without a proof":     {bound, nil, "invalid_request Invalid subject_token: it is bound"},
		"actor bound, without a proof":     {a, actor(bound), "invalid_request Invalid actor_token: it is bound"},
		"client's token":                   {client.token(t), nil, "invalid_request Invalid subject_token"},
		"API key":                          {acme.credential, []string{"subject_token_type", accessType}, "invalid_request Invalid subject_token"},
		"disabled subject":                 {off, nil, "invalid_request Invalid subject_token: an agent that it names is disabled"},
		"disabled actor":                   {a, actor(off), "invalid_request Invalid actor_token: an agent that it names is disabled"},
		"disabled within":                  {ofOff, nil, "invalid_request Invalid subject_token: an agent that it names is disabled"},
		"disabled within, nested so":       {standardOff, nil, "invalid_request Invalid subject_token"},
		"actor with act":                   {a, actor(delegated), "invalid_request actor_token must be the actor's own"},
		"actor with act, nested so":        {a, actor(acme.exchanges(t, a, actor(b)...).str("access_token")), "invalid_request actor_token must be the actor's own"},
		"eleventh actor":                   {tenActors, actor(b), "invalid_request delegation chain has more than 10 actors"},
		"token for somebody else":          {elsewhere, nil, "invalid_request Invalid subject_token"},
		"type of an ID token":              {a, []string{"subject_token_type", "urn:ietf:params:oauth:token-type:id_token"}, "invalid_request subject_token_type"},
		"type of another kind":             {a, []string{"subject_token_type", accessType}, "invalid_request Invalid subject_token"},
		"opaque as JWT":                    {client.token(t), []string{"subject_token_type", jwtType}, "invalid_grant"},
		"actor without its type":           {a, []string{"actor_token", b}, "invalid_request actor_token and actor_token_type"},
		"type without an actor":            {a, []string{"actor_token_type", jwtType}, "invalid_request actor_token and actor_token_type"},
		"another requested type":           {delegated, []string{"requested_token_type", "urn:ietf:params:oauth:token-type:saml2"}, "invalid_request requested_token_type"},
		"access token for nobody":          {delegated, []string{"requested_token_type", accessType}, "invalid_request requested_token_type"},
		"scope of nothing":                 {delegated, []string{"scope", "read"}, "invalid_scope"},
		"scope wider":                      {foreign, []string{"scope", "read admin"}, "invalid_scope"},
		"scope misspelt":                   {foreign, []string{"scope", "read  write"}, "invalid_scope"},
		"scope of a role":                  {powers, nil, "invalid_scope the scope of subject_token names a role"},
		"scope of a role for others":       {powers, []string{"scope", "admin", "resource", "https://x.example"}, "invalid_scope the scope of subject_token names a role"},
		"scope in capitals":                {foreign, []string{"scope", "READ"}, "invalid_scope"},
		"resource by http":                 {a, append(actor(b), "resource", "http://x.example"), "invalid_target"},
		"audience with a space":            {a, append(actor(b), "audience", "a b"), "invalid_target"},
		"audience that nobody has named":   {a, append(actor(b), "audience", "sts.amazonaws.com"), "invalid_target the company exchanges no token"},
		"resource that nobody has named":   {a, append(actor(b), "resource", "https://y.example"), "invalid_target the company exchanges no token"},
		"one that is named and another":    {a, append(actor(b), "audience", "x", "audience", "X"), "invalid_target the company exchanges no token"},
		"ours and another":                 {a, append(actor(b), "audience", s.url+"/o/acme", "audience", "x"), "invalid_target the issuer"},
		"nine audiences":                   {a, slices.Concat(append(nineAudiences(), actor(b))...), "invalid_target a token is for 8"},
		"another company's, for others":    {foreign, []string{"audience", "https://x.example"}, "invalid_request subject_token names a principal of another company"},
		"may_act of another":               {may, actor(acme.agent(t, "c")), "invalid_request the actor is not the one that may_act"},
		"may_act changed":                  {may, append(actor(b), "may_act", acme.companySPIFFE()+"/agent/c"), "invalid_request subject_token has another may_act"},
		"may_act of no agent":              {delegated, []string{"may_act", acme.companySPIFFE()}, "invalid_request may_act must be"},
		"may_act of another company":       {delegated, []string{"may_act", zoo.companySPIFFE() + "/agent/z"}, "invalid_request may_act must be"},
		"a DPoP proof that is none":        {a, []string{"header", "DPoP: x"}, "invalid_dpop_proof"},
		"proof of another key than bound":  {bound, []string{"header", bot.proof(t, newKey(t, jose.ES256), "POST", "/o/acme/token", "")}, "invalid_request Invalid subject_token: it is bound"},
		"both client and key, in the body": {a, []string{"client_id", client.clientID, "client_secret", "x"}, "invalid_client"},
	} {
		answer := acme.exchanges(t, test.subject, test.more...)
		var refused struct {
			Error       string `json:"error"`
			Description string `json:"error_description"`
		}
		must.OK(t, json.Unmarshal(answer.raw, &refused))
		if got := strings.TrimSpace(refused.Error + " " + refused.Description); !strings.HasPrefix(got, test.want) || answer.code/100 != 4 {
			t.Errorf("%s: %s, want %s", what, answer.raw, test.want)
		}
	}
	for what, token := range map[string]string{"may_act": may, "for another": forX, "disabled": standardOff} {
		if answer := acme.do(t, "POST /v1/attest", actedBy(currentActor(t, token), token)); answer.code != 400 && (what != "disabled" || answer.str("code") != "AGENT_DISABLED") {
			t.Errorf("%s as delegation: %d %s", what, answer.code, answer.raw)
		}
	}
}

func nineAudiences() (pairs [][]string) {
	for _, name := range strings.Split("abcdefghi", "") {
		pairs = append(pairs, []string{"audience", name})
	}
	return pairs
}

// What an exchange gives is narrower than what was exchanged: in scope, in time, in who may act and
// in the key; and for whom it is asked.
func TestExchangeNarrows(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	a, b := acme.agent(t, "a"), acme.agent(t, "b")
	id := func(name string) string { return acme.companySPIFFE() + "/agent/" + name }
	wide := acme.do(t, delegate, `{"agentId":"b","actingOn":"acme","scope":"read write delete"}`).str("token")
	all := acme.exchanges(t, wide).status(200)
	if all.str("scope") != "read write delete" {
		t.Errorf("%s", all.raw)
	}
	less := acme.exchanges(t, wide, "scope", "write read write").has(`{"scope":"write read"}`).str("access_token")
	acme.exchanges(t, less, "scope", "read").has(`{"scope":"read"}`)
	acme.exchanges(t, less, "scope", "delete").gets(400, `{"error":"invalid_scope","error_description":"…"}`)

	short := acme.do(t, "POST /v1/agents/a/token", `{"audience":"`+s.url+`/o/acme","ttl":60}`).status(201).str("token")
	for what, answer := range map[string]*reply{
		"subject": acme.exchanges(t, short, actor(b)...), "actor": acme.exchanges(t, b, actor(short)...),
	} {
		if n := answer.status(200).at("expires_in").(float64); n < 50 || n > 60 {
			t.Errorf("%s: %v s after one of 60 s", what, n)
		}
		if ends := decoded(t, answer.str("access_token"), 1)["exp"].(float64); ends > decoded(t, short, 1)["exp"].(float64) {
			t.Errorf("%s: longer than what was exchanged", what)
		}
	}

	const resource = "https://mcp.example/a"
	acme.namesForExchanges(t, resource, "second", "x")
	access := acme.exchanges(t, wide, "resource", resource, "audience", "second", "requested_token_type", accessType).
		gets(200, `{"access_token":"<token>","issued_token_type":"`+accessType+`","token_type":"Bearer","expires_in":"<number>","scope":"read write delete"}`).str("access_token")
	if members := decoded(t, access, 1); len(members["aud"].([]any)) != 2 || members["sub"] != acme.companySPIFFE() || members["org"] != "acme" {
		t.Errorf("%v", members)
	}
	acme.with(access).do(t, "GET /v1/company", "").status(401)

	may := acme.exchanges(t, a, append(actor(a), "may_act", id("b"))...).status(200).str("access_token")
	acted := acme.exchanges(t, may, actor(b)...).status(200).str("access_token")
	if members := decoded(t, acted, 1); members["may_act"].(map[string]any)["sub"] != id("b") || members["act"].(map[string]any)["sub"] != id("b") {
		t.Errorf("%v", members)
	}
	acme.about(t, "acme", "introspect", acted).has(`{"may_act":{"sub":"` + id("b") + `"}}`)
	acme.exchanges(t, acted, actor(acme.agent(t, "c"))...).status(400)
	if got := decoded(t, acme.exchanges(t, acted, actor(b)...).status(200).str("access_token"), 1)["act"].(map[string]any); got["act"] != nil {
		t.Errorf("who acts already is added again: %v", got)
	}
	acme.records(t, acted)

	bot := acme.signer(t, "bot", jose.ES256)
	path := "/o/acme/token"
	proof := func() string { return bot.proof(t, bot.key, "POST", path, "") }
	bound := bot.with("").do(t, tokenCall, signInBody(bot.assertion(t)), jsonType, bot.proof(t, bot.key, "POST", "/v1/oauth/token", "")).status(200).str("access_token")
	once := proof()
	answer := acme.exchanges(t, a, append(actor(b), "audience", "x", "header", once)...).has(`{"token_type":"DPoP"}`)
	if cnf := decoded(t, answer.str("access_token"), 1)["cnf"].(map[string]any); cnf["jkt"] != bot.thumbprint() {
		t.Errorf("%v", cnf)
	}
	acme.exchanges(t, a, append(actor(b), "audience", "x", "header", once)...).gets(400, `{"error":"invalid_dpop_proof","error_description":"…used before…"}`)
	ofBot := acme.exchanges(t, bound, append(actor(bound), "header", proof())...).status(200).str("access_token")
	// as a delegation it counts only with an access token of the same key
	body := actedBy("bot", ofBot)
	acme.do(t, "POST /v1/attest", body).gets(400, `{"error":"Invalid delegation: …bound…"}`)
	bot.with("").do(t, "POST /v1/attest", body, "Authorization: DPoP "+bound, bot.proof(t, bot.key, "POST", "/v1/attest", bound)).status(201)
	byItself := bot.with("").exchanges(t, a, "header", "Authorization: DPoP "+bound, "header", bot.proof(t, bot.key, "POST", path, bound)).status(200)
	if members := decoded(t, byItself.str("access_token"), 1); members["act"].(map[string]any)["sub"] != bot.spiffe() || members["cnf"] == nil || members["agent_key"] != bot.thumbprint() {
		t.Errorf("%v", members)
	}
	acme.about(t, "acme", "introspect", byItself.str("access_token")).has(`{"active":true,"token_type":"DPoP"}`)
	acme.do(t, "DELETE "+bot.keys()+"/"+bot.thumbprint(), "").status(200)
	acme.about(t, "acme", "introspect", byItself.str("access_token")).gets(200, inactive)
	if time.Unix(int64(decoded(t, ofBot, 1)["exp"].(float64)), 0).After(time.Now().Add(time.Hour)) {
		t.Error("longer than an hour")
	}
}
