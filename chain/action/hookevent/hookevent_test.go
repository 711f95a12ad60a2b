package hookevent_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"attestd/chain/action/hookevent"
	"attestd/chain/action/toolcall"
)

// Events of Gemini CLI and Codex become the same records as those of Claude Code;
// server/api_hooks_test.go has that one's.
func TestParse(t *testing.T) {
	t.Parallel()
	const codex = `{"session_id":"s","turn_id":"u","model":"m","cwd":"/x","permission_mode":"default","transcript_path":null,"tool_name":"Bash","tool_use_id":"c1"`
	const gemini = `{"session_id":"s","transcript_path":"/x","cwd":"/x","timestamp":"2026-11-21T10:00:00Z","tool_name":"write_file"`
	common := func(source hookevent.Source, kind toolcall.Kind) toolcall.Event {
		return toolcall.Event{Kind: kind, Source: string(source), SessionID: "s"}
	}
	for _, c := range []struct {
		source hookevent.Source
		body   string
		want   func(*toolcall.Event)
		kind   toolcall.Kind
	}{
		{hookevent.Codex, codex + `,"hook_event_name":"PreToolUse","tool_input":{"command":"ls"}}`, func(e *toolcall.Event) {
			e.Tool, e.CallID, e.Input = "Bash", "c1", json.RawMessage(`{"command":"ls"}`)
		}, toolcall.Requested},
		{hookevent.Codex, codex + `,"hook_event_name":"PostToolUse","tool_response":"a"}`, func(e *toolcall.Event) {
			e.Tool, e.CallID, e.Output = "Bash", "c1", json.RawMessage(`"a"`)
		}, toolcall.Ended},
		{hookevent.Codex, codex + `,"hook_event_name":"PermissionRequest","tool_input":{"command":"ls"}}`, func(e *toolcall.Event) {
			e.Tool, e.CallID, e.Input = "Bash", "c1", json.RawMessage(`{"command":"ls"}`)
		}, toolcall.PermissionRequested},
		{hookevent.Codex, codex + `,"hook_event_name":"SubagentStop","agent_id":"a1","agent_type":"worker","last_assistant_message":"done"}`, func(e *toolcall.Event) {
			e.SubagentID, e.AgentType, e.TurnID, e.Output = "a1", "worker", "u", json.RawMessage(`"done"`)
		}, toolcall.SubagentEnded},
		{hookevent.Codex, codex + `,"hook_event_name":"SubagentStop","agent_id":"a1","last_assistant_message":null}`, func(e *toolcall.Event) {
			e.SubagentID, e.TurnID = "a1", "u"
		}, toolcall.SubagentEnded},
		{hookevent.Gemini, gemini + `,"hook_event_name":"BeforeTool","tool_input":{"a":1},"mcp_context":{"server_name":"files"}}`, func(e *toolcall.Event) {
			e.Tool, e.Server, e.Input = "write_file", "files", json.RawMessage(`{"a":1}`)
		}, toolcall.Requested},
		{hookevent.Gemini, gemini + `,"hook_event_name":"AfterTool","tool_response":{"llmContent":"a"}}`, func(e *toolcall.Event) {
			e.Tool, e.Output = "write_file", json.RawMessage(`{"llmContent":"a"}`)
		}, toolcall.Completed},
		{hookevent.Gemini, gemini + `,"hook_event_name":"AfterTool","tool_response":{"llmContent":"a","error":{"message":"no"}}}`, func(e *toolcall.Event) {
			e.Tool, e.Error = "write_file", `{"message":"no"}`
		}, toolcall.Failed},
		{hookevent.Gemini, gemini + `,"hook_event_name":"SessionEnd","reason":"exit"}`, func(e *toolcall.Event) {
			e.TurnID, e.Reason = "2026-11-21T10:00:00Z", "exit"
		}, toolcall.SessionEnded},
		{hookevent.Codex, codex + `,"hook_event_name":"Stop"}`, nil, ""},
		{hookevent.Gemini, gemini + `,"hook_event_name":"BeforeModel"}`, nil, ""},
	} {
		got, err := c.source.Parse([]byte(c.body))
		want := hookevent.Report{Unknown: true}
		if c.want != nil {
			e := common(c.source, c.kind)
			c.want(&e)
			want = hookevent.Report{Events: []toolcall.Event{e}, Asks: c.kind == toolcall.Requested}
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s\ngot  %+v, %v\nwant %+v", c.body, got, err, want)
		}
	}
}

// What an agent reports after a call is a success or a failure only where it says so. Codex reports
// the output of a command whatever its exit status, and Claude Code that a subagent has begun.
func TestOutcomeIsWhatTheEventSays(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		source         hookevent.Source
		tool, response string
		want           toolcall.Kind
	}{
		{hookevent.Codex, "Bash", `"ok\n"`, toolcall.Ended},
		// of: echo out; echo err >&2; exit 3
		{hookevent.Codex, "Bash", `"out\nerr\n"`, toolcall.Ended},
		{hookevent.Codex, "Bash", `"{\"exit_code\":0}"`, toolcall.Ended},
		{hookevent.Codex, "Bash", `""`, toolcall.Ended},
		{hookevent.Codex, "Bash", `null`, toolcall.Ended},
		{hookevent.Codex, "Bash", `{}`, toolcall.Ended},
		{hookevent.Codex, "Bash", `{"exit_code":0,"exit_code":1}`, toolcall.Ended},
		{hookevent.Codex, "Bash", `{"exit_code":0}`, toolcall.Completed},
		{hookevent.Codex, "Bash", `{"exit_code":3}`, toolcall.Failed},
		{hookevent.Codex, "Bash", `{"exit_code":3,"success":true}`, toolcall.Failed},
		{hookevent.Codex, "Bash", `{"success":false}`, toolcall.Failed},
		{hookevent.Codex, "Bash", `{"content":[]}`, toolcall.Ended},
		{hookevent.Codex, "apply_patch", `"Success. Updated the following files:\nA a.txt\n"`, toolcall.Ended},
		{hookevent.Codex, "mcp__x__good", `{"content":[{"type":"text","text":"good"}]}`, toolcall.Completed},
		{hookevent.Codex, "mcp__x__good", `{"content":[],"isError":false,"exit_code":1}`, toolcall.Completed},
		{hookevent.Codex, "mcp__x__bad", `{"content":[],"isError":true}`, toolcall.Failed},
		{hookevent.Codex, "mcp__x__odd", `{"content":[],"isError":"no"}`, toolcall.Ended},
		{hookevent.Codex, "mcp__x__odd", `"text"`, toolcall.Ended},
		// it has an event for failures
		{hookevent.ClaudeCode, "Bash", `{"stdout":"a","exit_code":3}`, toolcall.Completed},
		{hookevent.ClaudeCode, "Bash", `{"stdout":"","backgroundTaskId":"b1"}`, toolcall.Ended},
		{hookevent.ClaudeCode, "Agent", `{"status":"completed","agentId":"a1"}`, toolcall.Completed},
		{hookevent.ClaudeCode, "Agent", `{"isAsync":true,"status":"async_launched","agentId":"a1"}`, toolcall.Pending},
		{hookevent.ClaudeCode, "Task", `{"status":"async_launched","agentId":"a1"}`, toolcall.Pending},
		{hookevent.ClaudeCode, "Agent", `{"status":"remote_launched"}`, toolcall.Pending},
		{hookevent.ClaudeCode, "Agent", `{"status":"completed","status":"async_launched"}`, toolcall.Ended},
		{hookevent.ClaudeCode, "mcp__x__y", `{"status":"async_launched","agentId":"a1","backgroundTaskId":"b"}`, toolcall.Completed},
	} {
		r, err := c.source.Parse([]byte(`{"hook_event_name":"PostToolUse","tool_use_id":"c","tool_name":"` + c.tool + `","tool_response":` + c.response + `}`))
		if err != nil || len(r.Events) != 1 || r.Events[0].Kind != c.want {
			t.Errorf("%s of %s: %s: %+v, %v; want %s", c.tool, c.source, c.response, r.Events, err, c.want)
		}
	}
}

// The event after a turn says of a subagent in the background that it was launched, and which; a
// tool that writes the same words has launched none.
func TestBatchKnowsSubagentsInBackground(t *testing.T) {
	t.Parallel()
	const launched = "Async agent launched successfully. (internal)\nagentId: a2f9 (internal ID)\nagentId: other"
	for _, c := range []struct {
		tool       string
		answer     any
		want       toolcall.Kind
		subagentID string
	}{
		{"Agent", []any{map[string]any{"type": "text", "text": launched}}, toolcall.Pending, "a2f9"},
		{"Task", launched, toolcall.Pending, "a2f9"},
		{"Agent", "Async agent launched successfully", toolcall.Pending, ""},
		{"Agent", "[Subagent hand-back] " + launched, toolcall.Ended, ""},
		{"Bash", launched, toolcall.Ended, ""},
	} {
		text, err := json.Marshal(c.answer)
		if err != nil {
			t.Fatal(err)
		}
		text = []byte(strings.ReplaceAll(string(text), `{"text":`, `{"type":"text","text":`))
		text = []byte(strings.ReplaceAll(string(text), `,"type":"text"}`, `}`))
		r, err := hookevent.ClaudeCode.Parse([]byte(`{"hook_event_name":"PostToolBatch","tool_calls":[{"tool_name":"` + c.tool + `","tool_use_id":"1","tool_input":{},"tool_response":` + string(text) + `}]}`))
		if err != nil || len(r.Events) != 2 || r.Events[1].Kind != c.want || r.Events[1].SubagentID != c.subagentID {
			t.Errorf("%s: %s: %+v, %v", c.tool, text, r.Events, err)
		}
	}
}

// A call is denied only if the agent says so in one of its own messages. The output of a tool that
// ran is not a denial.
func TestOutputIsNotDenial(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]toolcall.Kind{
		"Permission to use Bash with command curl x has been denied.":                                toolcall.Denied,
		"Permission to use Bash has been denied.":                                                    toolcall.Denied,
		"Claude requested permissions to write to /x, but you haven't granted it yet.":               toolcall.Denied,
		"The user doesn't want to proceed with this tool use. The tool use was rejected.":            toolcall.Denied,
		"This command requires approval":                                                             toolcall.Denied,
		"This Bash command contains multiple operations. The following parts require approval: rm a": toolcall.Denied,
		"PreToolUse:Bash hook error: [guard]: not on my machine":                                     toolcall.Denied,
		"attestd: this call could not be recorded, so it is refused: no such host":                   "",
		"PreToolUse:Bash hook error: " + hookevent.NoPassport("bot", "Bash"):                         "",
		hookevent.NoPassport("bot", "Bash"):                                                          "",
		"attestd: 3 records wait":                                                                    toolcall.Ended,
		"log: PreToolUse:Bash hook error: x":                                                         toolcall.Ended,
		"PreToolUse:Write hook error: x":                                                             toolcall.Ended,
		"Permission was denied":                                                                      toolcall.Ended,
		"rm: cannot remove 'x': it was denied by the kernel":                                         toolcall.Ended,
		"Access has been denied.":                                                                    toolcall.Ended,
		"Permission to use Write has been denied.":                                                   toolcall.Ended,
		"log: Permission to use Bash has been denied.":                                               toolcall.Ended,
		"<tool_use_error>no such tool</tool_use_error>":                                              toolcall.Failed,
	} {
		quoted, _ := json.Marshal(answer)
		r, err := hookevent.ClaudeCode.Parse([]byte(`{"hook_event_name":"PostToolBatch","tool_calls":[{"tool_name":"Bash","tool_use_id":"1","tool_input":{},"tool_response":` + string(quoted) + `}]}`))
		if want == "" { // what attestd refused is on record by itself, or in a spool
			if err != nil || len(r.Events) != 0 {
				t.Errorf("%s: %+v, %v", answer, r.Events, err)
			}
			continue
		}
		if err != nil || len(r.Events) != 2 || r.Events[1].Kind != want {
			t.Errorf("%s: %+v, %v; want %s", answer, r.Events, err, want)
		}
	}
}

// Each agent gets a refusal in its own format, with the reason. No answer explicitly allows a call.
func TestDeny(t *testing.T) {
	t.Parallel()
	for source, want := range map[hookevent.Source]string{
		hookevent.ClaudeCode: `{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"a \"b\""}}`,
		hookevent.Codex:      `{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"a \"b\""}}`,
		hookevent.Gemini:     `{"decision":"deny","reason":"a \"b\""}`,
	} {
		if got := string(source.Deny(`a "b"`)); got != want {
			t.Errorf("%s: %s", source, got)
		}
	}
	if hookevent.Proceed != `{}` {
		t.Error("Proceed makes a decision")
	}
}

func TestParseSource(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"claude-code", "gemini", "codex"} {
		if s, err := hookevent.ParseSource(name); err != nil || string(s) != name {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := hookevent.ParseSource("cursor"); err == nil {
		t.Error("an unknown agent was accepted")
	}
}

// Each event of any message has a source and a kind, and in a batch a call ID.
func FuzzParse(f *testing.F) {
	f.Add(`{"hook_event_name":"PostToolBatch","session_id":"s","tool_calls":[{"tool_use_id":"c","tool_name":"Bash","tool_response":"Permission to use Bash has been denied."}]}`)
	f.Add(`{"hook_event_name":"PreToolUse","tool_input":"\ud800","duration_ms":1e999}`)
	f.Add(`{"hook_event_name":"AfterTool","tool_response":{"error":{}}} `)
	f.Fuzz(func(t *testing.T, body string) {
		for _, source := range []hookevent.Source{hookevent.ClaudeCode, hookevent.Gemini, hookevent.Codex} {
			report, err := source.Parse([]byte(body))
			for _, e := range report.Events {
				if e.Source != string(source) || e.Kind == "" || report.Late && e.CallID == "" || e.DurationMS < 0 {
					t.Fatalf("%+v", e)
				}
			}
			if err == nil && !json.Valid([]byte(strings.ToValidUTF8(body, "?"))) && !strings.Contains(body, `\u`) {
				t.Fatal("invalid JSON was accepted", fmt.Sprint(report))
			}
			if report.Asks && len(report.Events) != 1 {
				t.Fatalf("%+v", report)
			}
		}
	})
}
