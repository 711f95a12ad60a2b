package server_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"attestd/crypto/cred"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store/storetest"
)

// hookEvent sends an event of Claude Code to the company's hook.
func (c caller) hookEvent(t testing.TB, query, event, call, more string) {
	t.Helper()
	c.do(t, "POST /v1/hooks/claude-code"+query, fmt.Sprintf(
		`{"hook_event_name":%q,"session_id":"run-7","tool_name":"Bash","tool_use_id":%q%s}`, event, call, more)).status(200)
}

const passportRequired = "?require=passport"

// A call that attestd refused and that ran all the same is a finding: a control record, a message
// of webhooks, the state of its session, and a reason of readyz with a count, over a restart too.
func TestRefusedCallThatRan(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	path := storetest.New(t)
	s := startOn(t, path, cred.Domain{}, private)
	acme := s.company(t, "acme")
	e := newEndpoint(t)
	acme.webhook(t, e.URL, `,"actions":["call.*"]`)
	for _, event := range []struct{ query, name, call, more string }{
		{"", "PreToolUse", "allowed", `,"tool_input":{"command":"ls"}`},
		{"", "PostToolUse", "allowed", `,"tool_response":"a"`},
		{passportRequired, "PreToolUse", "obeyed", `,"tool_input":{"command":"rm a"}`},
		{passportRequired, "PreToolUse", "disobeyed", `,"tool_input":{"command":"rm b"}`},
	} {
		acme.hookEvent(t, event.query, event.name, event.call, event.more)
	}
	session := func(t testing.TB, c caller) *reply {
		t.Helper()
		return c.do(t, "GET /v1/sessions?sid=run-7", "").status(200)
	}
	if r := session(t, acme); r.at("sessions", 0, "state") != "unproven" {
		t.Errorf("before it ran: %s", r.raw)
	}
	acme.hookEvent(t, "", "PostToolUse", "disobeyed", `,"tool_response":"gone"`)

	found := e.keyEvent(t, "call.disobeyed", "claude-code")
	record := acme.do(t, fmt.Sprintf("GET /v1/chain?log=control&from=%d&limit=1", found.Data.Index), "").status(200)
	payload, err := json.Marshal(record.at("records", 0, "payload", "payload"))
	must.OK(t, err)
	if err := like(t, `{"subject":"…","by":null,"agentId":"claude-code","source":"claude-code","tool":"Bash","callId":"disobeyed",
		"sessionId":"run-7","kid":"hook","sid":"run-7","refused":5,"done":6}`, payload); err != nil {
		t.Error(err)
	}
	r := session(t, acme)
	if got := fmt.Sprint(r.at("sessions", 0, "state"), r.at("sessions", 0, "completeness"), r.at("sessions", 0, "disobeyed")); got !=
		"disobeyedunproven[map[done:6 refused:5 tool:Bash]]" {
		t.Errorf("%s: %s", got, r.raw)
	}
	isSaid := func(s *service) func() bool {
		return func() bool {
			r := s.anyone().do(t, "GET /readyz", "").status(200)
			return strings.Contains(string(r.raw), `"reasons":["DISOBEYED"]`) && r.at("callsDisobeyed") == 1.0
		}
	}
	eventually(t, "readyz says DISOBEYED", isSaid(s))

	s.stop()
	again := startOn(t, path, cred.Domain{}, private)
	// the start may add other reasons for a moment
	eventually(t, "readyz says it after a restart too", isSaid(again))
	if r := session(t, caller{again, acme.id, acme.credential}); r.at("sessions", 0, "state") != "disobeyed" {
		t.Errorf("after a restart: %s", r.raw)
	}
}

// What was recorded while no server looked is found after the start: the positions are durable, and
// nothing is found twice.
func TestRefusedCallThatRanIsFoundAfterARestart(t *testing.T) {
	testenv.Concurrent(t)
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	path := storetest.New(t)
	s := startOn(t, path, cred.Domain{})
	acme := s.company(t, "acme")
	acme.hookEvent(t, passportRequired, "PreToolUse", "one", `,"tool_input":{}`)
	acme.hookEvent(t, passportRequired, "PreToolUse", "two", `,"tool_input":{}`)
	acme.hookEvent(t, "", "PostToolUse", "two", `,"tool_response":"b"`)
	findings := func(c caller) int {
		return strings.Count(string(c.do(t, "GET /v1/chain?log=control", "").status(200).raw), `"call.disobeyed"`)
	}
	eventually(t, "the second call is found", func() bool { return findings(acme) == 1 })
	s.stop()
	// as if the server had been killed before it looked at the first one's outcome, and before it
	// saved how far it had come
	storetest.Stranger(t, path, `DELETE FROM call_watch`).Close()
	s = startOn(t, path, cred.Domain{})
	acme = caller{s, acme.id, acme.credential}
	acme.hookEvent(t, "", "PostToolUseFailure", "one", `,"error":"no such file"`)
	eventually(t, "the first call is found", func() bool { return findings(acme) == 2 })
	acme.hookEvent(t, "", "PostToolUse", "one", `,"tool_response":"again"`)
	acme.hookEvent(t, passportRequired, "PreToolUse", "three", `,"tool_input":{}`)
	acme.hookEvent(t, "", "PostToolUse", "three", `,"tool_response":"c"`)
	eventually(t, "the third call is found", func() bool { return findings(acme) == 3 })
}

// Telemetry of a coding agent that says that a refused call succeeded is a finding too, in the
// session of the refusal. What it says of other calls, and of a call that failed, is none.
func TestRefusedCallThatRanByTelemetry(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	acme.do(t, "PUT /v1/policies/none", policyBody(t, `forbid (principal, action, resource);`)).status(200)
	for _, call := range []string{"ran", "failed", "obeyed"} {
		acme.hookEvent(t, "", "PreToolUse", call, `,"tool_input":{"command":"rm a"}`)
	}
	result := func(call, success string) {
		attributes := ""
		for name, value := range map[string]string{"session.id": "run-7", "event.name": "tool_result", "tool_name": "Bash", "tool_use_id": call, "success": success} {
			attributes += fmt.Sprintf(`,{"key":%q,"value":{"stringValue":%q}}`, name, value)
		}
		acme.do(t, exportLogs, logRecords("claude-code", `{"timeUnixNano":"1","body":{"stringValue":"claude_code.tool_result"},"attributes":[`+attributes[1:]+`]}`)).gets(200, `{}`)
	}
	result("failed", "false")
	result("ran", "true")
	session := func() *reply { return acme.do(t, "GET /v1/sessions?sid=run-7&agentId=claude-code", "").status(200) }
	eventually(t, "the session says disobeyed", func() bool { return strings.Contains(string(session().raw), `"disobeyed"`) })
	record := acme.do(t, "GET /v1/chain?log=control", "").status(200)
	found := 0
	for _, r := range record.at("records").([]any) {
		payload := r.(map[string]any)["payload"].(map[string]any)
		if payload["actionType"] == "call.disobeyed" {
			found++
			inner, err := json.Marshal(payload["payload"])
			must.OK(t, err)
			if err := like(t, `{"subject":"…","by":null,"agentId":"claude-code","source":"claude-code","tool":"Bash","callId":"ran",
				"sessionId":"run-7","kid":"hook","sid":"run-7","refused":1,"done":7}`, inner); err != nil {
				t.Error(err)
			}
		}
	}
	if found != 1 {
		t.Errorf("%d findings: %s", found, record.raw)
	}
	eventually(t, "readyz says DISOBEYED", func() bool {
		return strings.Contains(string(s.anyone().do(t, "GET /readyz", "").status(200).raw), `"DISOBEYED"`)
	})
}

// A refusal that waited in a spool comes after the outcome, and is found too; another attempt under
// one ID, and another request of an ID that is open, are none.
func TestRefusedCallsInOtherOrders(t *testing.T) {
	testenv.Concurrent(t)
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	attest := func(action, call string) {
		acme.do(t, "POST /v1/attest", fmt.Sprintf(`{"agentId":"bot","actionType":%q,"payload":{"source":"mcp","tool":"pay","callId":%q,"sessionId":"s"}}`, action, call)).status(201)
	}
	for _, call := range []struct {
		id      string
		actions []string
	}{
		{"again", []string{"tool.requested", "tool.denied", "tool.requested", "tool.completed"}},
		{"open", []string{"tool.requested", "tool.requested", "tool.denied", "tool.completed"}},
		{"pending", []string{"tool.requested", "tool.denied", "tool.pending"}},
		{"late", []string{"tool.completed", "tool.requested", "tool.denied"}},
	} {
		for _, action := range call.actions {
			attest(action, call.id)
		}
	}
	found := func() string {
		var calls []string
		for _, record := range acme.do(t, "GET /v1/chain?log=control", "").status(200).at("records").([]any) {
			payload := record.(map[string]any)["payload"].(map[string]any)
			if payload["actionType"] == "call.disobeyed" {
				inner := payload["payload"].(map[string]any)
				calls = append(calls, fmt.Sprint(inner["callId"], " refused at ", inner["refused"], ", done at ", inner["done"]))
			}
		}
		return strings.Join(calls, "; ")
	}
	eventually(t, "the late one is found", func() bool { return found() != "" })
	if got := found(); got != "late refused at 13, done at 11" {
		t.Errorf("found: %s", got)
	}
	if r := acme.do(t, "GET /v1/sessions?sid=s", "").status(200); r.at("sessions", 0, "state") != "disobeyed" || r.at("sessions", 0, "kind") != "mcp" {
		t.Errorf("%s", r.raw)
	}
}

// One server refuses, another one records that the call ran: it is found once, and both say so.
func TestRefusedCallThatRanAcrossServers(t *testing.T) {
	testenv.Concurrent(t)
	testenv.Needs(t, testenv.NotQuick, testenv.Plain)
	t.Parallel()
	a, b := startTwo(t)
	acme := a.company(t, "acme")
	for i := range 4 {
		call, refuses, runs := fmt.Sprint("call-", i), acme.on([]*service{a, b}[i%2]), acme.on([]*service{b, a}[i%2])
		refuses.hookEvent(t, passportRequired, "PreToolUse", call, `,"tool_input":{}`)
		runs.hookEvent(t, "", "PostToolUse", call, `,"tool_response":"a"`)
	}
	for _, s := range []*service{a, b} {
		eventually(t, "readyz counts four calls", func() bool {
			return strings.Contains(string(s.anyone().do(t, "GET /readyz", "").status(200).raw), `"callsDisobeyed":4`)
		})
	}
	if n := strings.Count(string(acme.do(t, "GET /v1/chain?log=control", "").status(200).raw), `"call.disobeyed"`); n != 4 {
		t.Errorf("%d control records", n)
	}
}

// A call that a policy refused, or for which it demanded an approval that nobody gave, and that ran
// all the same is found, whether a hook or an MCP proxy recorded it, and also once the company has
// no policy any more. A second attempt that was allowed is another call.
func TestCallRefusedByAPolicyThatRan(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	s := start(t, private)
	acme := s.company(t, "acme")
	e := newEndpoint(t)
	acme.webhook(t, e.URL, `,"actions":["call.*"]`)
	acme.do(t, "PUT /v1/policies/all", policyBody(t, `permit (principal, action, resource);`)).status(200)
	acme.do(t, "PUT /v1/policies/rm", policyBody(t, `forbid (principal, action, resource) when { context.arguments has command && context.arguments.command == "rm" };
forbid (principal, action, resource) when { context.arguments has command && context.arguments.command == "mv" } unless { context.approved };`)).status(200)

	indexes := make(map[string]float64) // of the last record of each call
	attest := func(action, call, more string) {
		t.Helper()
		r := acme.do(t, "POST /v1/attest", fmt.Sprintf(`{"agentId":"bot","actionType":%q,"payload":{"source":"mcp","tool":"sh","callId":%q,"sessionId":"s"%s}}`, action, call, more)).status(201)
		indexes[call] = r.at("index").(float64)
	}
	command := func(name string) string { return `,"input":{"command":"` + name + `"}` }
	acme.hookEvent(t, "", "PreToolUse", "hook", `,"tool_input":{"command":"rm"}`)
	acme.hookEvent(t, "", "PostToolUse", "hook", `,"tool_response":"gone"`)
	attest("tool.requested", "denied", command("rm"))
	attest("tool.failed", "denied", "")
	attest("tool.requested", "asked", command("mv"))
	attest("tool.completed", "asked", "")
	attest("tool.requested", "allowed", command("ls"))
	attest("tool.completed", "allowed", "")
	attest("tool.requested", "again", command("rm"))
	attest("tool.denied", "again", "")
	attest("tool.requested", "again", command("ls"))
	attest("tool.completed", "again", "")
	attest("tool.requested", "later", command("rm"))
	for _, id := range []string{"all", "rm"} {
		acme.do(t, "DELETE /v1/policies/"+id, "").status(200)
	}
	attest("tool.completed", "later", "")

	found := func() map[string]string {
		calls := make(map[string]string)
		for _, record := range acme.do(t, "GET /v1/chain?log=control", "").status(200).at("records").([]any) {
			payload := record.(map[string]any)["payload"].(map[string]any)
			if payload["actionType"] == "call.disobeyed" {
				inner := payload["payload"].(map[string]any)
				calls[inner["callId"].(string)] = fmt.Sprint("refused ", inner["refused"], ", done ", inner["done"])
			}
		}
		return calls
	}
	eventually(t, "four calls are found", func() bool { return len(found()) == 4 })
	// a hook refuses the call by a record of its own, behind the request
	want := map[string]string{"hook": "refused 1, done 2"}
	for call, between := range map[string]float64{"denied": 1, "asked": 1, "later": 1} {
		want[call] = fmt.Sprint("refused ", indexes[call]-between, ", done ", indexes[call])
	}
	if got := found(); !maps.Equal(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
	for _, agent := range []string{"claude-code", "bot"} {
		e.keyEvent(t, "call.disobeyed", agent)
	}
	eventually(t, "readyz counts them", func() bool {
		return strings.Contains(string(s.anyone().do(t, "GET /readyz", "").status(200).raw), `"callsDisobeyed":4`)
	})
	for sid, calls := range map[string]int{"s": 3, "run-7": 1} {
		r := acme.do(t, "GET /v1/sessions?sid="+sid, "").status(200)
		if list, _ := r.at("sessions", 0, "disobeyed").([]any); r.at("sessions", 0, "state") != "disobeyed" || len(list) != calls {
			t.Errorf("session %s: %s", sid, r.raw)
		}
	}
}

// A company without policies may have rights on arguments. A request that these do not cover is
// denied by its decision alone, and one that ran all the same is found.
func TestCallRefusedByDetailsThatRan(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	acme := start(t).company(t, "acme")
	client := acme.oauthClient(t, "writer")
	token := acme.anyone().do(t, tokenCall, oauthForm("grant_type", "client_credentials", "client_id", client.clientID, "client_secret", client.secret,
		"authorization_details", `[{"type":"tool_call","tools":["sh"],"arguments":{"/command":{"equals":"ls"}}}]`), formType).status(200).str("access_token")
	limited := acme.with(token)
	attest := func(action, call, more string) float64 {
		t.Helper()
		return limited.do(t, "POST /v1/attest", fmt.Sprintf(`{"agentId":"bot","actionType":%q,"payload":{"source":"mcp","tool":"sh","callId":%q,"sessionId":"s"%s}}`,
			action, call, more)).status(201).at("index").(float64)
	}
	attest("tool.requested", "covered", `,"input":{"command":"ls"}`)
	attest("tool.completed", "covered", "")
	refused := attest("tool.requested", "denied", `,"input":{"command":"rm"}`)
	done := attest("tool.completed", "denied", "")
	find := func() []any {
		return acme.do(t, "GET /v1/records?log=control&action=call.disobeyed", "").status(200).at("records").([]any)
	}
	eventually(t, "the call is found", func() bool { return len(find()) > 0 })
	text, err := json.Marshal(find())
	must.OK(t, err)
	if want := fmt.Sprintf(`"refused":%v`, refused); len(find()) != 1 || !strings.Contains(string(text), want) || !strings.Contains(string(text), fmt.Sprintf(`"done":%v`, done)) {
		t.Errorf("found %s, want %s and done %v", text, want, done)
	}
}
