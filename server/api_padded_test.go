package server_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"attestd/chain/action"
	"attestd/examples/policies"
	"attestd/internal/must"
	"attestd/service/decide"
)

// A call whose arguments are not on record as the tool gets them is refused by the starter set, at
// every door: its command is padded until only a hash is recorded, redacted, or hidden in a mask.
// The same follows from the record alone.
func TestPaddedCallsAreRefused(t *testing.T) {
	t.Parallel()
	acme := start(t).company(t, "acme")
	var list []decide.Policy
	for _, p := range policies.Starter() {
		acme.do(t, "PUT /v1/policies/"+p.ID, policyBody(t, p.Text)).status(200)
		list = append(list, decide.Policy(p))
	}
	set, err := decide.Compile(list)
	must.OK(t, err)

	input := func(members map[string]string) json.RawMessage {
		text, err := json.Marshal(members)
		must.OK(t, err)
		return text
	}
	bash := func(command string) action.Event {
		return action.Event{Tool: "Bash", Input: input(map[string]string{"command": command})}
	}
	write := func(path string, size int) action.Event {
		return action.Event{Tool: "Write", Input: input(map[string]string{"file_path": path, "content": strings.Repeat("x", size)})}
	}
	n := 0
	// the doors at which an agent asks whether it may call a tool, and which answer its verdict
	attest := func(payload []byte, folder string) string {
		body := fmt.Sprintf(`{"agentId":"bot","actionType":"tool.requested","folder":%q,"payload":%s}`, folder, payload)
		verdict, _, _ := strings.Cut(verdictOf(t, acme.do(t, "POST /v1/attest", body).status(201)), " ")
		return verdict
	}
	recorded := func(source, redact string, required bool) func(action.Event) string {
		return func(e action.Event) string { // as the command hook and the proxies send it
			p, err := action.ParseRedaction(redact)
			must.OK(t, err)
			p.Decided = required
			e.Type, e.Source, e.SessionID, e.CallID = action.ToolRequested, source, "s", fmt.Sprintf("call-%d", n)
			return attest(p.Record("bot", e).Payload, "/srv/app")
		}
	}
	hook := func(query string) func(action.Event) string {
		return func(e action.Event) string {
			body := fmt.Sprintf(`{"hook_event_name":"PreToolUse","session_id":"s","cwd":"/srv/app","tool_name":%q,"tool_use_id":"call-%d","tool_input":%s}`,
				e.Tool, n, e.Input)
			if strings.Contains(string(acme.do(t, "POST /v1/hooks/claude-code?agent=bot"+query, body).status(200).raw), `"deny"`) {
				return "deny"
			}
			return "allow"
		}
	}
	doors := map[string]func(action.Event) string{
		"HTTP hook": hook(""), "HTTP hook, required": hook("&require=policy"), "command hook": recorded("claude-code", "", false), "MCP proxy": recorded("mcp", "", false),
		"command hook, required": recorded("claude-code", "", true), "MCP proxy, required": recorded("mcp", "", true),
		"attestation": func(e action.Event) string {
			return attest(fmt.Appendf(nil, `{"source":"own","tool":%q,"input":%s}`, e.Tool, e.Input), "/srv/app")
		},
	}
	asks := func(door string, ask func(action.Event) string, what string, e action.Event, want string) {
		t.Helper()
		n++
		if is := ask(e); is != want {
			t.Errorf("%s: %s: %s, want %s", door, what, is, want)
		}
	}
	for door, ask := range doors {
		for _, size := range []int{20 << 10, 70 << 10} {
			pad := strings.Repeat(" ", size)
			asks(door, ask, fmt.Sprintf("a push of %d bytes", size), bash("git push --force"+pad), "deny")
			asks(door, ask, fmt.Sprintf("a push behind a comment of %d bytes", size), bash("# "+pad+"\ngit push --force"), "deny")
			asks(door, ask, fmt.Sprintf("a file of %d bytes outside", size), write("/etc/hosts", size), "deny")
		}
		if strings.HasSuffix(door, "required") { // it is recorded as a whole
			asks(door, ask, "a long file inside", write("/srv/app/x", 60<<10), "allow")
		}
		asks(door, ask, "a push behind a mask", bash("PASSWORD='--force'; git push $PASSWORD"), "deny")
		asks(door, ask, "a form of shortened arguments", action.Event{Tool: "Bash", Input: json.RawMessage(`{"sha256":"00","bytes":1,"head":"ls"}`)}, "deny")
		asks(door, ask, "a short push", bash("git push"), "allow")
		asks(door, ask, "a file inside", write("/srv/app/x", 8<<10), "allow")
		asks(door, ask, "a file inside that holds a secret", action.Event{Tool: "Write",
			Input: input(map[string]string{"file_path": "/srv/app/x", "content": "password = 'horse-battery-9'"})}, "allow")
	}
	for door, ask := range map[string]func(action.Event) string{
		"HTTP hook, redacted": hook("&redact=input&require=policy"), "command hook, redacted": recorded("claude-code", "input", false), "MCP proxy, redacted": recorded("mcp", "input", false),
	} {
		asks(door, ask, "a push", bash("git push --force"), "deny")
	}
	var page struct {
		Records []struct {
			Timestamp string
			Payload   json.RawMessage
		}
	}
	must.OK(t, json.Unmarshal(acme.do(t, "GET /v1/records?limit=1000&action=tool.requested", "").status(200).raw, &page))
	for _, r := range page.Records {
		past, err := decide.ReadPast(r.Timestamp, r.Payload)
		must.OK(t, err)
		if made, differs := set.Again(past, nil); differs || made.Code == decide.Failure {
			t.Errorf("again %+v: %.200s", made, r.Payload)
		}
	}
	if len(page.Records) != n {
		t.Errorf("%d of %d requests were decided again", len(page.Records), n)
	}
}
