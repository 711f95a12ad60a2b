package server_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"attestd/internal/must"
	"attestd/internal/testenv"
)

const (
	delegate = "POST /v1/token-exchange"
	exchange = "POST /v1/token/exchange"
	jwtType  = "urn:ietf:params:oauth:token-type:jwt"
	grant    = "urn:ietf:params:oauth:grant-type:token-exchange"
)

// exchangeBody returns the body of a token exchange in which some members are changed or, with nil,
// removed.
func exchangeBody(t testing.TB, subject, actor string, changes object) string {
	t.Helper()
	raw, err := json.Marshal(but(object{
		"grant_type": grant, "subject_token": subject, "subject_token_type": jwtType, "actor_token": actor, "actor_token_type": jwtType,
	}, changes))
	must.OK(t, err)
	return string(raw)
}

// exchange makes actor act for subject, and returns the token and its chain.
func (c caller) exchange(t testing.TB, subject, actor string) (token string, chain []any) {
	t.Helper()
	r := c.do(t, exchange, exchangeBody(t, subject, actor, nil)).status(200)
	return r.str("access_token"), r.at("delegation_chain").([]any)
}

func TestDelegate(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	acme.agent(t, "bot")
	const success = `{"token":"<token>","sub":"spiffe://attestd.local/company/globex","act":{"sub":"spiffe://attestd.local/company/acme/agent/bot"},"jti":"<uuid>","scope":"read write"}`
	need := func(name string) string {
		return `{"error":"Missing or invalid field: ` + name + ` is required"}`
	}
	missing := func(does, body, name string) row {
		return row{does: does, as: acme, call: delegate, body: body, status: 400, gets: need(name)}
	}
	table(t, []row{
		{does: "an agent acts for a company", as: acme, call: delegate, body: `{"agentId":"bot","actingOn":"globex","scope":"read write"}`, status: 201, gets: success, sets: []string{"Cache-Control: no-store"}},
		{
			does: "for its own company", as: acme, call: delegate, body: `{"agentId":"bot","actingOn":"acme","scope":"x"}`, status: 201,
			gets: `{"token":"<token>","sub":"spiffe://attestd.local/company/acme","act":{"sub":"spiffe://attestd.local/company/acme/agent/bot"},"jti":"<uuid>","scope":"x"}`,
		},
		missing("no body", ``, "agentId"),
		missing("no agentId", `{"actingOn":"globex","scope":"x"}`, "agentId"),
		missing("agentId is a number", `{"agentId":1,"actingOn":"globex","scope":"x"}`, "agentId"),
		missing("agentId is empty", `{"agentId":"","actingOn":"globex","scope":"x"}`, "agentId"),
		missing("no actingOn", `{"agentId":"bot","scope":"x"}`, "actingOn"),
		missing("actingOn is null", `{"agentId":"bot","actingOn":null,"scope":"x"}`, "actingOn"),
		missing("no scope", `{"agentId":"bot","actingOn":"globex"}`, "scope"),
		missing("scope is an array", `{"agentId":"bot","actingOn":"globex","scope":["x"]}`, "scope"),
		missing("scope is empty", `{"agentId":"bot","actingOn":"globex","scope":""}`, "scope"),
		{does: "actingOn would forge an agent's ID", as: acme, call: delegate, body: `{"agentId":"bot","actingOn":"globex/agent/admin","scope":"x"}`, status: 400, gets: `{"error":"…actingOn…A-Z…"}`},
		{does: "actingOn climbs", as: acme, call: delegate, body: `{"agentId":"bot","actingOn":"..","scope":"x"}`, status: 400, gets: `{"error":"…actingOn…A-Z…"}`},
		{does: "an unknown agent", as: acme, call: delegate, body: `{"agentId":"nobody","actingOn":"globex","scope":"x"}`, status: 404, gets: `{"error":"Agent not found: nobody"}`},
		{does: "the body is not JSON", as: acme, call: delegate, body: `{"agentId"}`, status: 400, gets: `{"error":"…"}`},
		{does: "a stranger", as: s.anyone(), call: delegate, body: `{}`, status: 401, gets: `{"error":"Unauthorized"}`, sets: []string{"WWW-Authenticate: Bearer …"}},
	})

	r := acme.do(t, delegate, `{"agentId":"bot","actingOn":"globex","scope":"read write"}`).status(201)
	header, claims := open(t, r.str("token"), acme.publicKey(t))
	same(t, "header", header, acme.svidHeader(t))
	same(t, "claims", claims, `{"iss":"spiffe://attestd.local/ca","sub":"spiffe://attestd.local/company/globex","aud":["service"],
		"iat":"<number>","nbf":"<number>","exp":"<number>","jti":"`+r.str("jti")+`","scope":"read write","act":{"sub":"spiffe://attestd.local/company/acme/agent/bot"}}`)
	checkTimes(t, claims, 3600)
}

func TestExchange(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	s := start(t)
	acme, globex := s.company(t, "acme"), s.company(t, "globex")
	human, bot := acme.agent(t, "human"), acme.agent(t, "bot")
	foreign := globex.agent(t, "bot")
	passport := acme.passport(t, "bot", "")
	key, header := acme.privateKey(t), acme.svidHeader(t)
	const sub = "spiffe://attestd.local/company/acme/agent/human"
	claims := svidClaims(sub)
	acting, _ := acme.exchange(t, human, bot)

	rows := []row{
		{
			does: "bot comes to act for human", as: acme, call: exchange, body: exchangeBody(t, human, bot, nil), status: 200,
			gets: `{"access_token":"<token>","issued_token_type":"` + jwtType + `","token_type":"N_A","expires_in":3600,
				"delegation_chain":["spiffe://attestd.local/company/acme/agent/human","spiffe://attestd.local/company/acme/agent/bot"]}`,
			sets: []string{"Cache-Control: no-store"},
		},
		{does: "no body", as: acme, call: exchange, status: 400, gets: `{"error":"Missing or invalid field: grant_type is required"}`},
		{does: "a stranger", as: s.anyone(), call: exchange, body: exchangeBody(t, human, bot, nil), status: 401, gets: `{"error":"Unauthorized"}`, sets: []string{"WWW-Authenticate: Bearer …"}},
		{does: "the body is not JSON", as: acme, call: exchange, body: "grant_type=x", status: 400, gets: `{"error":"…"}`},
	}
	for _, name := range []string{"grant_type", "subject_token", "subject_token_type", "actor_token", "actor_token_type"} {
		for does, value := range map[string]any{"is missing": nil, "is empty": "", "is a number": 5, "is an array": []string{"x"}} {
			rows = append(rows, row{
				does: name + " " + does, as: acme, call: exchange, body: exchangeBody(t, human, bot, object{name: value}),
				status: 400, gets: `{"error":"Missing or invalid field: ` + name + ` is required"}`,
			})
		}
	}
	for _, c := range []struct {
		name, value, gets string
	}{
		{"grant_type", "client_credentials", `{"error":"unsupported_grant_type: …"}`},
		{"grant_type", strings.ToUpper(grant), `{"error":"unsupported_grant_type: …"}`},
		{"subject_token_type", "urn:ietf:params:oauth:token-type:access_token", `{"error":"unsupported_token_type: …"}`},
		{"actor_token_type", "urn:ietf:params:oauth:token-type:id_token", `{"error":"unsupported_token_type: …"}`},
	} {
		rows = append(rows, row{does: "another " + c.name, as: acme, call: exchange, body: exchangeBody(t, human, bot, object{c.name: c.value}), status: 400, gets: c.gets})
	}
	// None of these is accepted as either token.
	cut, _, _ := strings.Cut(human, ".")
	for does, token := range map[string]string{
		"no token at all":             "x",
		"a token without its end":     human[:strings.LastIndex(human, ".")+1],
		"a token with a changed part": cut + "." + strings.Split(bot, ".")[1] + "." + strings.Split(human, ".")[2],
		"a token of another company":  foreign,
		"a token by another key":      mint(t, otherKey(t), header, claims),
		"an expired one":              mint(t, key, header, but(claims, object{"exp": time.Now().Unix()})),
		"one of the future":           mint(t, key, header, but(claims, object{"nbf": time.Now().Unix() + 100})),
		"one for another audience":    mint(t, key, header, but(claims, object{"aud": []string{"other"}})),
		"one for two audiences":       mint(t, key, header, but(claims, object{"aud": []string{"service", "other"}})),
		"one by another issuer":       mint(t, key, header, but(claims, object{"iss": "spiffe://elsewhere/ca"})),
		"one of another trust domain": mint(t, key, header, but(claims, object{"sub": "spiffe://elsewhere/company/acme"})),
		"one for nobody":              mint(t, key, header, but(claims, object{"sub": nil})),
		"one without an end":          mint(t, key, header, but(claims, object{"exp": nil})),
		"one without an ID":           mint(t, key, header, but(claims, object{"jti": nil})),
		"a passport":                  passport,
		"one without a signature":     mint(t, key, but(header, object{"alg": "none"}), claims),
		"one with HMAC":               mint(t, key, but(header, object{"alg": "HS256"}), claims),
		"one that says crit":          mint(t, key, but(header, object{"crit": []string{"exp"}}), claims),
		"one that brings its key":     mint(t, key, but(header, object{"jwk": object{}}), claims),
		"one with act of another sort": mint(t, key, header, but(claims, object{
			"act": "spiffe://attestd.local/company/acme/agent/bot"})),
		"a claim twice": signRaw(key, string(toJSON(t, header)), strings.Replace(string(toJSON(t, claims)), "{", `{"sub":"`+sub+`",`, 1)),
	} {
		rows = append(rows,
			row{does: does + " as the subject", as: acme, call: exchange, body: exchangeBody(t, token, bot, nil), status: 400, gets: `{"error":"…"}`},
			row{does: does + " as the actor", as: acme, call: exchange, body: exchangeBody(t, human, token, nil), status: 400, gets: `{"error":"…"}`},
			row{
				does: does + " as a delegation", as: acme, call: "POST /v1/attest", body: `{"agentId":"a","actionType":"b","payload":1,"delegation":"` + token + `"}`,
				status: 400, gets: `{"error":"Invalid delegation: …"}`,
			})
	}
	rows = append(rows,
		row{does: "an actor that acts for somebody itself", as: acme, call: exchange, body: exchangeBody(t, human, acting, nil), status: 400, gets: `{"error":"…"}`},
		row{does: "nothing of this was recorded", as: acme, call: "GET /v1/chain", status: 200, gets: `{"records":[]}`},
	)
	table(t, rows)
}

func toJSON(t testing.TB, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	must.OK(t, err)
	return raw
}

// An access token is the subject of the next exchange: the chain grows inward to at most ten
// actors, and keeps its scope.
func TestDelegationHopByHop(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	acme := start(t).company(t, "acme")
	acme.agent(t, "a0")
	key := acme.publicKey(t)
	token := acme.do(t, delegate, `{"agentId":"a0","actingOn":"globex","scope":"pay:invoice read"}`).status(201).str("token")
	principals := []string{"spiffe://attestd.local/company/globex", "spiffe://attestd.local/company/acme/agent/a0"}
	for n := 1; n < 10; n++ {
		name := fmt.Sprintf("a%d", n)
		var chain []any
		token, chain = acme.exchange(t, token, acme.agent(t, name))
		principals = append(principals, "spiffe://attestd.local/company/acme/agent/"+name)
		same(t, "delegation_chain", chain, principals)

		_, claims := open(t, token, key)
		same(t, "claims", claims, `{"iss":"spiffe://attestd.local/ca","sub":"`+principals[0]+`","aud":["service"],"iat":"<number>","nbf":"<number>","exp":"<number>",
			"jti":"<uuid>","scope":"pay:invoice read","act":`+nestedAct(principals[1:])+`}`)
	}
	// Ten actors is the limit.
	acme.do(t, exchange, exchangeBody(t, token, acme.agent(t, "a10"), nil)).gets(400, `{"error":"…10…"}`)

	// The record holds the whole chain, and its hash covers it.
	r := recordIn(t, acme.do(t, "POST /v1/attest", `{"agentId":"a9","actionType":"pay","payload":{},"delegation":"`+token+`"}`).status(201).raw)
	_, claims := open(t, token, key)
	same(t, "delegation", r.delegation, `{"subject":"`+principals[0]+`","delegationChain":`+string(toJSON(t, principals))+`,
		"act":`+nestedAct(principals[1:])+`,"tokenId":"`+claims["jti"].(string)+`"}`)
	checkRecord(t, r, key)
	forged := r
	forged.delegation = json.RawMessage(strings.Replace(string(r.delegation), "agent/a3", "agent/a4", 2))
	if canonical(t, forged.delegation) == canonical(t, r.delegation) {
		t.Fatal("nothing was forged")
	}
	preimage := fmt.Sprintf("%d|%s|%s", r.Index, r.Timestamp, canonical(t, r.payload))
	if sha(preimage) == r.Hash || sha(preimage+"|"+canonical(t, forged.delegation)) == r.Hash {
		t.Error("the hash does not bind the delegation")
	}
	acme.checkChain(t)
}

func nestedAct(actors []string) string {
	if len(actors) == 1 {
		return `{"sub":"` + actors[0] + `"}`
	}
	return `{"sub":"` + actors[0] + `","act":` + nestedAct(actors[1:]) + `}`
}

// If the subject token has no scope, the new token has none.
func TestExchangeKeepsNoScope(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	acme := start(t).company(t, "acme")
	token, chain := acme.exchange(t, acme.do(t, "POST /v1/companies/svid", "").status(200).str("svid"), acme.agent(t, "bot"))
	same(t, "delegation_chain", chain, []string{"spiffe://attestd.local/company/acme", "spiffe://attestd.local/company/acme/agent/bot"})
	_, claims := open(t, token, acme.publicKey(t))
	if scope, ok := claims["scope"]; ok {
		t.Errorf("scope %v came out of nowhere", scope)
	}
	acme.do(t, "POST /v1/attest", `{"agentId":"bot","actionType":"x","payload":1,"delegation":"`+token+`"}`).status(201)
	acme.checkChain(t)
}
