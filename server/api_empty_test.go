package server_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"attestd/internal/must"
	"attestd/internal/testenv"
)

// mayBeEmpty are the members that may be there without a value, because none of them affects what a
// caller may do, or in whose name.
var mayBeEmpty = map[string]string{
	"query agent":       "a filter of what the caller may read without it; not of a hook and an export, which write in its name",
	"query agentId":     "a filter",
	"query action":      "a filter",
	"query delegatedBy": "a filter",
	"query payload":     "a filter",
	"query hash":        "a filter",
	"query q":           "a filter",
	"query sid":         "a filter",
	"query kid":         "a filter",
	"query kind":        "a filter",
	"query since":       "a filter",
	"query until":       "a filter",
	"query from":        "a filter",
	"query to":          "a filter",
	"query by":          "what is counted",
	"query order":       "an order",
	"query cursor":      "the first page",

	"body label":       "for people",
	"body arguments":   "a tool may have none",
	"body description": "for people",
	"body email":       "none is removed, or given",
	"body groups":      "a person or an agent in no group",
	"body credential":  "whatever is wrong with it is refused as an assertion",
	"body reason":      "for people",
	"body metadata":    "for people",
	"body payload":     "any JSON is a payload",
	"body policies":    "the empty set is tried",
	"body remove":      "nothing is taken out of the set that is tried",
	"body context":     "of an access evaluation: a call without arguments",
	"body options":     "of access evaluations: all are decided",
}

// A member of the query or the body that bears on rights is refused when it has no value: a caller
// who omits the value by mistake gets no more than was meant. Each operation is requested with each
// of its members empty in turn.
func TestEmptyValuesAreRefused(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	s := start(t)
	p := s.populate(t, "acme")
	client := p.oauthClient(t, "admin")
	p.names["client_id"], p.names["client_secret"] = client.clientID, client.secret
	doc, err := openapi3.NewLoader().LoadFromFile("../web/openapi.yaml")
	must.OK(t, err)
	tried := 0
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			as := p.caller
			if op.Extensions["x-role"] == "enrolling" {
				as = p.holders["enrolling"][0]
			}
			call, body, headers := p.ask(method+" "+strings.Replace(path, "{companyId}", "acme", 1), op)
			if op.OperationID == "stream" {
				headers = append(headers, handshake...)
			}
			refused := func(what, call, body string, headers ...string) {
				t.Helper()
				tried++
				answer := as.do(t, call, body, headers...)
				// whatever is wrong with an assertion is 401
				asserted := strings.HasPrefix(what, "client_assertion ") && answer.code == 401
				// who is no person is refused first; TestApprovers tries these members
				ofPerson := op.Extensions["x-role"] == "person" && answer.code == 403
				if answer.code != 400 && answer.code != 422 && !asserted && !ofPerson {
					t.Errorf("%s: %s that is empty is %d: %s", op.OperationID, what, answer.code, short(answer.raw))
				}
			}
			writes := op.OperationID == "claudeCodeHook" || op.OperationID == "exportTraces" || op.OperationID == "exportLogs"
			for _, parameter := range op.Parameters {
				name := parameter.Value.Name
				if _, may := mayBeEmpty["query "+name]; parameter.Value.In == "query" && (!may || writes) {
					bare, query, _ := strings.Cut(call, "?")
					stored := slices.DeleteFunc(strings.Split(query, "&"), func(pair string) bool { return pair == "" || strings.HasPrefix(pair, name+"=") })
					refused(name, bare+"?"+strings.Join(append(stored, name+"="), "&"), body, headers...)
					refused(name, bare+"?"+strings.Join(append(stored, name), "&"), body, headers...)
				}
			}
			if op.RequestBody == nil || op.RequestBody.Value.Content["application/json"] == nil || body == "" {
				continue
			}
			var members map[string]any
			must.OK(t, json.Unmarshal([]byte(body), &members))
			for name := range op.RequestBody.Value.Content["application/json"].Schema.Value.Properties {
				if _, may := mayBeEmpty["body "+name]; may {
					continue
				}
				for _, empty := range []any{"", []any{}, map[string]any{}} {
					with := maps.Clone(members)
					with[name] = empty
					raw, err := json.Marshal(with)
					must.OK(t, err)
					refused(fmt.Sprintf("%s %v", name, empty), call, string(raw), append(headers, jsonType)...)
				}
			}
		}
	}
	for _, name := range []string{"agentId", "actionType", "delegation", "statement", "idempotencyKey"} {
		item := map[string]any{"agentId": "bot", "actionType": "a", "payload": 1, name: ""}
		raw, err := json.Marshal(map[string]any{"records": []any{item}})
		must.OK(t, err)
		p.do(t, "POST /v1/attest/batch", string(raw)).status(400).contains(`"pointer":"/records/0`)
	}
	if tried < 250 {
		t.Errorf("%d requests", tried)
	}
}

// What RFC 6749 §3.2 says of parameters without a value holds for its own and those of the other
// RFCs. Not for what we have added to it, nor for an empty header DPoP.
func TestEmptyParametersAtTheTokenEndpoint(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	c := acme.oauthClient(t, "admin")
	subject := acme.agent(t, "bot")
	c.asks(t, []string{"scope", "", "resource", "", "audience", ""}).gets(200, `{"access_token":"oauth_<secret>","token_type":"bearer","expires_in":3600}`)
	const invalid = `{"error":"invalid_request","error_description":"may_act is empty: leave it out, or give it a value"}`
	c.asks(t, []string{"may_act", ""}).gets(400, invalid)
	acme.exchanges(t, subject, "may_act", "").gets(400, invalid)
	for _, path := range []string{"/v1/oauth/token", "/o/acme/token"} {
		noProof := `{"error":"invalid_dpop_proof","error_description":"the header DPoP is empty: leave it out, or send a proof"}`
		form := oauthForm("grant_type", "client_credentials", "client_id", c.clientID, "client_secret", c.secret)
		c.do(t, "POST "+path, form, formType, "DPoP:").gets(400, noProof)
		acme.do(t, "POST "+path, oauthForm("grant_type", grant, "subject_token", subject, "subject_token_type", typeOf(subject)), formType, "DPoP:").gets(400, noProof)
	}
}

// An address of a hook that asks for no passport does so because nothing in it asks for one.
func TestHookAddressWithoutAValue(t *testing.T) {
	t.Parallel()
	acme := start(t).company(t, "acme")
	for _, query := range []string{"agent=bot&require", "agent=bot&require=", "require&agent=bot", "agent=&require=passport", "agent", "redact", "redact=&require=passport"} {
		acme.do(t, hook+"?"+query, event("PreToolUse", "t1", `,"tool_input":{}`)).gets(400, `{"error":"Invalid query parameter: … is empty: leave it out, or give it a value"}`)
	}
	if got := acme.hooked(t); len(got) != 0 {
		t.Errorf("%q", got)
	}
	acme.do(t, hook+"?agent=bot&require=passport", event("PreToolUse", "t1", `,"tool_input":{}`)).status(200).contains("deny")
}
