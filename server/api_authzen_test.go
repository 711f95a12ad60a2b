package server_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"attestd/internal/must"
)

const (
	evaluate    = "POST /access/v1/evaluation"
	evaluateAll = "POST /access/v1/evaluations"
)

// decisionRecord is a record of a decision.
type decisionRecord struct {
	ActionType, AgentID string
	Payload             json.RawMessage
	Decision            json.RawMessage
}

// authorizations returns the records of decisions, the first one first.
func (c caller) authorizations(t testing.TB) (all []decisionRecord) {
	t.Helper()
	var page struct {
		Records []struct{ Payload decisionRecord }
	}
	must.OK(t, json.Unmarshal(c.do(t, "GET /v1/records?action=authorization.*&order=oldest&limit=1000", "").status(200).raw, &page))
	for i := range page.Records {
		all = append(all, page.Records[i].Payload)
	}
	return all
}

// asks is the body of an access evaluation of a tool.
func asks(agent, tool, arguments string) string {
	return `{"subject":{"type":"agent","id":"` + agent + `"},"action":{"name":"call"},"resource":{"type":"tool","id":"` + tool + `"},"context":{"arguments":` + arguments + `}}`
}

// A gateway asks by AuthZEN whether an agent may call a tool, and what is denied is on record.
func TestAuthZENDecidesCalls(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	acme.agent(t, "bot")
	acme.do(t, "PUT /v1/policies/all", policyBody(t, `permit (principal, action, resource) unless { resource == Tool::"pay" };
permit (principal, action, resource == Tool::"pay") when { context.approved };`)).status(200)
	acme.do(t, "PUT /v1/policies/large", policyBody(t, `forbid (principal, action == Action::"call", resource in Server::"bank") when { context.arguments.amount > 100 && context.door == "authzen" };`)).status(200)
	reader := acme.create(t, "reader", "")
	const allowed, denied = `{"decision":true,"context":{"verdict":"allow","by":["all#0"]}}`, `{"decision":false,"context":{"verdict":"deny","code":"POLICY_DENIED","by":["large"]}}`
	reader.do(t, evaluate, asks("bot", "bank/transfer", `{"amount":100}`)).gets(200, allowed)
	reader.do(t, evaluate, asks("bot", "bank/transfer", `{"amount":101,"password":"hunter2hunter2"}`)).gets(200, denied)
	reader.do(t, evaluate, asks("bot", "mcp__bank__transfer", `{"amount":101}`)).gets(200, denied)
	// the agent by its SPIFFE ID, the action by the tool's own name, and members of other versions
	reader.do(t, evaluate, `{"subject":{"type":"agent","id":"`+botID+`","later":1},"action":{"name":"transfer"},"resource":{"type":"tool","id":"bank/transfer"},"context":{"arguments":{"amount":101},"time":"x"},"later":{}}`).
		gets(200, denied)
	reader.do(t, evaluate, asks("bot", "bank/transfer", `{}`)).gets(200, `{"decision":false,"context":{"verdict":"deny","code":"DECISION_ERROR","by":[]}}`)
	reader.do(t, evaluate, asks("bot", "pay", `{}`)).gets(200, `{"decision":false,"context":{"verdict":"ask","by":["all#1"]}}`)
	records := acme.authorizations(t)
	if len(records) != 5 {
		t.Fatalf("%d records of 5 denials: %s", len(records), toJSON(t, records))
	}
	first := records[0]
	same(t, "actionType and agentId", []any{first.ActionType, first.AgentID}, []any{"authorization.denied", "bot"})
	same(t, "payload", first.Payload, `{"door":"authzen","action":"call","resource":{"type":"tool","id":"bank/transfer"},"arguments":{"amount":101,"password":"[masked 14]"}}`)
	same(t, "decision", first.Decision, `{"by":["large"],"code":"POLICY_DENIED","context":{"door":"authzen","time":"<time>"},"policies":"<anything>","revision":2,"verdict":"deny"}`)
	// a draft is tried on them as on any decision
	acme.do(t, "POST /v1/policies/test", `{"remove":["large"]}`).gets(200, `{"decided":5,"different":[
		{"index":0,"was":"deny","becomes":"allow","by":["all#0"]},{"index":1,"was":"deny","becomes":"allow","by":["all#0"]},
		{"index":2,"was":"deny","becomes":"allow","by":["all#0"]},{"index":3,"was":"deny","becomes":"allow","by":["all#0"]}],"next":null}`)
	acme.do(t, "GET /v1/verify", "").has(`{"valid":true}`)
}

// What is allowed becomes a record where the company asks for it.
func TestAllowedDecisionsAreRecorded(t *testing.T) {
	t.Parallel()
	acme := start(t).company(t, "acme")
	acme.agent(t, "bot")
	acme.do(t, evaluate, asks("bot", "ls", `{}`)).has(`{"decision":true}`)
	acme.do(t, "PUT /v1/company/policy", `{"decisions":"all"}`).status(200)
	acme.do(t, evaluate, asks("bot", "ls", `{}`)).gets(200, `{"decision":true,"context":{"verdict":"allow","by":[]}}`)
	records := acme.authorizations(t)
	if len(records) != 1 || records[0].ActionType != "authorization.allowed" {
		t.Errorf("the records are %s", toJSON(t, records))
	}
}

// The payloads of AuthZEN's interoperability tests: a list of things to do, whose users are agents
// here, and gateways that ask about routes.
func TestAuthZENInterop(t *testing.T) {
	t.Parallel()
	acme := start(t).company(t, "acme")
	for id, group := range map[string]string{"Q2lSclJpY2s": "admin", "Q2lSTW9ydHk": "editor", "Q2lSSmVycnk": "viewer"} {
		acme.agent(t, id)
		acme.do(t, "PUT /v1/agents/"+id+"/policy", `{"groups":["`+group+`"]}`).status(200)
	}
	acme.do(t, "PUT /v1/policies/todo", policyBody(t, `permit (principal in Group::"admin", action, resource);
permit (principal, action, resource in ActionType::"can_read_todos");
permit (principal in Group::"editor", action, resource == ActionType::"can_update_todo")
when { context.arguments.resource.properties.ownerID == "morty@the-citadel.com" };
permit (principal, action, resource == ActionType::"GET") when { context.arguments.resource.id == "/todos" };`)).status(200)
	request := func(user, name, resource string) string {
		return `{"subject":{"type":"user","id":"` + user + `"},"action":{"name":"` + name + `"},"resource":` + resource + `}`
	}
	todo := func(owner string) string {
		return `{"type":"todo","id":"7240d0db","properties":{"ownerID":"` + owner + `"}}`
	}
	const rick, morty, jerry, ricks, mortys = "Q2lSclJpY2s", "Q2lSTW9ydHk", "Q2lSSmVycnk", "rick@the-citadel.com", "morty@the-citadel.com"
	for body, want := range map[string]bool{
		request(rick, "can_read_user", `{"type":"user","id":"beth@the-smiths.com"}`):                                             true,
		request(jerry, "can_read_todos", `{"type":"todo","id":"todo-1"}`):                                                        true,
		request(jerry, "can_create_todo", `{"type":"todo","id":"todo-1"}`):                                                       false,
		request(rick, "can_update_todo", todo(mortys)):                                                                           true,
		request(morty, "can_update_todo", todo(mortys)):                                                                          true,
		request(morty, "can_update_todo", todo(ricks)):                                                                           false,
		`{"subject":{"type":"identity","id":"` + jerry + `"},"action":{"name":"GET"},"resource":{"type":"route","id":"/todos"}}`: true,
		`{"subject":{"type":"identity","id":"` + jerry + `"},"action":{"name":"POST"},"resource":{"type":"route","id":"/todos"},"context":{"headers":{"accept":"*/*"}}}`: false,
		request("nobody", "can_read_todos", `{"type":"todo","id":"todo-1"}`):                                                                                             false,
	} {
		acme.do(t, evaluate, body).has(fmt.Sprintf(`{"decision":%t}`, want))
	}
	several := `{"subject":{"type":"user","id":"` + morty + `"},"action":{"name":"can_update_todo"},"evaluations":[{"resource":` + todo(ricks) + `},{"resource":` + todo(mortys) + `}]`
	decisions := func(more string) (all []bool) {
		var answer struct{ Evaluations []struct{ Decision bool } }
		must.OK(t, json.Unmarshal(acme.do(t, evaluateAll, several+more+`}`).status(200).raw, &answer))
		for _, one := range answer.Evaluations {
			all = append(all, one.Decision)
		}
		return all
	}
	same(t, "all", decisions(""), []bool{false, true})
	same(t, "execute_all", decisions(`,"options":{"evaluations_semantic":"execute_all","another":1}`), []bool{false, true})
	same(t, "deny_on_first_deny", decisions(`,"options":{"evaluations_semantic":"deny_on_first_deny"}`), []bool{false})
	same(t, "permit_on_first_permit", decisions(`,"options":{"evaluations_semantic":"permit_on_first_permit"}`), []bool{false, true})
	// without evaluations, it is a single one
	single := request(rick, "can_update_todo", todo(mortys))
	for _, none := range []string{``, `,"evaluations":[]`, `,"evaluations":null`} {
		acme.do(t, evaluateAll, single[:len(single)-1]+none+`}`).gets(200, `{"decision":true,"context":{"verdict":"allow","by":["todo#0"]}}`)
	}
}

// What is wrong with a request is 400 with a text, and what is wrong with one of several denies it.
func TestAuthZENRefusals(t *testing.T) {
	t.Parallel()
	acme := start(t).company(t, "acme")
	acme.agent(t, "bot")
	good := asks("bot", "ls", `{}`)
	for bad, want := range map[string]string{
		``: "subject", `{}`: "subject", `[]`: "object", `{"subject":1}`: "subject", strings.Replace(good, `"agent"`, `""`, 1): "subject.type",
		strings.Replace(good, `"bot"`, `7`, 1): "subject.id", strings.Replace(good, `{"name":"call"}`, `{}`, 1): "action.name",
		strings.Replace(good, `{"type":"tool","id":"ls"}`, `null`, 1): "resource", strings.Replace(good, `"ls"`, `"ls","properties":1`, 1): "resource.properties",
		strings.Replace(good, `{"arguments":{}}`, `[]`, 1): "context", strings.Replace(good, `"arguments":{}`, `"arguments":[]`, 1): "context.arguments",
		strings.Replace(good, `"subject"`, `"subject":{},"subject"`, 1): "duplicate",
	} {
		if message := textOf(t, acme.do(t, evaluate, bad).status(400)); !strings.Contains(message, want) {
			t.Errorf("%s: %s, want %s", bad, message, want)
		}
	}
	for _, bad := range []string{`{"evaluations":1}`, `{"evaluations":[{}],"options":{"evaluations_semantic":"first"}}`, `{"evaluations":[{}],"options":1}`, `{"evaluations":[` + strings.Repeat(`{},`, 100) + `{}]}`, `{"evaluations":[]}`} {
		textOf(t, acme.do(t, evaluateAll, bad).status(400))
	}
	acme.do(t, evaluateAll, good[:len(good)-1]+`,"evaluations":[{},{"subject":{"type":"agent"}},1,{"resource":{"type":"tool","id":"cat"}}]}`).gets(200, `{"evaluations":[
		{"decision":true,"context":{"verdict":"allow","by":[]}},
		{"decision":false,"context":{"verdict":"deny","by":[],"error":{"status":400,"message":"subject.id …"}}},
		{"decision":false,"context":{"verdict":"deny","by":[],"error":{"status":400,"message":"…"}}},
		{"decision":true,"context":{"verdict":"allow","by":[]}}]}`)
	if message := textOf(t, acme.anyone().do(t, evaluate, good).status(401)); message != "Unauthorized" {
		t.Errorf("without a credential: %s", message)
	}
	answer := acme.do(t, evaluate, good, "X-Request-ID: bfe9eb29-ab87").status(200)
	if id := answer.header.Get("X-Request-ID"); id != "bfe9eb29-ab87" {
		t.Errorf("X-Request-ID is %q", id)
	}
	if id := acme.do(t, evaluate, good, "X-Request-ID: "+strings.Repeat("x", 129)).header.Get("X-Request-ID"); len(id) != 36 {
		t.Errorf("an X-Request-ID that is too long is answered with %q", id)
	}
}

// textOf is an answer that is a text.
func textOf(t testing.TB, r *reply) (text string) {
	t.Helper()
	must.OK(t, json.Unmarshal(r.raw, &text))
	return text
}

// Nobody learns of another's agents, an agent asks about itself alone, and what names no agent is
// recorded in nobody's name.
func TestAuthZENSubjects(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme, zoo := s.company(t, "acme"), s.company(t, "zoo")
	acme.agent(t, "bot")
	acme.agent(t, "other")
	unknown := `{"decision":false,"context":{"verdict":"deny","code":"SUBJECT_UNKNOWN","by":[]}}`
	zoo.do(t, evaluate, asks("bot", "ls", `{}`)).gets(200, unknown)
	zoo.do(t, evaluate, asks(botID, "ls", `{}`)).gets(200, unknown)
	zoo.do(t, evaluate, strings.Replace(asks("bot", "ls", `{}`), `"agent"`, `"group"`, 1)).gets(200, unknown)
	acme.do(t, evaluate, strings.Replace(asks("bot", "ls", `{}`), `"agent"`, `"group"`, 1)).gets(200, unknown)
	if found := zoo.authorizations(t); len(found) != 3 || found[1].AgentID != "(unknown)" {
		t.Errorf("records of zoo: %s", toJSON(t, found))
	} else {
		same(t, "payload", found[1].Payload, `{"door":"authzen","action":"call","resource":{"type":"tool","id":"ls"},"arguments":{},"subject":{"type":"agent","id":"`+botID+`"}}`)
	}
	if found := acme.authorizations(t); len(found) != 1 {
		t.Errorf("records of acme: %s", toJSON(t, found))
	}
	agent := acme.signer(t, "bot", "EdDSA").signsIn(t)
	agent.do(t, evaluate, asks("bot", "ls", `{}`)).has(`{"decision":true}`)
	for _, other := range []string{"other", "nobody"} {
		if message := textOf(t, agent.do(t, evaluate, asks(other, "ls", `{}`)).status(403)); !strings.Contains(message, "FORBIDDEN_AGENT") {
			t.Errorf("an agent asks about %s: %s", other, message)
		}
	}
	agent.do(t, evaluateAll, `{"evaluations":[`+asks("other", "ls", `{}`)+`]}`).gets(200, `{"evaluations":[{"decision":false,"context":{"verdict":"deny","code":"FORBIDDEN_AGENT","by":[],"error":{"status":403,"message":"…"}}}]}`)
	acme.do(t, evaluate, `{"subject":{"type":"agent","id":"bot"},"action":{"name":"call"},"resource":{"type":"route","id":"/"}}`).
		gets(200, `{"decision":false,"context":{"verdict":"deny","code":"ACTION_UNKNOWN","by":[]}}`)
	acme.do(t, "POST /v1/agents/bot/disable", "").status(200)
	acme.do(t, evaluate, asks("bot", "ls", `{}`)).gets(200, `{"decision":false,"context":{"verdict":"deny","code":"AGENT_DISABLED","by":[]}}`)
	before := acme.length(t)
	acme.suspend(t)
	acme.do(t, evaluate, asks("other", "ls", `{}`)).gets(200, `{"decision":false,"context":{"verdict":"deny","code":"COMPANY_SUSPENDED","by":[]}}`)
	if acme.length(t) != before {
		t.Error("something is recorded for a suspended company")
	}
}

// An agent that asks again and again fills no log: a hundred denials a minute are recorded. What is
// left out for one hides nothing of another.
func TestDeniedDecisionsAreBounded(t *testing.T) {
	t.Parallel()
	acme := start(t).company(t, "acme")
	acme.agent(t, "bot")
	acme.agent(t, "other")
	acme.do(t, "PUT /v1/policies/none", policyBody(t, `forbid (principal, action, resource);`)).status(200)
	body := `{"evaluations":[` + strings.Repeat(asks("bot", "ls", `{}`)+`,`, 69) + asks("bot", "ls", `{}`) + `]}`
	acme.do(t, evaluateAll, body).status(200)
	acme.do(t, evaluateAll, body).status(200)
	acme.do(t, evaluate, asks("other", "ls", `{}`)).has(`{"decision":false}`)
	count := map[string]int{}
	for _, r := range acme.authorizations(t) {
		count[r.AgentID]++
	}
	same(t, "records", count, map[string]int{"bot": 100, "other": 1})
}

// The metadata of the server, and of a company, name the decision point as it was asked.
func TestAuthZENMetadata(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.company(t, "acme")
	ask := s.anyone()
	ask.do(t, "GET /.well-known/authzen-configuration", "", "Origin: https://page.example").
		gets(200, `{"policy_decision_point":"`+s.url+`","access_evaluation_endpoint":"`+s.url+`/access/v1/evaluation","access_evaluations_endpoint":"`+s.url+`/access/v1/evaluations"}`)
	ask.do(t, "GET /.well-known/authzen-configuration/o/acme", "").
		gets(200, `{"policy_decision_point":"`+s.url+`/o/acme","access_evaluation_endpoint":"`+s.url+`/access/v1/evaluation","access_evaluations_endpoint":"`+s.url+`/access/v1/evaluations"}`)
	ask.do(t, "GET /.well-known/authzen-configuration/o/ghost", "").status(404)
	ask.do(t, "GET /.well-known/authzen-configuration", "", "Host: attest.example").gets(421, `{"error":"…","code":"NAME_UNKNOWN"}`)
}
