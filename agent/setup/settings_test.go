package setup_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"attestd/agent/hookevent"
	"attestd/agent/setup"
)

// Merge preserves other hooks and members, is idempotent, and adds one hook to each event.
func FuzzMerge(f *testing.F) {
	f.Add(`{"a":1.50,"hooks":{"PreToolUse":[{"matcher":"*","hooks":[{"type":"command","command":"attestd hook --agent x"},{"type":"command","command":"other"}]}],"Stop":[]}}`)
	f.Add(` `)
	f.Add(`{"hooks":{"PostToolUse":[{"hooks":[]},{"hooks":[{"type":"http","url":"http://x/v1/hooks/claude-code"}]}]}}`)
	f.Add(`{"hooks":{"PreToolUse":7}}`)
	f.Fuzz(func(t *testing.T, settings string) {
		ours := setup.Hooks{Source: hookevent.ClaudeCode, URL: "http://127.0.0.1:8080", Agent: "claude-code"}
		merged, err := ours.Merge([]byte(settings))
		if err != nil {
			return
		}
		again, err := ours.Merge(merged)
		if err != nil || !bytes.Equal(again, merged) {
			t.Fatalf("%s\nthen %s, %v", merged, again, err)
		}
		before, after := read(t, settings), read(t, string(merged))
		if n := strings.Count(string(after["hooks"]), `"url": "http://127.0.0.1:8080/v1/hooks/claude-code?agent=claude-code"`); n != 5 {
			t.Fatalf("%d hooks of ours in %s", n, merged)
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
		want := entry{"http", "http://127.0.0.1:8080/v1/hooks/claude-code?agent=bot", "", "", map[string]string{"Authorization": "Bearer $ATTESTD_KEY"}}
		if event == "PreToolUse" {
			want.OnFailure = "block"
		}
		if !reflect.DeepEqual(e, want) {
			t.Errorf("%s: %+v", event, e)
		}
	}
	http.Command, http.Redact = "/opt/a b/attestd", "input"
	for event, e := range of(http) {
		if want := (entry{"command", "", "'/opt/a b/attestd' hook --agent bot --url http://127.0.0.1:8080 --redact input --fail closed", "", nil}); !reflect.DeepEqual(e, want) {
			t.Errorf("%s: %+v", event, e)
		}
	}
}
