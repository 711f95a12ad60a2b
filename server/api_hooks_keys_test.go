package server_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"testing"

	"attestd/internal/must"
)

// The idempotency keys of a hook's records are predictable. A writer of the same company who uses
// them first, by the header, in a batch or by its own events, prevents no record: neither of a call
// nor of a denial.
func TestHookKeysCannotBePreempted(t *testing.T) {
	t.Parallel()
	acme := start(t).company(t, "acme")
	ours, theirs := acme.create(t, "writer", ""), acme.create(t, "writer", "")

	request := `{"source":"claude-code","tool":"Bash","callId":"t1","sessionId":"s-1","input":{"command":"rm -rf /"}}`
	digest := func(parts ...string) string {
		h := sha256.New()
		for _, part := range parts {
			fmt.Fprintf(h, "%d:%s", len(part), part)
		}
		return hex.EncodeToString(h.Sum(nil))
	}
	var batch []object
	for i, key := range []string{
		"claude-code:claude-code:s-1:t1:tool.requested", "claude-code:claude-code:s-1:t1:tool.outcome", "claude-code:claude-code:s-1::session.ended",
		digest("claude-code:claude-code:s-1:t1:tool.requested", request), "claude-code:claude-code:s-1:t2:tool.requested", "claude-code:claude-code:s-1:t2:tool.outcome",
	} {
		taken := object{"agentId": "intruder", "actionType": "noise", "payload": i}
		if i%2 == 0 {
			body, err := json.Marshal(taken)
			must.OK(t, err)
			theirs.do(t, "POST /v1/attest", string(body), "Idempotency-Key: "+key).status(201)
			continue
		}
		batch = append(batch, but(taken, object{"idempotencyKey": key}))
	}
	body, err := json.Marshal(object{"records": batch})
	must.OK(t, err)
	theirs.do(t, "POST /v1/attest/batch", string(body)).status(201)
	// By events of its own, in the name of another agent's session.
	theirs.do(t, hook, event("PreToolUse", "t2", `,"tool_input":{"command":"true"}`)).gets(200, `{}`)
	theirs.do(t, hook, event("PostToolUse", "t2", `,"tool_response":"fine"`)).gets(200, `{}`)
	before := len(acme.hooked(t))

	for range 2 {
		ours.do(t, hook, event("PreToolUse", "t1", `,"tool_input":{"command":"rm -rf /"}`)).gets(200, `{}`)
		ours.do(t, hook, event("PostToolUse", "t1", `,"tool_response":"gone"`)).gets(200, `{}`)
		ours.do(t, hook, `{"session_id":"s-1","hook_event_name":"PostToolBatch","tool_calls":[{"tool_name":"Bash","tool_input":{"command":"curl x"},`+
			`"tool_use_id":"t2","tool_response":"Permission to use Bash has been denied."}]}`).gets(200, `{}`)
		ours.do(t, hook, `{"session_id":"s-1","hook_event_name":"SessionEnd","reason":"other"}`).gets(200, `{}`)
	}
	compare(t, acme.hooked(t)[before:], []string{
		"claude-code tool.requested " + request,
		`claude-code tool.completed {"source":"claude-code","tool":"Bash","callId":"t1","sessionId":"s-1","output":"gone"}`,
		`claude-code tool.requested {"source":"claude-code","tool":"Bash","callId":"t2","sessionId":"s-1","input":{"command":"curl x"}}`,
		`claude-code tool.denied {"source":"claude-code","tool":"Bash","callId":"t2","sessionId":"s-1","reason":"Permission to use Bash has been denied."}`,
		`claude-code session.ended {"source":"claude-code","sessionId":"s-1","reason":"other"}`,
	})
}

// A retry across an upgrade makes no second record: earlier versions stored a hook's record under
// its key in plaintext.
func TestHookRetryOverAnUpgrade(t *testing.T) {
	t.Parallel()
	acme := start(t).company(t, "acme")
	record := `{"source":"claude-code","tool":"Bash","callId":"t1","sessionId":"s-1","input":{"command":"ls"}}`
	acme.do(t, "POST /v1/attest", `{"agentId":"claude-code","actionType":"tool.requested","payload":`+record+`}`, "Idempotency-Key: claude-code:claude-code:s-1:t1:tool.requested").status(201)
	acme.do(t, hook, event("PreToolUse", "t1", `,"tool_input":{"command":"ls"}`)).gets(200, `{}`)
	compare(t, acme.hooked(t), []string{"claude-code tool.requested " + record})
	acme.do(t, hook, event("PreToolUse", "t1", `,"tool_input":{"command":"id"}`)).gets(200, `{}`)
	if got := acme.hooked(t); len(got) != 2 {
		t.Errorf("%q", got)
	}
}
