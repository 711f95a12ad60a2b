package setup_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"attestd/agent/setup"
	"attestd/chain/action/hookevent"
)

// Merge preserves other hooks and members, is idempotent, and adds one hook to each event.
func FuzzMerge(f *testing.F) {
	f.Add(`{"a":1.50,"hooks":{"PreToolUse":[{"matcher":"*","hooks":[{"type":"command","command":"attestd hook --agent x"},{"type":"command","command":"other"}]}],"Stop":[]}}`)
	f.Add(` `)
	f.Add(`{"hooks":{"PostToolUse":[{"hooks":[]},{"hooks":[{"type":"http","url":"http://x/v1/hooks/claude-code"}]}]}}`)
	f.Add(`{"hooks":{"PreToolUse":7}}`)
	f.Fuzz(func(t *testing.T, settings string) {
		own := setup.Hooks{Source: hookevent.ClaudeCode, URL: "http://127.0.0.1:8080", Agent: "claude-code"}
		merged, err := own.Merge([]byte(settings))
		if err != nil {
			return
		}
		again, err := own.Merge(merged)
		if err != nil || !bytes.Equal(again, merged) {
			t.Fatalf("%s\nthen %s, %v", merged, again, err)
		}
		before, after := read(t, settings), read(t, string(merged))
		if n := strings.Count(string(after["hooks"]), `"url": "http://127.0.0.1:8080/v1/hooks/claude-code?agent=claude-code"`); n != 7 {
			t.Fatalf("%d hooks of attestd in %s", n, merged)
		}
		delete(before, "hooks")
		delete(after, "hooks")
		for name, value := range before {
			if !same(t, value, after[name]) {
				t.Fatalf("%s was %s and is %s", name, value, after[name])
			}
		}
		if len(before) != len(after) {
			t.Fatalf("%d members, then %d", len(before), len(after))
		}
	})
}

func read(t *testing.T, text string) (members map[string]json.RawMessage) {
	if strings.TrimSpace(text) == "" {
		return map[string]json.RawMessage{}
	}
	if err := json.Unmarshal([]byte(text), &members); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return members
}

// same compares JSON texts except for white space between tokens.
func same(t *testing.T, a, b json.RawMessage) bool {
	var x, y bytes.Buffer
	if json.Compact(&x, a) != nil || json.Compact(&y, b) != nil {
		t.Fatalf("%s, %s", a, b)
	}
	return x.String() == y.String()
}

// The settings have no secret, and only the hook before a call can refuse it.
func TestSettings(t *testing.T) {
	t.Parallel()
	type entry struct {
		Type, URL, Command, OnFailure string
		Timeout                       int
		Headers                       map[string]string
	}
	of := func(h setup.Hooks) map[string]entry {
		var all struct {
			Hooks map[string][]struct{ Hooks []entry }
		}
		if err := json.Unmarshal(h.Settings(), &all); err != nil {
			t.Fatal(err)
		}
		found := map[string]entry{}
		for event, groups := range all.Hooks {
			found[event] = groups[0].Hooks[0]
		}
		return found
	}
	http := setup.Hooks{Source: hookevent.ClaudeCode, URL: "http://127.0.0.1:8080", Agent: "bot", FailClosed: true}
	for event, e := range of(http) {
		want := entry{"http", "http://127.0.0.1:8080/v1/hooks/claude-code?agent=bot&fail=closed", "", "", 5, map[string]string{"Authorization": "Bearer $ATTESTD_KEY"}}
		if event == "PreToolUse" {
			want.OnFailure = "block"
		}
		if !reflect.DeepEqual(e, want) {
			t.Errorf("%s: %+v", event, e)
		}
	}
	http.Command, http.Redact = "/opt/a b/attestd", "input"
	for event, e := range of(http) {
		want := entry{"command", "", "'/opt/a b/attestd' hook --agent bot --url http://127.0.0.1:8080 --redact input --fail closed", "", 5, nil}
		if event == "PreToolUse" {
			want.OnFailure = "block"
			want.Command += " || exit 2" // also where the program is gone
		}
		if !reflect.DeepEqual(e, want) {
			t.Errorf("%s: %+v", event, e)
		}
	}
	http.Redact, http.Decided = "", true
	for event, e := range of(http) {
		wait, timeout := "", 5
		if event == "PreToolUse" { // it may wait for an approval
			wait, timeout = " --timeout 315s || exit 2", 315
		}
		if e.Command != "'/opt/a b/attestd' hook --agent bot --url http://127.0.0.1:8080 --require policy --fail closed"+wait || e.Timeout != timeout {
			t.Errorf("%s: %+v", event, e)
		}
	}
	http.Command = ""
	for event, e := range of(http) {
		wait, timeout := "", 5
		if event == "PreToolUse" {
			wait, timeout = "askWait=55&", 60
		}
		if e.URL != "http://127.0.0.1:8080/v1/hooks/claude-code?agent=bot&"+wait+"fail=closed&require=policy" || e.Timeout != timeout {
			t.Errorf("%s: %+v", event, e)
		}
	}
	http.Command, http.Decided = "attestd", false
	http.FailClosed = false // then a hook refuses nothing
	for event, e := range of(http) {
		if e.OnFailure != "" || strings.Contains(e.Command, "exit") {
			t.Errorf("%s: %+v", event, e)
		}
	}
}

// Where a refusal is asked for, what the agent lacks for it is reported: of each version of Claude
// Code that goes on when a hook hangs, and of the agents that have no setting against it.
func TestLacks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		source  hookevent.Source
		version setup.Version
		want    string
	}{
		{hookevent.ClaudeCode, "2.1.295", ""},
		{hookevent.ClaudeCode, "2.1.294", "Claude Code 2.1.294 is older than 2.1.295, and has no setting for a hook that does not answer in 5 s: it goes on with the call."},
		{hookevent.ClaudeCode, "", "Claude Code of an unknown version may be older"},
		{hookevent.Gemini, "0.61.0", "Gemini CLI has no setting for a hook that does not answer"},
		{hookevent.Codex, "0.169.0", "Codex has no setting for a hook that does not answer"},
	} {
		h := setup.Hooks{Source: c.source, Command: "attestd"}
		if got := h.Lacks(c.version); got != "" {
			t.Errorf("%s: %s, of hooks that refuse nothing", c.source, got)
		}
		for _, h := range []setup.Hooks{{Source: c.source, Command: "attestd", FailClosed: true}, {Source: c.source, Command: "attestd", Passport: true}} {
			if got := h.Lacks(c.version); !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
				t.Errorf("%s %s: %q, want %q", c.source, c.version, got, c.want)
			}
		}
	}
}
