package web_test

import (
	"testing"
	"time"

	"attestd/internal/testenv"
)

// A call that was refused and ran all the same needs a look, is red in the list of sessions, and is
// found here from the records of its session, whatever the server says of it.
func TestBrowserCallThatDisobeyed(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := s.company("acme")
	for _, step := range []struct{ action, call string }{
		{"tool.requested", "a"}, {"tool.denied", "a"}, {"tool.requested", "b"}, {"tool.denied", "b"}, {"tool.completed", "b"},
	} {
		s.api("POST", "/v1/attest", key, toolCall("coder", "s-1", step.action, map[string]any{"tool": "Bash", "callId": step.call}))
	}
	b := openBrowser(t, s.base)
	b.signIn(key)
	b.confirmKey(s, "acme")
	// the service notes it some moments after the record
	for deadline := time.Now().Add(time.Minute); ; {
		b.goTo("#/sessions")
		b.shows(`[data-sessions="1"]`)
		if eval[int](b, `document.querySelectorAll('tr[data-session="s-1"][data-state="disobeyed"]').length`) == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the list of sessions never says it")
		}
		b.goTo("#/keys")
	}
	b.reads(`tr[data-session="s-1"] .badge.bad`, "disobeyed: refused at record 3, done at record 4; unproven")
	b.goTo(sessionPage)
	b.reads(`[data-whole="disobeyed"][data-whole-tone="bad"]`, "disobeyed: refused at record 3, done at record 4; completeness cannot be proven")
	b.goTo("#/start")
	b.reads(`[data-attention]`, "1 refused tool call ran all the same")
	b.press("1 refused tool call ran all the same")
	b.reads("h1", "Control log")
	b.reads(`main`, "ran although it was refused")
}
