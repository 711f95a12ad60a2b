package server_test

import (
	"encoding/json"
	"fmt"
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
