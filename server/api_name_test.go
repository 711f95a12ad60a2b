package server_test

import (
	"strings"
	"testing"

	"attestd/crypto/cred"
	"attestd/internal/testenv"
	"attestd/store/storetest"
)

// A service under another name uses it wherever others see the name, and has its own trust domain.
func TestServiceName(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	path := storetest.New(t)
	s := startOn(t, path, cred.Domain{Service: "acme2", TrustDomain: "id.example"})
	them := s.anyone()
	const org = "spiffe://id.example/company/org"
	key := them.do(t, "POST /v1/companies", `{"companyId":"org"}`).
		gets(201, `{"companyId":"org","spiffeId":"`+org+`","registeredAt":"<time>","apiKey":"acme2_<secret>"}`).str("apiKey")
	c := caller{s, "org", key}
	second := c.do(t, "POST /v1/keys", "").gets(201, `{"key":"acme2_<secret>","createdAt":"<time>"}`).str("key")
	c.with(second).do(t, "DELETE /v1/keys/"+second, "").status(200)
	c.do(t, "POST /v1/oauth/clients", "").gets(201, `{"clientId":"cc_…","clientSecret":"<anything>","companyId":"org","createdAt":"<time>"}`)
	if token := c.oauthToken(t); !strings.HasPrefix(token, "oauth_") {
		t.Errorf("access token %.8s…", token)
	}

	svid := c.agent(t, "bot")
	_, claims := open(t, svid, c.publicKey(t))
	same(t, "SVID", claims, `{"iss":"spiffe://id.example/ca","sub":"`+org+`/agent/bot","aud":["acme2"],"iat":"<number>","nbf":"<number>","exp":"<number>","jti":"<uuid>"}`)
	token, _ := c.exchange(t, c.do(t, "POST /v1/companies/svid", "").status(200).str("svid"), svid)
	c.do(t, "POST /v1/attest", `{"agentId":"bot","actionType":"x","payload":1,"delegation":"`+token+`"}`).status(201)
	c.checkChain(t)

	passport := c.passport(t, "bot", "")
	_, claims = open(t, passport, c.publicKey(t))
	same(t, "passport", claims, `{"iss":"spiffe://id.example/ca","sub":"`+org+`/agent/bot","aud":["acme2:passport:v1"],"jti":"<uuid>","iat":"<number>","nbf":"<number>","exp":"<number>",
		"acme2":{"v":1,"agentId":"bot","org":"org","orgSpiffeId":"`+org+`","scopes":["tool:*","attest:write"],"delegationChain":["`+org+`","`+org+`/agent/bot"]}}`)
	r := c.do(t, "POST /v1/passport/verify", `{"passport":"`+passport+`"}`).status(200)
	if kind := r.str("receipt", "type"); kind != "Acme2AttestationReceipt" {
		t.Errorf("receipt of type %q", kind)
	}
	const turn = "POST /v1/agents/bot/passport/rotate"
	c.do(t, turn, "").gets(400, `{"error":"Missing Acme2-Passport passport header"}`)
	c.do(t, turn, "", "Service-Passport: "+passport).gets(400, `{"error":"Missing Acme2-Passport passport header"}`)
	passport = c.do(t, turn, "", "Acme2-Passport: "+passport).status(200).str("passport")
	c.do(t, turn, "", "Attestd-Passport: "+passport).status(200)

	format := them.do(t, "GET /v1/ca/well-known?companyId=org", "").status(200)
	same(t, "passport_format", format.at("passport_format"), `{"version":1,"token_type":"CAP+JWT","audience":"acme2:passport:v1","claims_namespace":"acme2","scope_format":"category:name","scope_wildcards_supported":true}`)
	if domain := format.str("trust_domain"); domain != "id.example" {
		t.Errorf("trust domain %q", domain)
	}

	// The name is stored in the file, so it does not depend on the settings of a later start.
	s.stop()
	again := caller{startOn(t, path, cred.Domain{}), "org", key}
	again.do(t, "POST /v1/keys", "").gets(201, `{"key":"acme2_<secret>","createdAt":"<time>"}`)
	again.checkChain(t)
}
