package server_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"attestd/crypto/assertion"
	"attestd/internal/must"
	"attestd/internal/testenv"
)

// Whoever verifies a passport is told what the policies say of the call, and the denial is on
// record in the agent's name with the passport.
func TestVerifyIsDecided(t *testing.T) {
	t.Parallel()
	acme := start(t).company(t, "acme")
	acme.agent(t, "bot")
	passport := acme.passport(t, "bot", `{"scopes":["tool:read","tool:pay"]}`)
	verify := func(tool, arguments string) *reply {
		return acme.do(t, "POST /v1/passport/verify", `{"passport":"`+passport+`"`+strings.Replace(`,"tool":"`+tool+`"`, `,"tool":""`, ``, 1)+arguments+`}`)
	}
	// without policies nothing changes: a denial leaves no record
	verify("write", "").gets(400, `{"valid":false,"error":"…","code":"SCOPE_DENIED"}`)
	if n := acme.length(t); n != 0 {
		t.Fatalf("%d records without policies", n)
	}
	acme.do(t, "PUT /v1/policies/all", policyBody(t, `permit (principal, action, resource) unless { resource == Tool::"pay" && context.arguments.amount > 100 };
forbid (principal, action, resource == Tool::"read") when { context.door == "verify" && !context.scopes.contains("tool:read") };`)).status(200)
	verify("read", "").status(200)
	verify("", "").status(200)
	verify("pay", `,"arguments":{"amount":5}`).status(200)
	verify("pay", `,"arguments":{"amount":500,"token":"hunter2hunter2"}`).gets(400, `{"valid":false,"error":"The policies of the company do not allow the call","code":"POLICY_DENIED"}`)
	verify("write", "").gets(400, `{"valid":false,"error":"…","code":"SCOPE_DENIED"}`)
	acme.do(t, "POST /v1/passport/verify", `{"passport":"garbage","tool":"read"}`).gets(400, `{"valid":false,"error":"…","code":"MALFORMED_TOKEN"}`)
	id := jti(t, acme, passport)
	acme.do(t, "POST /v1/passports/"+id+"/revoke", "").status(200)
	verify("", "").gets(400, `{"valid":false,"error":"…","code":"PASSPORT_REVOKED"}`)
	var codes []string
	records := acme.authorizations(t)
	for _, r := range records {
		var d struct{ Code, Passport string }
		_ = json.Unmarshal(r.Decision, &d)
		if (d.Passport == id) != (r.AgentID == "bot") {
			t.Errorf("the record of %s names the passport %q", r.AgentID, d.Passport)
		}
		codes = append(codes, r.ActionType+" "+r.AgentID+" "+d.Code)
	}
	same(t, "records", codes, []string{"authorization.denied bot POLICY_DENIED", "authorization.denied bot SCOPE_DENIED", "authorization.denied (unknown) MALFORMED_TOKEN", "authorization.denied bot PASSPORT_REVOKED"})
	same(t, "payload", records[0].Payload, `{"door":"verify","action":"call","resource":{"type":"tool","id":"pay"},"arguments":{"amount":500,"token":"[masked 14]"}}`)
	same(t, "without a tool", records[3].Payload, `{"door":"verify","action":"call","resource":{"type":"tool","id":"(not checked)"}}`)
	// policies are tried again on what they decided, and on nothing else
	acme.do(t, "POST /v1/policies/test", "").has(`{"decided":1,"different":[]}`)
	acme.suspend(t)
	verify("", "").gets(400, `{"valid":false,"error":"…","code":"PASSPORT_REVOKED"}`)
}

// A policy says for which audiences an agent gets tokens. What it is refused is on record.
func TestTokensAreDecided(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	acme.agent(t, "bot")
	bot := acme.signer(t, "bot", "EdDSA")
	token := func(more ...string) *reply {
		form := url.Values{"grant_type": {"client_credentials"}, "client_assertion_type": {assertion.Type}, "client_assertion": {bot.assertion(t)}}
		for i := 0; i < len(more); i += 2 {
			form.Add(more[i], more[i+1])
		}
		return s.anyone().do(t, tokenCall, form.Encode(), formType)
	}
	token("resource", "https://bank.example").status(200)
	acme.do(t, "PUT /v1/policies/tools", policyBody(t, `permit (principal, action == Action::"call", resource);
permit (principal == Agent::"bot", action == Action::"token", resource == Audience::"https://mail.example");`)).status(200)
	token().status(200) // for this service
	token("resource", "https://mail.example").status(200)
	token("resource", "https://mail.example", "resource", "https://bank.example").
		gets(400, `{"error":"access_denied","error_description":"the policies of the company do not allow the agent a token for https://bank.example"}`)
	token("scope", "admin").gets(400, `{"error":"invalid_scope","error_description":"…"}`)
	records := acme.authorizations(t)
	if len(records) != 2 {
		t.Fatalf("the records are %s", toJSON(t, records))
	}
	same(t, "payload", records[0].Payload, `{"door":"token","action":"token","resource":{"type":"audience","id":"https://bank.example"}}`)
	same(t, "decision", records[0].Decision, `{"by":[],"code":"POLICY_DENIED","context":{"door":"token","time":"<time>"},"policies":"<anything>","revision":1,"verdict":"deny"}`)
	// an actor gets none by an exchange either
	acme.namesForExchanges(t, "vault")
	svid, helper := acme.agent(t, "bot"), acme.agent(t, "helper")
	for _, audience := range []string{"vault", "https://elsewhere.example"} {
		acme.exchanges(t, svid, append(actor(helper), "audience", audience)...).status(400)
	}
	exchanged := acme.authorizations(t)[len(records):]
	if len(exchanged) != 2 || exchanged[0].AgentID != "helper" || !strings.Contains(string(exchanged[0].Decision), "POLICY_DENIED") || !strings.Contains(string(exchanged[1].Decision), "AUDIENCE_DENIED") {
		t.Errorf("the records of exchanges are %s", toJSON(t, exchanged))
	}
	same(t, "payload of a scope", records[1].Payload, `{"door":"token","action":"token","resource":{"type":"audience","id":"`+orgID+`"}}`)
}

// Every operation of the document is requested while a policy forbids everything. Each answer that
// says so leaves a record with the decision. Another door that decides is found here by itself.
func TestEveryDenialIsOnRecord(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	s := start(t)
	doc, err := openapi3.NewLoader().LoadFromFile("../web/openapi.yaml")
	must.OK(t, err)
	denied := regexp.MustCompile(`"POLICY_DENIED"|"access_denied"|"verdict":"deny"|"permissionDecision":"deny"`)
	var doors []string
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			if op.Extensions["x-role"] == "public" || method == "GET" || method == "DELETE" {
				continue
			}
			p := s.populate(t, strings.ToLower(op.OperationID))
			p.do(t, "PUT /v1/policies/none", policyBody(t, `forbid (principal, action, resource);`)).status(200)
			call, body, headers := p.ask(method+" "+path, op)
			if op.OperationID == "verifyPassport" { // a call
				body = `{"passport":"` + p.names["passport"] + `","tool":"read"}`
			}
			before := p.length(t)
			answer := p.do(t, call, body, headers...)
			if !denied.Match(answer.raw) {
				continue
			}
			doors = append(doors, op.OperationID)
			after := p.length(t)
			if after == before {
				t.Errorf("%s is denied, and nothing is recorded: %s", op.OperationID, short(answer.raw))
				continue
			}
			last := p.do(t, fmt.Sprintf("GET /v1/records?order=newest&limit=%d", after-before), "").status(200)
			if !strings.Contains(string(last.raw), `"decision":{"by":["none"],"code":"POLICY_DENIED"`) {
				t.Errorf("%s is denied, and its record holds no decision: %s", op.OperationID, short(last.raw))
			}
		}
	}
	for _, door := range []string{"evaluateAccess", "evaluateAccesses", "verifyPassport"} {
		if !slices.Contains(doors, door) {
			t.Errorf("%s was not denied", door)
		}
	}
	t.Logf("denied: %v", doors)
}

// Where a hook asks for a passport, the decision of a call names the one that covers it, and denies
// where there is none, whatever the policies say.
func TestDecisionNamesPassport(t *testing.T) {
	t.Parallel()
	acme := start(t).company(t, "acme")
	acme.agent(t, "bot")
	acme.do(t, "PUT /v1/policies/all", policyBody(t, `permit (principal, action, resource);`)).status(200)
	const asking = "?agent=bot&require=passport"
	acme.hookEvent(t, asking, "PreToolUse", "without", `,"tool_input":{"command":"ls"}`)
	id := jti(t, acme, acme.passport(t, "bot", `{"scopes":["tool:Bash"]}`))
	acme.hookEvent(t, asking, "PreToolUse", "with", `,"tool_input":{"command":"ls"}`)
	var page struct {
		Records []struct{ Payload decisionRecord }
	}
	must.OK(t, json.Unmarshal(acme.do(t, "GET /v1/records?action=tool.requested&order=oldest", "").status(200).raw, &page))
	if len(page.Records) != 2 {
		t.Fatalf("%d requests", len(page.Records))
	}
	for i, want := range []string{
		`{"by":[],"code":"SCOPE_DENIED","context":"<anything>","policies":"<anything>","revision":1,"verdict":"deny"}`,
		`{"by":["all"],"context":"<anything>","passport":"` + id + `","policies":"<anything>","revision":1,"verdict":"allow"}`,
	} {
		same(t, "decision", page.Records[i].Payload.Decision, want)
	}
}
