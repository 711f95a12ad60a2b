package server_test

import "testing"

// A session that is resumed ends again with the very same event, and each end is a record of its
// own. One end that is reported again is one record, and an end that another writer has recorded
// hides none.
func TestHookRecordsEachEndOfASession(t *testing.T) {
	t.Parallel()
	acme := start(t).company(t, "acme")
	ours, theirs := acme.create(t, "writer", ""), acme.create(t, "writer", "")
	const end = `{"session_id":"s-1","hook_event_name":"SessionEnd","reason":"other"}`
	for _, call := range []string{"t1", "t2"} { // the second after the session was resumed
		ours.do(t, hook, event("PreToolUse", call, `,"tool_input":{}`)).gets(200, `{}`)
		for range 3 {
			ours.do(t, hook, end).gets(200, `{}`)
		}
	}
	const ended = `claude-code session.ended {"source":"claude-code","sessionId":"s-1","reason":"other"}`
	asked := func(call string) string {
		return `claude-code tool.requested {"source":"claude-code","tool":"Bash","callId":"` + call + `","sessionId":"s-1","input":{}}`
	}
	want := []string{asked("t1"), ended, asked("t2"), ended}
	compare(t, acme.hooked(t), want)

	ours.do(t, hook, event("PreToolUse", "t3", `,"tool_input":{}`)).gets(200, `{}`)
	for range 2 {
		theirs.do(t, "POST /v1/attest", `{"agentId":"claude-code","actionType":"session.ended","payload":{"source":"claude-code","sessionId":"s-1","reason":"other"}}`).status(201)
		ours.do(t, hook, end).gets(200, `{}`)
	}
	compare(t, acme.hooked(t), append(want, asked("t3"), ended, ended, ended))

	// The first event of a session may be its end.
	ours.do(t, hook, `{"session_id":"s-2","hook_event_name":"SessionEnd"}`).gets(200, `{}`)
	ours.do(t, hook, `{"session_id":"s-2","hook_event_name":"SessionEnd"}`).gets(200, `{}`)
	if n := len(acme.hooked(t)); n != 9 {
		t.Errorf("%d records, want 9", n)
	}
}
