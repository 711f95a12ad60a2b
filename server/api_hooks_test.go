package server_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"attestd/internal/testenv"
	"attestd/server/limit"
)

// event returns a hook's body as Claude Code 2.1.330 sends it.
func event(name, call, more string) string {
	return `{"session_id":"s-1","transcript_path":"/home/u/.claude/x.jsonl","cwd":"/home/u/x","prompt_id":"p-1","permission_mode":"default","effort":{"level":"medium"},` +
		`"hook_event_name":"` + name + `","tool_name":"Bash","tool_use_id":"` + call + `"` + more + `}`
}

const hook = "POST /v1/hooks/claude-code"

// hooked is the content of a tool call's record.
func (c caller) hooked(t testing.TB) (lines []string) {
	t.Helper()
	var list struct {
		Records []struct {
			Payload struct {
				AgentID, ActionType string
				Payload             json.RawMessage
			}
		}
	}
	c.do(t, "GET /v1/chain", "").status(200).into(&list)
	for _, r := range list.Records {
		lines = append(lines, r.Payload.AgentID+" "+r.Payload.ActionType+" "+string(r.Payload.Payload))
	}
	return lines
}

func compare(t *testing.T, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Each event of a tool call becomes one record, however often it is sent; other and unknown events
// become none. The answer never allows a call.
func TestHookEvents(t *testing.T) {
	t.Parallel()
	acme := start(t).company(t, "acme").create(t, "writer", "")
	for _, body := range []string{
		event("PreToolUse", "t1", `,"tool_input":{"command":"ls"}`),
		event("PostToolUse", "t1", `,"tool_input":{"command":"ls"},"tool_response":{"stdout":"a"},"duration_ms":12`),
		event("PreToolUse", "t2", `,"tool_input":{"command":"exit 3"},"agent_id":"a-1","agent_type":"Explore","mcp_server":{"name":"files","source":"project"}`),
		event("PostToolUseFailure", "t2", `,"tool_input":{"command":"exit 3"},"error":"Exit code 3","is_interrupt":false,"duration_ms":7`),
		`{"session_id":"s-1","prompt_id":"p-1","hook_event_name":"SessionEnd","reason":"other"}`,
		event("PermissionRequest", "t3", `,"tool_input":{"command":"rm a"},"permission_suggestions":[]`),
		event("SessionStart", "", ""), event("SomethingNew", "t4", ""), `{}`,
	} {
		for range 3 {
			acme.do(t, hook, body).status(200).gets(200, `{}`)
		}
	}
	common := func(call string) string { return `"callId":"` + call + `","sessionId":"s-1"` }
	compare(t, acme.hooked(t), []string{
		`claude-code tool.requested {"source":"claude-code","tool":"Bash",` + common("t1") + `,"input":{"command":"ls"}}`,
		`claude-code tool.completed {"source":"claude-code","tool":"Bash",` + common("t1") + `,"output":{"stdout":"a"},"durationMs":12}`,
		`claude-code tool.requested {"source":"claude-code","tool":"Bash","server":"files",` + common("t2") + `,"agentType":"Explore","input":{"command":"exit 3"}}`,
		`claude-code tool.failed {"source":"claude-code","tool":"Bash",` + common("t2") + `,"error":"Exit code 3","durationMs":7}`,
		`claude-code session.ended {"source":"claude-code","sessionId":"s-1","reason":"other"}`,
		`claude-code tool.permission-requested {"source":"claude-code","tool":"Bash",` + common("t3") + `,"input":{"command":"rm a"}}`,
	})
}

// Claude Code 2.1.330 names no call in a request for a permission, so each one is a record: the
// same command may be asked for twice.
func TestHookPermissionRequestWithoutCall(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	acme := start(t).company(t, "acme")
	for range 2 {
		acme.do(t, hook, `{"session_id":"s-1","hook_event_name":"PermissionRequest","tool_name":"Bash","tool_input":{"command":"ls"}}`).gets(200, `{}`)
	}
	const asked = `claude-code tool.permission-requested {"source":"claude-code","tool":"Bash","sessionId":"s-1","input":{"command":"ls"}}`
	compare(t, acme.hooked(t), []string{asked, asked})
}

// A call that launches a subagent in the background is pending until the subagent stops, in
// whichever order the two are reported, and however often. The stop of one in the foreground is a
// record by itself.
func TestHookSubagents(t *testing.T) {
	t.Parallel()
	admin := start(t).company(t, "acme")
	acme, theirs := admin.create(t, "writer", ""), admin.create(t, "writer", "")
	agent := func(name, call, more string) string {
		return strings.Replace(event(name, call, more), `"Bash"`, `"Agent"`, 1)
	}
	launch := func(call, id string) string {
		return agent("PostToolUse", call, `,"tool_response":{"isAsync":true,"status":"async_launched","agentId":"`+id+`"}`)
	}
	stop := func(id, text string) string {
		return `{"session_id":"s-1","prompt_id":"p-1","hook_event_name":"SubagentStop","agent_id":"` + id + `","agent_type":"Explore","last_assistant_message":"` + text + `"}`
	}
	batch := `{"session_id":"s-1","hook_event_name":"PostToolBatch","tool_calls":[{"tool_name":"Agent","tool_use_id":"t1","tool_input":{},` +
		`"tool_response":[{"type":"text","text":"Async agent launched successfully.\nagentId: a1 (internal)"}]}]}`
	for _, body := range []string{
		agent("PreToolUse", "t1", `,"tool_input":{}`), launch("t1", "a1"), batch, stop("a1", "done"),
		stop("a1", "more"), // it was resumed
		stop("a2", "quick"), launch("t2", "a2"),
		stop("a3", "in the foreground"), agent("PostToolUse", "t3", `,"tool_response":{"status":"completed","agentId":"a3"}`),
	} {
		for range 2 {
			acme.do(t, hook, body).gets(200, `{}`)
		}
	}
	call := func(id string) string {
		return `{"source":"claude-code","tool":"Agent","callId":"` + id + `","sessionId":"s-1",`
	}
	subagent := func(id, text string) string {
		return `claude-code tool.subagent-ended {"source":"claude-code","sessionId":"s-1","agentType":"Explore","subagentId":"` + id + `","output":"` + text + `"}`
	}
	compare(t, acme.hooked(t), []string{
		`claude-code tool.requested ` + call("t1") + `"input":{}}`,
		`claude-code tool.pending ` + call("t1") + `"subagentId":"a1","output":{"agentId":"a1","isAsync":true,"status":"async_launched"}}`,
		subagent("a1", "done"),
		`claude-code tool.ended ` + call("t1") + `"subagentId":"a1","output":"done"}`,
		subagent("a1", "more"),
		subagent("a2", "quick"),
		`claude-code tool.pending ` + call("t2") + `"subagentId":"a2","output":{"agentId":"a2","isAsync":true,"status":"async_launched"}}`,
		`claude-code tool.ended ` + call("t2") + `"subagentId":"a2"}`,
		subagent("a3", "in the foreground"),
		`claude-code tool.completed ` + call("t3") + `"output":{"agentId":"a3","status":"completed"}}`,
	})
	// Another writer's launch is no launch of this one, and so is another session's.
	before := len(acme.hooked(t))
	theirs.do(t, hook, launch("t4", "a4")).gets(200, `{}`)
	acme.do(t, hook, stop("a4", "x")).gets(200, `{}`)
	acme.do(t, hook, strings.Replace(stop("a1", "x"), "s-1", "s-2", 1)).gets(200, `{}`)
	if got := acme.hooked(t)[before:]; len(got) != 3 {
		t.Errorf("%q", got)
	}
}

// An event over the bound of bodies is recorded by the hash and size of what came, announced or in
// chunks, once, and is not held in memory. The answer is what the hook asks for; without that the
// agent's own settings decide what becomes of a call whose hook fails.
func TestHookOversizedEvent(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme").create(t, "writer", "")
	body := event("PreToolUse", "t1", `,"tool_input":{"x":"`+strings.Repeat("y", 6<<20)+`"}`)
	const denied = `{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"attestd: …too large…"}}`
	for query, want := range map[string]struct {
		status int
		gets   string
	}{
		"?agent=a":                            {413, `{"error":"Hook event is larger than the limit of this server; its SHA-256 is recorded in its place"}`},
		"?agent=a&redact=input":               {413, `{"error":"…"}`},
		"?agent=a&fail=open":                  {200, `{}`},
		"?agent=a&fail=closed":                {200, denied},
		"?agent=a&require=passport":           {200, denied},
		"?agent=a&require=passport&fail=open": {200, denied},
	} {
		acme.do(t, hook+query, body).gets(want.status, want.gets)
	}
	sum := sha256.Sum256([]byte(body))
	recorded := fmt.Sprintf(`hook.oversized {"source":"claude-code","input":{"bytes":%d,"sha256":"%x"}}`, len(body), sum)
	compare(t, acme.hooked(t), []string{"a " + recorded})

	// in chunks
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/v1/hooks/claude-code?agent=b&fail=open", io.MultiReader(strings.NewReader(body)))
	req.RemoteAddr = "127.0.0.1:1"
	req.Header.Set("Authorization", "Bearer "+acme.credential)
	w := newRecorder()
	s.handler().ServeHTTP(w, req)
	if w.Code != 200 || req.ContentLength != -1 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	compare(t, acme.hooked(t), []string{"a " + recorded, "b " + recorded})

	s.anyone().do(t, hook, body).status(401)
	acme.do(t, hook+"?fail=maybe", body).gets(400, `{"error":"Invalid query parameter: fail must be open or closed"}`)
}

// The event after a turn reports what no other event did: calls that the agent itself denied, calls
// that could not be made, and outcomes that were lost.
func TestHookBatch(t *testing.T) {
	t.Parallel()
	acme := start(t).company(t, "acme").create(t, "writer", "")
	acme.do(t, hook, event("PreToolUse", "t1", `,"tool_input":{"command":"ls"}`)).gets(200, `{}`)
	acme.do(t, hook, event("PostToolUse", "t1", `,"tool_response":{"stdout":"a"}`)).gets(200, `{}`)
	acme.do(t, hook, event("PreToolUse", "t2", `,"tool_input":{"command":"curl x"}`)).gets(200, `{}`)
	item := func(call, input, answer string) string {
		return `{"tool_name":"Bash","tool_input":` + input + `,"tool_use_id":"` + call + `","tool_response":` + answer + `}`
	}
	batch := `{"session_id":"s-1","hook_event_name":"PostToolBatch","tool_calls":[` + strings.Join([]string{
		item("t1", `{"command":"ls"}`, `"a"`),
		item("t2", `{"command":"curl x"}`, `"Permission to use Bash with command curl x has been denied."`),
		item("t3", `{"bad":1}`, `"<tool_use_error>InputValidationError</tool_use_error>"`),
		item("t4", `{"command":"touch a; rm a"}`, `"This Bash command contains multiple operations. The following parts require approval: rm a"`),
		item("t5", `{"command":"id"}`, `"uid=0"`),
		item("", `{}`, `""`),
		`7`,
	}, ",") + `]}`
	for range 3 {
		acme.do(t, hook, batch).gets(200, `{}`)
	}
	var got []string
	for _, line := range acme.hooked(t) {
		_, line, _ = strings.Cut(line, " ")
		got = append(got, strings.ReplaceAll(line, `"source":"claude-code","tool":"Bash",`, ""))
	}
	compare(t, got, []string{
		`tool.requested {"callId":"t1","sessionId":"s-1","input":{"command":"ls"}}`,
		`tool.completed {"callId":"t1","sessionId":"s-1","output":{"stdout":"a"}}`,
		`tool.requested {"callId":"t2","sessionId":"s-1","input":{"command":"curl x"}}`,
		`tool.denied {"callId":"t2","sessionId":"s-1","reason":"Permission to use Bash with command curl x has been denied."}`,
		`tool.requested {"callId":"t3","sessionId":"s-1","input":{"bad":1}}`,
		`tool.failed {"callId":"t3","sessionId":"s-1","error":"<tool_use_error>InputValidationError</tool_use_error>"}`,
		`tool.requested {"callId":"t4","sessionId":"s-1","input":{"command":"touch a; rm a"}}`,
		`tool.denied {"callId":"t4","sessionId":"s-1","reason":"This Bash command contains multiple operations. The following parts require approval: rm a"}`,
		`tool.requested {"callId":"t5","sessionId":"s-1","input":{"command":"id"}}`,
		`tool.ended {"callId":"t5","sessionId":"s-1","output":"uid=0"}`,
	})
}

// A turn may have more calls than a batch of POST /v1/attest/batch has records; if it names a call
// twice, the first is recorded.
func TestHookLargeBatch(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	acme := start(t).company(t, "acme")
	var calls []string
	for i := range 600 {
		calls = append(calls, fmt.Sprintf(`{"tool_name":"Bash","tool_input":{"n":%d},"tool_use_id":"t%d","tool_response":"<tool_use_error>no</tool_use_error>"}`, i, i))
	}
	calls = append(calls, `{"tool_name":"Bash","tool_input":{"n":-1},"tool_use_id":"t0","tool_response":"was denied"}`)
	for range 2 {
		acme.do(t, hook, `{"session_id":"s-1","hook_event_name":"PostToolBatch","tool_calls":[`+strings.Join(calls, ",")+`]}`).gets(200, `{}`)
	}
	if n := len(acme.hooked(t)); n != 1200 {
		t.Errorf("%d records", n)
	}
}

// A call ID that is used twice with different content hides nothing: both calls are recorded once
// each.
func TestHookCallIDTwice(t *testing.T) {
	t.Parallel()
	acme := start(t).company(t, "acme").create(t, "writer", "")
	for range 2 {
		for _, command := range []string{"ls", "rm -rf /"} {
			acme.do(t, hook, event("PreToolUse", "t1", `,"tool_input":{"command":"`+command+`"}`)).gets(200, `{}`)
		}
	}
	if got := acme.hooked(t); len(got) != 2 || !strings.Contains(got[0], "ls") || !strings.Contains(got[1], "rm -rf /") {
		t.Errorf("%q", got)
	}
}

// With require=passport a tool may be called only while a valid passport of the agent covers it. A
// refusal is recorded with its reason.
func TestHookNeedsPassport(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	globex := s.company(t, "globex")
	for _, agent := range []string{"bot", "other"} {
		acme.agent(t, agent)
		globex.agent(t, agent)
	}
	n := 0
	ask := func(call string) *reply {
		n++
		return acme.do(t, call, event("PreToolUse", fmt.Sprint("t", n), `,"tool_input":{"command":"ls"}`))
	}
	const ours = hook + "?agent=bot&require=passport"
	const denied = `{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"…\"bot\" covers tool:Bash…"}}`

	ask(ours).gets(200, denied)
	acme.passport(t, "other", `{"scopes":["tool:Bash"]}`)
	acme.passport(t, "bot", `{"scopes":["tool:bash","tool:Bash2","attest:*"]}`)
	globex.passport(t, "bot", `{"scopes":["*"]}`)
	// A passport of another agent, for another tool or of another company does not cover it.
	ask(ours).gets(200, denied)
	acme.expiredPassport(t)
	for _, scope := range []string{"tool:Bash", "tool:*", "*"} {
		passport := acme.passport(t, "bot", `{"scopes":["attest:x","`+scope+`"]}`)
		ask(ours).gets(200, `{}`)
		acme.do(t, "POST /v1/passports/"+jti(t, acme, passport)+"/revoke", "").status(200)
		ask(ours).gets(200, denied)
	}
	ask(hook+"?agent=bot").gets(200, `{}`)
	// An outcome is never refused, because the call is over.
	acme.do(t, ours, event("PostToolUse", "t99", `,"tool_response":"a"`)).gets(200, `{}`)

	kinds := map[string]int{}
	for _, line := range acme.hooked(t) {
		kinds[strings.Fields(line)[1]]++
		if strings.Contains(line, "tool.denied") && !strings.Contains(line, `"reason":"attestd: no valid passport of the agent \"bot\" covers tool:Bash`) {
			t.Errorf("%s", line)
		}
	}
	if want := fmt.Sprint(map[string]int{"tool.requested": n, "tool.denied": 5, "tool.completed": 1}); fmt.Sprint(kinds) != want {
		t.Errorf("%v, want %s", kinds, want)
	}
	// A disabled agent has no valid passport, and nothing is recorded in its name.
	acme.passport(t, "bot", `{"scopes":["*"]}`)
	acme.do(t, "POST /v1/agents/bot/disable", "").status(200)
	ask(ours).gets(200, `{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"…Agent is disabled: bot"}}`)
	ask(hook+"?agent=bot").gets(403, `{"error":"Agent is disabled: bot","code":"AGENT_DISABLED"}`)
}

// A call that needs a passport is refused even if the refusal cannot be recorded, because an agent
// continues when its hook fails.
func TestHookFailsClosed(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	s := start(t, limits(limit.Limits{Sensitive: 1000, Attest: 3, Standard: 1000}))
	acme := s.company(t, "acme")
	acme.agent(t, "coder")
	acme.passport(t, "coder", `{"scopes":["*"]}`)
	call := hook + "?agent=coder&require=passport"
	for i := range 3 {
		acme.do(t, call, event("PreToolUse", fmt.Sprint("t", i), "")).gets(200, `{}`)
	}
	acme.do(t, call, event("PreToolUse", "t3", "")).gets(200, `{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"…could not be recorded…Too Many Requests"}}`)
	acme.do(t, call, event("PostToolUse", "t2", "")).tooMany(3)
}

// A tool call counts as the two records that it makes; an event without a record does not count.
func TestHookCounts(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	s := start(t, limits(limit.Limits{Sensitive: 1000, Attest: 5, Standard: 1000}))
	acme := s.company(t, "acme")
	acme.do(t, hook, event("PreToolUse", "t1", "")).gets(200, `{}`).limited(5, 4)
	acme.do(t, hook, event("PostToolUse", "t1", "")).gets(200, `{}`).limited(5, 3)
	acme.do(t, hook, `{"session_id":"s-1","hook_event_name":"PostToolBatch","tool_calls":[{"tool_name":"Bash","tool_use_id":"t1"}]}`).gets(200, `{}`)
	acme.do(t, hook+"?require=passport", event("PreToolUse", "t2", "")).status(200).limited(5, 1)
}

// Recorded values can be reduced to hashes; secrets are masked with every setting.
func TestHookRedaction(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	acme := start(t).company(t, "acme").create(t, "writer", "")
	body := event("PreToolUse", "t1", `,"tool_input":{"command":"PGPASSWORD=hunter2 psql"}`)
	acme.do(t, hook, body).gets(200, `{}`)
	acme.do(t, hook+"?agent=b&redact=input,output", body).gets(200, `{}`)
	acme.do(t, hook+"?agent=b&redact=output", event("PostToolUseFailure", "t1", `,"error":"x"`)).gets(200, `{}`)
	got := acme.hooked(t)
	for i, want := range []string{`"input":{"command":"PGPASSWORD=[masked 7] psql"}`, `"input":{"sha256":"`, `"error":{"sha256":"`} {
		if len(got) != 3 || !strings.Contains(got[i], want) || strings.Contains(got[i], "hunter2") {
			t.Errorf("%q, want %s", got, want)
		}
	}
}

// A malformed tool call from an agent is recorded nevertheless; a body that is no event is refused.
func TestHookRefusals(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	event := event("PreToolUse", "t1", `,"tool_input":{"n":12345678901234567890,"s":"\ud800","a":1,"a":2}`)
	table(t, []row{
		{does: "not well-formed", as: acme, call: hook, body: event, status: 200, gets: `{}`},
		{does: "an agent with blanks", as: acme, call: hook + "?agent=my%20bot", body: event, status: 200, gets: `{}`},
		{does: "an agent of 257 characters", as: acme, call: hook + "?agent=" + strings.Repeat("x", 257), body: event, status: 400, gets: `{"error":"Invalid query parameter: agent must have 1 to 256 characters"}`},
		{does: "another requirement", as: acme, call: hook + "?require=svid", body: event, status: 400, gets: `{"error":"Invalid query parameter: require must be passport, policy or passport,policy"}`},
		{does: "another redaction", as: acme, call: hook + "?redact=all", body: event, status: 400, gets: `{"error":"Invalid query parameter: redact must be input, output or input,output"}`},
		{does: "no JSON", as: acme, call: hook, body: "x", status: 400, gets: `{"error":"Malformed hook event: …"}`},
		{does: "an array", as: acme, call: hook, body: "[]", status: 400, gets: `{"error":"Malformed hook event: no JSON object"}`},
		{does: "something after it", as: acme, call: hook, body: "{} {}", status: 400, gets: `{"error":"Malformed hook event: data after the JSON object"}`},
		{does: "too large", as: acme, call: hook, body: strings.Repeat(" ", 5<<20) + event, status: 413, gets: `{"error":"…"}`},
		{does: "a reader", as: acme.create(t, "reader", ""), call: hook, body: event, status: 403, gets: `{"error":"…","code":"FORBIDDEN_ROLE"}`},
		{does: "a stranger", as: s.anyone(), call: hook, body: event, status: 401, gets: `{"error":"Unauthorized"}`},
	})
	acme.checkChain(t)
}

// FuzzHook sends arbitrary bodies to the hook. A tool call is recorded or refused with a reason,
// and the answer never allows it.
func FuzzHook(f *testing.F) {
	s := start(f)
	acme := s.company(f, "acme")
	f.Add("", event("PreToolUse", "t1", `,"tool_input":{"command":"ls"}`))
	f.Add("require=passport&redact=output", event("PreToolUse", "t2", `,"tool_input":{"\ud800":1e999}`))
	f.Add("agent=%ff", event("PostToolUse", "", `,"tool_response":[{"a":1,"a":2}],"duration_ms":-1e99`))
	f.Add("", `{"hook_event_name":"PostToolBatch","tool_calls":[{"tool_use_id":"x","tool_response":{}}, 1]}`)
	f.Fuzz(func(t *testing.T, query, body string) {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/v1/hooks/claude-code", strings.NewReader(body))
		req.URL, req.RemoteAddr = &url.URL{Path: "/v1/hooks/claude-code", RawQuery: query}, "127.0.0.1:1"
		req.Header.Set("Authorization", "Bearer "+acme.credential)
		w := newRecorder()
		s.handler().ServeHTTP(w, req)
		var answer map[string]any
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code >= 500 || w.Code == 200 && strings.Contains(w.Body.String(), "allow") {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	})
}
