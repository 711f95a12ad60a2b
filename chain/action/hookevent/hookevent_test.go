package hookevent_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"attestd/chain/action"
	"attestd/chain/action/hookevent"
)

// Events of Gemini CLI and Codex become the same records as those of Claude Code;
// server/api_hooks_test.go has that one's.
func TestParse(t *testing.T) {
	t.Parallel()
	const codex = `{"session_id":"s","turn_id":"u","model":"m","cwd":"/x","permission_mode":"default","transcript_path":null,"tool_name":"Bash","tool_use_id":"c1"`
	const gemini = `{"session_id":"s","transcript_path":"/x","cwd":"/x","timestamp":"2026-11-21T10:00:00Z","tool_name":"write_file"`
	common := func(source hookevent.Source, actionType action.Type) action.Event {
		return action.Event{Type: actionType, Source: string(source), SessionID: "s"}
	}
	for _, c := range []struct {
		source     hookevent.Source
		body       string
		want       func(*action.Event)
		actionType action.Type
	}{
		{hookevent.Codex, codex + `,"hook_event_name":"PreToolUse","tool_input":{"command":"ls"}}`, func(e *action.Event) {
			e.Tool, e.CallID, e.Input = "Bash", "c1", json.RawMessage(`{"command":"ls"}`)
		}, action.ToolRequested},
		{hookevent.Codex, codex + `,"hook_event_name":"PostToolUse","tool_response":"a"}`, func(e *action.Event) {
			e.Tool, e.CallID, e.Output = "Bash", "c1", json.RawMessage(`"a"`)
		}, action.ToolEnded},
		{hookevent.Codex, codex + `,"hook_event_name":"PermissionRequest","tool_input":{"command":"ls"}}`, func(e *action.Event) {
			e.Tool, e.CallID, e.Input = "Bash", "c1", json.RawMessage(`{"command":"ls"}`)
		}, action.PermissionRequested},
		{hookevent.Codex, codex + `,"hook_event_name":"SubagentStop","agent_id":"a1","agent_type":"worker","last_assistant_message":"done"}`, func(e *action.Event) {
			e.SubagentID, e.AgentType, e.TurnID, e.Output = "a1", "worker", "u", json.RawMessage(`"done"`)
		}, action.SubagentEnded},
		{hookevent.Codex, codex + `,"hook_event_name":"SubagentStop","agent_id":"a1","last_assistant_message":null}`, func(e *action.Event) {
			e.SubagentID, e.TurnID = "a1", "u"
		}, action.SubagentEnded},
		{hookevent.Gemini, gemini + `,"hook_event_name":"BeforeTool","tool_input":{"a":1},"mcp_context":{"server_name":"files"}}`, func(e *action.Event) {
			e.Tool, e.Server, e.Input = "write_file", "files", json.RawMessage(`{"a":1}`)
		}, action.ToolRequested},
		{hookevent.Gemini, gemini + `,"hook_event_name":"AfterTool","tool_response":{"llmContent":"a"}}`, func(e *action.Event) {
			e.Tool, e.Output = "write_file", json.RawMessage(`{"llmContent":"a"}`)
		}, action.ToolCompleted},
		{hookevent.Gemini, gemini + `,"hook_event_name":"AfterTool","tool_response":{"llmContent":"a","error":{"message":"no"}}}`, func(e *action.Event) {
			e.Tool, e.Error = "write_file", `{"message":"no"}`
		}, action.ToolFailed},
		{hookevent.Gemini, gemini + `,"hook_event_name":"SessionEnd","reason":"exit"}`, func(e *action.Event) {
			e.TurnID, e.Reason = "2026-11-21T10:00:00Z", "exit"
		}, action.SessionEnded},
		{hookevent.Codex, codex + `,"hook_event_name":"Stop"}`, nil, ""},
		{hookevent.Gemini, gemini + `,"hook_event_name":"BeforeModel"}`, nil, ""},
	} {
		got, err := c.source.Parse([]byte(c.body))
		want := hookevent.Report{Unknown: true}
		if c.want != nil {
			e := common(c.source, c.actionType)
			if e.Type != action.SessionEnded && e.Type != action.SubagentEnded {
				e.Folder = "/x"
			}
			c.want(&e)
			want = hookevent.Report{Events: []action.Event{e}, Asks: c.actionType == action.ToolRequested}
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
		want           action.Type
	}{
		{hookevent.Codex, "Bash", `"ok\n"`, action.ToolEnded},
		// of: echo out; echo err >&2; exit 3
		{hookevent.Codex, "Bash", `"out\nerr\n"`, action.ToolEnded},
		{hookevent.Codex, "Bash", `"{\"exit_code\":0}"`, action.ToolEnded},
		{hookevent.Codex, "Bash", `""`, action.ToolEnded},
		{hookevent.Codex, "Bash", `null`, action.ToolEnded},
		{hookevent.Codex, "Bash", `{}`, action.ToolEnded},
		{hookevent.Codex, "Bash", `{"exit_code":0,"exit_code":1}`, action.ToolEnded},
		{hookevent.Codex, "Bash", `{"exit_code":0}`, action.ToolCompleted},
		{hookevent.Codex, "Bash", `{"exit_code":3}`, action.ToolFailed},
		{hookevent.Codex, "Bash", `{"exit_code":3,"success":true}`, action.ToolFailed},
		{hookevent.Codex, "Bash", `{"success":false}`, action.ToolFailed},
		{hookevent.Codex, "Bash", `{"content":[]}`, action.ToolEnded},
		{hookevent.Codex, "apply_patch", `"Success. Updated the following files:\nA a.txt\n"`, action.ToolEnded},
		{hookevent.Codex, "mcp__x__good", `{"content":[{"type":"text","text":"good"}]}`, action.ToolCompleted},
		{hookevent.Codex, "mcp__x__good", `{"content":[],"isError":false,"exit_code":1}`, action.ToolCompleted},
		{hookevent.Codex, "mcp__x__bad", `{"content":[],"isError":true}`, action.ToolFailed},
		{hookevent.Codex, "mcp__x__odd", `{"content":[],"isError":"no"}`, action.ToolEnded},
		{hookevent.Codex, "mcp__x__odd", `"text"`, action.ToolEnded},
		// it has an event for failures
		{hookevent.ClaudeCode, "Bash", `{"stdout":"a","exit_code":3}`, action.ToolCompleted},
		{hookevent.ClaudeCode, "Bash", `{"stdout":"","backgroundTaskId":"b1"}`, action.ToolEnded},
		{hookevent.ClaudeCode, "Agent", `{"status":"completed","agentId":"a1"}`, action.ToolCompleted},
		{hookevent.ClaudeCode, "Agent", `{"isAsync":true,"status":"async_launched","agentId":"a1"}`, action.ToolPending},
		{hookevent.ClaudeCode, "Task", `{"status":"async_launched","agentId":"a1"}`, action.ToolPending},
		{hookevent.ClaudeCode, "Agent", `{"status":"remote_launched"}`, action.ToolPending},
		{hookevent.ClaudeCode, "Agent", `{"status":"completed","status":"async_launched"}`, action.ToolEnded},
		{hookevent.ClaudeCode, "mcp__x__y", `{"status":"async_launched","agentId":"a1","backgroundTaskId":"b"}`, action.ToolCompleted},
	} {
		r, err := c.source.Parse([]byte(`{"hook_event_name":"PostToolUse","tool_use_id":"c","tool_name":"` + c.tool + `","tool_response":` + c.response + `}`))
		if err != nil || len(r.Events) != 1 || r.Events[0].Type != c.want {
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
		want       action.Type
		subagentID string
	}{
		{"Agent", []any{map[string]any{"type": "text", "text": launched}}, action.ToolPending, "a2f9"},
		{"Task", launched, action.ToolPending, "a2f9"},
		{"Agent", "Async agent launched successfully", action.ToolPending, ""},
		{"Agent", "[Subagent hand-back] " + launched, action.ToolEnded, ""},
		{"Bash", launched, action.ToolEnded, ""},
	} {
		text, err := json.Marshal(c.answer)
		if err != nil {
			t.Fatal(err)
		}
		text = []byte(strings.ReplaceAll(string(text), `{"text":`, `{"type":"text","text":`))
		text = []byte(strings.ReplaceAll(string(text), `,"type":"text"}`, `}`))
		r, err := hookevent.ClaudeCode.Parse([]byte(`{"hook_event_name":"PostToolBatch","tool_calls":[{"tool_name":"` + c.tool + `","tool_use_id":"1","tool_input":{},"tool_response":` + string(text) + `}]}`))
		if err != nil || len(r.Events) != 2 || r.Events[1].Type != c.want || r.Events[1].SubagentID != c.subagentID {
			t.Errorf("%s: %s: %+v, %v", c.tool, text, r.Events, err)
		}
	}
}

// A call is denied only if the agent says so in one of its own messages. The output of a tool that
// ran is not a denial.
func TestOutputIsNotDenial(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]action.Type{
		"Permission to use Bash with command curl x has been denied.":                                action.ToolDenied,
		"Permission to use Bash has been denied.":                                                    action.ToolDenied,
		"Claude requested permissions to write to /x, but you haven't granted it yet.":               action.ToolDenied,
		"The user doesn't want to proceed with this tool use. The tool use was rejected.":            action.ToolDenied,
		"This command requires approval":                                                             action.ToolDenied,
		"This Bash command contains multiple operations. The following parts require approval: rm a": action.ToolDenied,
		"PreToolUse:Bash hook error: [guard]: not on my machine":                                     action.ToolDenied,
		"attestd: this call could not be recorded, so it is refused: no such host":                   "",
		"PreToolUse:Bash hook error: " + hookevent.NoPassport("bot", "Bash"):                         "",
		hookevent.NoPassport("bot", "Bash"):                                                          "",
		"attestd: 3 records wait":                                                                    action.ToolEnded,
		"log: PreToolUse:Bash hook error: x":                                                         action.ToolEnded,
		"PreToolUse:Write hook error: x":                                                             action.ToolEnded,
		"Permission was denied":                                                                      action.ToolEnded,
		"rm: cannot remove 'x': it was denied by the kernel":                                         action.ToolEnded,
		"Access has been denied.":                                                                    action.ToolEnded,
		"Permission to use Write has been denied.":                                                   action.ToolEnded,
		"log: Permission to use Bash has been denied.":                                               action.ToolEnded,
		"<tool_use_error>no such tool</tool_use_error>":                                              action.ToolFailed,
	} {
		quoted, _ := json.Marshal(answer)
		r, err := hookevent.ClaudeCode.Parse([]byte(`{"hook_event_name":"PostToolBatch","tool_calls":[{"tool_name":"Bash","tool_use_id":"1","tool_input":{},"tool_response":` + string(quoted) + `}]}`))
		if want == "" { // what attestd refused is on record by itself, or in a spool
			if err != nil || len(r.Events) != 0 {
				t.Errorf("%s: %+v, %v", answer, r.Events, err)
			}
			continue
		}
		if err != nil || len(r.Events) != 2 || r.Events[1].Type != want {
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

// Each event of any message has a source and a type, and in a batch a call ID.
func FuzzParse(f *testing.F) {
	f.Add(`{"hook_event_name":"PostToolBatch","session_id":"s","tool_calls":[{"tool_use_id":"c","tool_name":"Bash","tool_response":"Permission to use Bash has been denied."}]}`)
	f.Add(`{"hook_event_name":"PreToolUse","tool_input":"\ud800","duration_ms":1e999}`)
	f.Add(`{"hook_event_name":"AfterTool","tool_response":{"error":{}}} `)
	f.Fuzz(func(t *testing.T, body string) {
		for _, source := range []hookevent.Source{hookevent.ClaudeCode, hookevent.Gemini, hookevent.Codex} {
			report, err := source.Parse([]byte(body))
			for _, e := range report.Events {
				if e.Source != string(source) || e.Type == "" || report.Late && e.CallID == "" || e.DurationMS < 0 {
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
