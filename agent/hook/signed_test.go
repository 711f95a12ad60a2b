package hook_test

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"attestd/agent/hook"
	"attestd/chain/action/hookevent"
	"attestd/internal/notary"
	"attestd/sdk/attestd"
	"attestd/sdk/attestd/spool"
)

// processes returns a function that makes the hook of a new process. All have a folder and a key in
// common.
func processes(t *testing.T, n *notary.Notary) (start func() *hook.Hook, folder string) {
	t.Helper()
	folder = t.TempDir()
	key, err := attestd.NewAgentKey(attestd.EdDSA)
	if err != nil {
		t.Fatal(err)
	}
	return func() *hook.Hook {
		identity, err := attestd.NewIdentity(attestd.IdentityConfig{
			Key: key, SPIFFEID: "spiffe://attestd.local/company/acme/agent/coder", Log: notary.Log, Alarm: func(error) {},
		})
		if err != nil {
			t.Fatal(err)
		}
		c, err := attestd.New(attestd.Config{URL: "http://attestd.test", Credential: identity, HTTP: &http.Client{Transport: n}, Retry: &attestd.Retry{}})
		if err != nil {
			t.Fatal(err)
		}
		queue, err := spool.Open(filepath.Join(folder, "spool"), c)
		if err != nil {
			t.Fatal(err)
		}
		return &hook.Hook{
			Source: hookevent.ClaudeCode, Agent: "coder", Client: c, Spool: queue, Identity: identity, Ends: filepath.Join(folder, "ends"),
		}
	}, folder
}

// ended is the end of the session s, as an agent reports it that names no prompt.
var ended = []byte(`{"session_id":"s","hook_event_name":"SessionEnd","reason":"other"}`)

// longAgo makes the ends in a folder two minutes old.
func longAgo(t *testing.T, folder string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "ends", "?????*")) // and not the lock
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	at := time.Now().Add(-2 * time.Minute)
	if err := os.Chtimes(files[0], at, at); err != nil {
		t.Fatal(err)
	}
}

// A session that is resumed ends again with the very same event, and each end is a record of its
// own: also where nothing was done in between. One end that is reported twice is one record.
func TestEachEndOfASessionIsRecorded(t *testing.T) {
	t.Parallel()
	n := notary.New(t)
	start, folder := processes(t, n)
	plain := start().Ends
	s := startServer(t)
	unsigned := func() *hook.Hook {
		h := s.hook(t)
		h.Ends = plain + "-unsigned"
		return h
	}
	for _, signs := range []bool{true, false} {
		process := unsigned
		if signs {
			process = start
		}
		answer(t, process(), event("PreToolUse", "1", ""), false, false)
		answer(t, process(), ended, false, false)
		answer(t, process(), ended, false, false)                        // the same
		answer(t, process(), event("PreToolUse", "2", ""), false, false) // resumed
		answer(t, process(), ended, false, false)
		answer(t, process(), ended, false, false) // the same
	}
	s.recorded(t, "tool.requested 1", "session.ended ", "tool.requested 2", "session.ended ")
	n.Is("s", "complete: 0 to 1, sealed")
	all := n.Sessions()
	if len(all) != 2 {
		t.Fatalf("%q, want 2 sessions", all)
	}
	n.Is(all[1], "complete: 0 to 1, sealed")
	if c := n.Records(all[1])[0].Continues; c == nil || c.Session != "s" {
		t.Errorf("it goes on from %+v", c)
	}
	longAgo(t, folder)
	answer(t, start(), ended, false, false) // resumed, and nothing was done
	if all = n.Sessions(); len(all) != 3 {
		t.Fatalf("%q, want 3 sessions", all)
	}
	n.Is(all[2], "complete: 0 to 0, sealed")
}

// An event that the service refuses has its place in the session, is set apart once, and is named
// by the next one. A call that must be recorded is refused, and its refusal is recorded.
func TestRefusedEventKeepsItsPlace(t *testing.T) {
	t.Parallel()
	for _, closed := range []bool{false, true} {
		n := notary.New(t)
		start, _ := processes(t, n)
		process := func() *hook.Hook {
			h := start()
			h.FailClosed = closed
			return h
		}
		answer(t, process(), event("PreToolUse", "1", ""), false, false)
		n.Refuse("tool.requested", notary.Decision{Refuse: 400, Code: "TOO_DEEP"})
		answer(t, process(), event("PreToolUse", "2", ""), closed, !closed)
		n.With(func() { n.Decide = nil })
		answer(t, process(), event("PreToolUse", "3", ""), false, false)
		h := process()
		answer(t, h, ended, false, false)
		n.Is("s", map[bool]string{false: "complete: 0 to 3, sealed, 1 refused", true: "complete: 0 to 4, sealed, 1 refused"}[closed])
		apart, err := h.Spool.Refused()
		if err != nil || len(apart) != 1 || !strings.Contains(string(apart[0].Attestation), `"callId":"2"`) || h.Spool.Pending() != 0 {
			t.Errorf("set apart: %v, %v; %d wait", apart, err, h.Spool.Pending())
		}
	}
}

// The service has other statements of the session than this folder: the event is recorded in a
// session of another ID, and the agent goes on.
func TestEventOfALostFolder(t *testing.T) {
	t.Parallel()
	n := notary.New(t)
	start, folder := processes(t, n)
	answer(t, start(), event("PreToolUse", "1", ""), false, false)
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	n.Forget()
	for _, call := range []string{"2", "3"} {
		answer(t, start(), event("PreToolUse", call, ""), false, false)
	}
	n.Is("s", "open at 0")
	all := n.Sessions()
	if slices.Sort(all); len(all) != 2 {
		t.Fatalf("%q, want 2 sessions", all)
	}
	n.Is(all[1], "open at 1")
}
