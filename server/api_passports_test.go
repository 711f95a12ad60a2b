package server_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

const (
	orgID = "spiffe://attestd.local/company/acme"
	botID = orgID + "/agent/bot"
)

// passportShape returns the shape of the answer to an issuance; more is added at its end.
func passportShape(scopes string, seconds int, more string) string {
	return fmt.Sprintf(`{"agentId":"bot","spiffeId":"%s","org":"acme","orgSpiffeId":"%s","scopes":%s,"delegationChain":["%s","%s"],
		"passport":"<token>","expiresIn":%d,"caPublicKey":"<anything>"%s}`, botID, orgID, scopes, orgID, botID, seconds, more)
}

func TestIssuePassport(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	acme.agent(t, "bot")
	const issue = "POST /v1/agents/bot/passport"
	const usual = `["tool:*","attest:write"]`
	hundred := `["` + strings.Join(strings.Split(strings.Repeat("tool:x ", 99)+"tool:x", " "), `","`) + `"]`
	good := func(does, body, scopes string, seconds int) row {
		return row{does: does, as: acme, call: issue, body: body, status: 201, gets: passportShape(scopes, seconds, ""), sets: []string{"Cache-Control: no-store"}}
	}
	bad := func(does, body, name string) row {
		return row{does: does, as: acme, call: issue, body: body, status: 400, gets: `{"error":"…` + name + `…"}`}
	}
	table(t, []row{
		good("no body gives the defaults", ``, usual, 3600),
		good("an empty object too", `{}`, usual, 3600),
		good("and nulls", `{"scopes":null,"ttl":null}`, usual, 3600),
		good("scopes of one's own", `{"scopes":["tool:search","*","data:*","A-z_9.:x/y?z"]}`, `["tool:search","*","data:*","A-z_9.:x/y?z"]`, 3600),
		good("a hundred scopes", `{"scopes":`+hundred+`}`, hundred, 3600),
		good("one second", `{"ttl":1}`, usual, 1),
		good("a day", `{"ttl":86400}`, usual, 86400),
		good("a whole number in another spelling", `{"ttl":6e1}`, usual, 60),

		bad("no time at all", `{"ttl":0}`, "ttl"),
		bad("a negative time", `{"ttl":-1}`, "ttl"),
		bad("more than a day", `{"ttl":86401}`, "ttl"),
		bad("far more than a day", `{"ttl":1e300}`, "ttl"),
		bad("half a second more", `{"ttl":60.5}`, "ttl"),
		bad("a time as text", `{"ttl":"60"}`, "ttl"),
		bad("a time that is true", `{"ttl":true}`, "ttl"),
		bad("no scope at all", `{"scopes":[]}`, "scope"),
		bad("a hundred and one scopes", `{"scopes":`+hundred[:len(hundred)-1]+`,"tool:y"]}`, "scope"),
		bad("scopes as text", `{"scopes":"tool:*"}`, "scopes"),
		bad("scopes as an object", `{"scopes":{}}`, "scopes"),
		bad("a number among the scopes", `{"scopes":["tool:*",1]}`, "scopes"),
		bad("null among the scopes", `{"scopes":[null]}`, "scopes"),
		bad("an empty scope", `{"scopes":[""]}`, "scopes"),
		bad("a scope without a name", `{"scopes":["tool:"]}`, "scopes"),
		bad("a scope without a category", `{"scopes":[":search"]}`, "scopes"),
		bad("a scope without a colon", `{"scopes":["tool"]}`, "scopes"),
		bad("a wildcard inside a name", `{"scopes":["tool:se*"]}`, "scopes"),
		bad("a wildcard for a category", `{"scopes":["*:search"]}`, "scopes"),
		bad("two wildcards", `{"scopes":["**"]}`, "scopes"),
		bad("a blank in a scope", `{"scopes":["tool: x"]}`, "scopes"),
		bad("the body is not JSON", `{"ttl":}`, ""),
		bad("the body is no object", `[]`, ""),
		bad("something follows the body", `{}{}`, ""),

		{does: "an unknown agent", as: acme, call: "POST /v1/agents/nobody/passport", status: 404, gets: `{"error":"Agent not found: nobody"}`},
		{does: "a stranger", as: s.anyone(), call: issue, status: 401, gets: `{"error":"Unauthorized"}`, sets: []string{"WWW-Authenticate: Bearer …"}},
	})

	// The answer agrees with the passport, and the passport's key is the published one.
	r := acme.do(t, issue, `{"scopes":["tool:a","tool:b"],"ttl":77}`).status(201)
	key := readPEM(t, r.str("caPublicKey"))
	if !key.Equal(acme.publicKey(t)) {
		t.Error("caPublicKey is not the company's key")
	}
	header, claims := open(t, r.str("passport"), key)
	same(t, "header", header, object{"alg": "EdDSA", "kid": acme.kid(t), "typ": "CAP+JWT"})
	same(t, "claims", claims, `{"iss":"spiffe://attestd.local/ca","sub":"`+botID+`","aud":["service:passport:v1"],"jti":"<uuid>","iat":"<number>","nbf":"<number>","exp":"<number>",
		"service":{"v":1,"agentId":"bot","org":"acme","orgSpiffeId":"`+orgID+`","scopes":["tool:a","tool:b"],"delegationChain":["`+orgID+`","`+botID+`"]}}`)
	checkTimes(t, claims, 77)
}

func TestVerifyPassport(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	acme.agent(t, "bot")
	for _, c := range []struct{ does, scopes, tool, granted string }{
		{"a tool by its name", `["attest:write","tool:search"]`, "search", "tool:search"},
		{"a tool by all tools", `["attest:write","tool:*"]`, "search", "tool:*"},
		{"a tool by everything", `["*"]`, "search", "*"},
		{"the first scope that covers", `["tool:read","tool:search","tool:*","*"]`, "search", "tool:search"},
		{"the first scope that covers, though another fits better", `["*","tool:search"]`, "search", "*"},
		{"a tool with a colon in its name", `["tool:db:read"]`, "db:read", "tool:db:read"},
		{"without a tool, everything", `["tool:a","x:*","*"]`, "", "*"},
		{"without a tool, else all of something", `["tool:a","x:*","tool:*"]`, "", "x:*"},
		{"without a tool, else the first", `["tool:b","tool:a"]`, "", "tool:b"},
	} {
		t.Run(c.does, func(t *testing.T) {
			passport := acme.passport(t, "bot", `{"scopes":`+c.scopes+`,"ttl":600}`)
			_, claims := open(t, passport, acme.publicKey(t))
			body, tool := `{"passport":"`+passport+`"}`, "(not checked)"
			if c.tool != "" {
				body, tool = `{"passport":"`+passport+`","tool":"`+c.tool+`"}`, c.tool
			}
			at := func(claim string) string {
				return time.Unix(int64(claims[claim].(float64)), 0).UTC().Format("2006-01-02T15:04:05.000Z")
			}
			acme.do(t, "POST /v1/passport/verify", body).gets(200, `{"valid":true,"claims":`+string(toJSON(t, claims))+`,"scopeGranted":"`+c.granted+`","receipt":{
				"v":1,"type":"ServiceAttestationReceipt","passportId":"`+claims["jti"].(string)+`","agentId":"bot","agentSpiffeId":"`+botID+`",
				"org":"acme","orgSpiffeId":"`+orgID+`","tool":"`+tool+`","scopeGranted":"`+c.granted+`","delegationChain":["`+orgID+`","`+botID+`"],
				"issuedBy":"spiffe://attestd.local/ca","passportIssuedAt":"`+at("iat")+`","passportExpiresAt":"`+at("exp")+`","verifiedAt":"<time>","verifier":"attestd/1.2.3-test"}}`)
		})
	}
}
