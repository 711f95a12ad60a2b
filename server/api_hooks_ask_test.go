package server_test

import (
	"strings"
	"testing"
	"time"
)

// hookEvent is what Claude Code asks before a transfer.
func hookEvent(call string) string {
	return `{"session_id":"s","hook_event_name":"PreToolUse","tool_name":"mcp__bank__transfer","tool_use_id":"` + call + `","tool_input":` + transfer + `}`
}

// pendingOf waits until a company has a pending approval, and returns its ID.
func (c caller) pendingOf(t testing.TB) string {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if list := c.do(t, "GET /v1/approvals?state=pending", "").status(200).at("approvals").([]any); len(list) > 0 {
			return list[0].(map[string]any)["approvalId"].(string)
		}
	}
	t.Fatal("nothing asks for an approval")
	return ""
}

// The answer to an HTTP hook waits for the approval that a call needs. Only a call that is approved
// goes on, with a second request on record; and not one whose passport was revoked meanwhile.
func TestHookWaitsForApproval(t *testing.T) {
	t.Parallel()
	s := start(t)
	for name, test := range map[string]struct {
		query, verdict, denied string
		meanwhile              func(c caller)
		verdicts               string
	}{
		"approved": {query: "askWait=55&require=policy", verdict: "approve", verdicts: "ask allow"},
		"denied":   {query: "askWait=55", verdict: "deny", denied: "is denied: too dear", verdicts: "ask tool.denied"},
		"nobody":   {query: "askWait=1", denied: "is pending, repeat the call", verdicts: "ask tool.denied"},
		"no wait":  {query: "askWait=0", denied: "is pending, repeat the call", verdicts: "ask tool.denied"},
		"passport revoked": {query: "askWait=55&require=passport,policy", verdict: "approve", denied: "no valid passport", verdicts: "ask deny tool.denied",
			meanwhile: func(c caller) {
				list := c.do(t, "GET /v1/passports", "").status(200).at("passports").([]any)
				c.do(t, "POST /v1/passports/"+list[0].(map[string]any)["jti"].(string)+"/revoke", `{}`).status(200)
			}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			acme := asksFor(t, s, "hook-"+strings.ReplaceAll(name, " ", "-"))
			alice := acme.approver(t, "alice")
			acme.do(t, "POST /v1/agents/bot/passport", `{"scopes":["tool:*"]}`).status(201)
			answered := make(chan *reply, 1)
			go func() { answered <- acme.do(t, "POST /v1/hooks/claude-code?agent=bot&"+test.query, hookEvent("1")) }()
			if test.verdict != "" {
				id := acme.pendingOf(t)
				if test.meanwhile != nil {
					test.meanwhile(acme)
				}
				alice.decides(t, id, test.verdict, "reason", "too dear").status(200)
			}
			r := (<-answered).status(200)
			if got := string(r.raw); (test.denied == "") != (got == "{}\n") || !strings.Contains(got, test.denied) {
				t.Errorf("the hook is answered %s", got)
			}
			var verdicts []string
			for _, one := range acme.do(t, "GET /v1/chain", "").status(200).at("records").([]any) {
				p := one.(map[string]any)["payload"].(map[string]any)
				d, decided := p["decision"].(map[string]any)
				if !decided {
					verdicts = append(verdicts, p["actionType"].(string))
					continue
				}
				verdicts = append(verdicts, d["verdict"].(string))
			}
			if got := strings.Join(verdicts, " "); got != test.verdicts {
				t.Errorf("recorded %s, want %s", got, test.verdicts)
			}
			// The agent repeats its event for want of an answer: nothing is recorded twice.
			if test.denied == "" {
				acme.do(t, "POST /v1/hooks/claude-code?agent=bot&"+test.query, hookEvent("1")).status(200)
				if n := len(acme.do(t, "GET /v1/chain", "").status(200).at("records").([]any)); n != 2 {
					t.Errorf("%d records after the same event again", n)
				}
			}
		})
	}
	acme := asksFor(t, s, "acme")
	acme.do(t, "POST /v1/hooks/claude-code?agent=bot&askWait=56", hookEvent("1")).status(400)
	// one that is withdrawn meanwhile
	answered := make(chan *reply, 1)
	go func() { answered <- acme.do(t, "POST /v1/hooks/claude-code?agent=bot&askWait=55", hookEvent("2")) }()
	acme.do(t, "DELETE /v1/approvals/"+acme.pendingOf(t), "").status(200)
	if got := string((<-answered).raw); !strings.Contains(got, `"permissionDecision":"deny"`) || !strings.Contains(got, "is withdrawn") {
		t.Errorf("the hook is answered %s", got)
	}
}

// A call that waits is refused where its approval cannot be asked for any more, whatever the agent
// makes of a hook that fails: the key of the hook is deleted.
func TestHookThatWaitsFailsClosed(t *testing.T) {
	t.Parallel()
	acme := asksFor(t, start(t), "acme")
	alice := acme.approver(t, "alice")
	key := acme.do(t, "POST /v1/keys", `{"role":"writer"}`).status(201)
	hook := acme
	hook.credential = key.str("key")
	answered := make(chan *reply, 1)
	go func() { answered <- hook.do(t, "POST /v1/hooks/claude-code?agent=bot&askWait=55", hookEvent("1")) }()
	id := acme.pendingOf(t)
	acme.do(t, "DELETE /v1/keys/"+key.str("key"), "").status(200)
	alice.decides(t, id, "approve").status(200)
	if got := string((<-answered).status(200).raw); !strings.Contains(got, `"permissionDecision":"deny"`) {
		t.Errorf("with a key that is deleted the hook is answered %s", got)
	}
	if state := acme.approvalState(t, id); state != "approved" {
		t.Errorf("the approval is %s", state)
	}
}
