package server_test

import (
	"encoding/json"
	"strings"
	"testing"

	"attestd/crypto/cred/details"
)

const (
	wideDetails   = `[{"type":"tool_call","tools":["pay","read"],"arguments":{"/amount":{"max":100}}}]`
	narrowDetails = `[{"arguments":{"/amount":{"max":10}},"tools":["pay"],"type":"tool_call"}]`
	widerDetails  = `[{"type":"tool_call","tools":["pay"],"arguments":{"/amount":{"max":1000}}}]`
	otherDetails  = `[{"type":"payment_initiation","tools":["pay"]}]`
)

// detailsOf returns the claim authorization_details of a JWT, "" without it.
func detailsOf(t testing.TB, token string) string {
	t.Helper()
	limits, is := decoded(t, token, 1)["authorization_details"]
	if !is {
		return ""
	}
	return canonicalDetails(t, string(toJSON(t, limits)))
}

func canonicalDetails(t testing.TB, text string) string {
	t.Helper()
	d, err := details.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return d.String()
}

// A passport with authorization details covers calls that its scope and an entry cover, and keeps
// them through a rotation, in lists and in the control log.
func TestPassportHasDetails(t *testing.T) {
	t.Parallel()
	acme := start(t).company(t, "acme")
	acme.agent(t, "bot")
	const issue = "POST /v1/agents/bot/passport"
	issued := acme.do(t, issue, `{"scopes":["tool:pay"],"authorizationDetails":`+wideDetails+`}`).status(201)
	same(t, "details", issued.at("authorizationDetails"), wideDetails)
	passport := issued.str("passport")
	for range 2 {
		if got := detailsOf(t, passport); got != canonicalDetails(t, wideDetails) {
			t.Fatal(got)
		}
		for body, code := range map[string]string{
			`"tool":"pay","arguments":{"amount":100}`:          "",
			`"tool":"pay","arguments":{"amount":1e2,"to":"x"}`: "",
			`"tool":"pay"`:                  "DETAILS_DENIED",
			`"tool":"pay","arguments":null`: "DETAILS_DENIED",
			`"tool":"pay","arguments":{}`:   "DETAILS_DENIED",
			`"tool":"pay","arguments":{"amount":100.0000000000000000001}`: "DETAILS_DENIED",
			`"tool":"pay","arguments":{"amount":1e400}`:                   "DETAILS_DENIED",
			`"tool":"read","arguments":{"amount":1}`:                      "SCOPE_DENIED",
			`"tool":"shell","arguments":{"amount":1}`:                     "SCOPE_DENIED",
			`"arguments":{"amount":1}`:                                    "VERIFICATION_ERROR",
		} {
			r := acme.do(t, "POST /v1/passport/verify", `{"passport":"`+passport+`",`+body+`}`)
			if code == "" {
				same(t, body, r.status(200).at("claims", "authorization_details"), wideDetails)
			} else {
				r.gets(400, `{"valid":false,"error":"…","code":"`+code+`"}`)
			}
		}
		list := acme.do(t, "GET /v1/passports?status=valid", "").status(200)
		same(t, "list", list.at("passports", 0, "authorizationDetails"), wideDetails)
		passport = acme.do(t, "POST /v1/agents/bot/passport/rotate", "", passportName+passport).status(200).str("passport")
	}
	if text := acme.do(t, "GET /v1/chain?log=control", "").status(200).raw; strings.Count(string(text), `"authorizationDetails":[{"arguments":{"/amount":{"max":100}}`) != 3 {
		t.Errorf("the control log does not name the details of each passport: %s", text)
	}
	acme.do(t, "POST /v1/agents/bot/passport/rotate", "", passportName+acme.passport(t, "bot", "")).status(200)

	for body, pointer := range map[string]string{
		otherDetails: "/authorizationDetails/0/type",
		`[]`:         "/authorizationDetails",
		`{}`:         "/authorizationDetails",
		`[{"type":"tool_call","tools":["a"],"arguments":{"/x":{"like":1}}}]`: "/authorizationDetails/0/arguments/~1x/like",
	} {
		acme.do(t, issue, `{"authorizationDetails":`+body+`}`).
			gets(400, `{"error":"Invalid field: authorizationDetails …","code":"invalid_authorization_details","pointer":"`+pointer+`"}`)
	}
	acme.do(t, issue, `{"authorization_details":`+wideDetails+`}`).gets(400, `{"error":"…"}`)
}

// What is made of a token with authorization details has them, or narrower ones, at every door: no
// door drops them or accepts wider ones.
func TestDetailsAreCarriedOn(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	acme.agent(t, "bot")
	acme.agent(t, "helper")
	acme.namesForExchanges(t, "https://vault.example")
	client := acme.do(t, "POST /v1/oauth/clients", "").status(201)
	token := func(more ...string) *reply {
		return acme.with("").do(t, "POST /o/acme/token", oauthForm(append([]string{"grant_type", "client_credentials",
			"client_id", client.str("clientId"), "client_secret", client.str("clientSecret")}, more...)...), formType)
	}
	const member = "authorization_details"
	wide := canonicalDetails(t, wideDetails)

	// the token endpoint says what it granted, and introspection too
	for _, resource := range []string{"", "https://vault.example"} {
		more := []string{member, wideDetails}
		if resource != "" {
			more = append(more, "resource", resource)
		}
		r := token(more...).status(200)
		same(t, "granted", r.at(member), wideDetails)
		found := acme.do(t, "POST /o/acme/introspect", oauthForm("token", r.str("access_token")), formType).status(200)
		same(t, "introspected", found.at(member), wideDetails)
	}
	for _, text := range []string{otherDetails, "[]", "x", `{"type":"tool_call"}`} {
		token(member, text).gets(400, `{"error":"invalid_authorization_details","error_description":"…"}`)
	}
	token(member, "").gets(400, `{"error":"invalid_request","error_description":"authorization_details is empty…"}`)
	token("authorizationDetails", wideDetails).gets(400, `{"error":"invalid_request","error_description":"…"}`)

	// who has such a token gives no more than it
	limited := acme.with(token(member, wideDetails).str("access_token"))
	svid := limited.do(t, "GET /v1/agents/bot/svid", "").status(200).str("svid")
	helper := acme.do(t, "GET /v1/agents/helper/svid", "").status(200).str("svid")
	for name, made := range map[string]string{
		"SVID":           svid,
		"registration":   limited.do(t, "POST /v1/agents/register", `{"agentId":"bot"}`).status(201).str("svid"),
		"company's SVID": limited.do(t, "POST /v1/companies/svid", "").status(200).str("svid"),
		"JWT-SVID":       limited.do(t, "GET /v1/agents/bot/svid?audience=x", "").status(200).str("svid"),
		"agent's JWT":    limited.do(t, "POST /v1/agents/bot/token", `{"audience":"`+acme.issuer()+`"}`).status(201).str("token"),
		"passport":       limited.do(t, "POST /v1/agents/bot/passport", "").status(201).str("passport"),
		"delegation":     limited.do(t, "POST /v1/token-exchange", `{"agentId":"bot","actingOn":"globex","scope":"pay"}`).status(201).str("token"),
	} {
		if got := detailsOf(t, made); got != wide {
			t.Errorf("%s has %q", name, got)
		}
	}
	for call, body := range map[string]string{
		"POST /v1/agents/bot/passport": `{"authorizationDetails":`,
		"POST /v1/token-exchange":      `{"agentId":"bot","actingOn":"globex","scope":"pay","authorizationDetails":`,
	} {
		same(t, call, limited.do(t, call, body+narrowDetails+`}`).status(201).at("authorizationDetails"), narrowDetails)
		limited.do(t, call, body+widerDetails+`}`).gets(400, `{"error":"…","code":"invalid_authorization_details","pointer":"/authorizationDetails"}`)
	}

	// exchanges: of the specification, and of RFC 8693 by the two kinds of audience
	specified := func(subject, actor string, more ...string) *reply {
		return acme.do(t, "POST /v1/token/exchange", string(toJSON(t, object{
			"grant_type": grant, "subject_token": subject, "subject_token_type": jwtType, "actor_token": actor, "actor_token_type": jwtType,
			member: json.RawMessage(append(more, "null")[0]),
		})))
	}
	exchange := func(subject, actorToken string, more ...string) *reply {
		params := actor(actorToken)
		if len(more) > 0 {
			params = append(params, member, more[0])
		}
		return acme.exchanges(t, subject, params...)
	}
	leaves := func(subject, actorToken string, more ...string) *reply {
		params := append(actor(actorToken), "audience", "https://vault.example")
		if len(more) > 0 {
			params = append(params, member, more[0])
		}
		return acme.exchanges(t, subject, params...)
	}
	for name, exchange := range map[string]func(subject, actor string, more ...string) *reply{"specified": specified, "exchange": exchange, "leaving": leaves} {
		for who, pair := range map[string][2]string{"subject": {svid, helper}, "actor": {helper, svid}} {
			r := exchange(pair[0], pair[1]).status(200)
			same(t, name+" inherits of the "+who, r.at(member), wideDetails)
			if got := detailsOf(t, r.str("access_token")); got != wide {
				t.Errorf("%s of the %s: %q", name, who, got)
			}
			r = exchange(pair[0], pair[1], narrowDetails).status(200)
			same(t, name+" narrows", r.at(member), narrowDetails)
			for _, text := range []string{widerDetails, otherDetails} {
				if r := exchange(pair[0], pair[1], text).status(400); !strings.Contains(string(r.raw), "invalid_authorization_details") {
					t.Errorf("%s of the %s takes %s: %s", name, who, text, string(r.raw))
				}
			}
		}
		if r := exchange(helper, helper); r.code == 200 && detailsOf(t, r.str("access_token")) != "" {
			t.Errorf("%s makes up details", name)
		}
	}
	// and what was exchanged is exchanged again, or attested with
	again := exchange(exchange(svid, helper, narrowDetails).str("access_token"), svid).status(200).str("access_token")
	if got := detailsOf(t, again); got != narrowDetails {
		t.Errorf("the second hop has %q", got)
	}
}

// The guard of hooks asks for a passport that covers the call with its arguments.
func TestHookAsksForArguments(t *testing.T) {
	t.Parallel()
	acme := start(t).company(t, "acme")
	acme.agent(t, "bot")
	acme.passport(t, "bot", `{"scopes":["tool:*"],"authorizationDetails":[{"type":"tool_call","tools":["Bash"],"arguments":{"/command":{"equals":"git status"}}}]}`)
	ask := func(id, command string) *reply {
		return acme.do(t, hook+"?agent=bot&require=passport", event("PreToolUse", id, `,"tool_input":{"command":"`+command+`"}`))
	}
	ask("t1", "git status").gets(200, `{}`)
	for _, command := range []string{"git push", "git status; rm -r /", "Git status"} {
		if r := ask(command, command).status(200); !strings.Contains(string(r.raw), `"permissionDecision":"deny"`) {
			t.Errorf("%s: %s", command, string(r.raw))
		}
	}
}
