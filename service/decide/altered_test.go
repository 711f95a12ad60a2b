package decide_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"attestd/chain/action"
	"attestd/chain/decision"
	"attestd/service/decide"
)

// A text that the tool does not get as it is on record is named in dropped, and in unclear where it
// is a command, a path or a patch.
func TestAlteredTextsAreDropped(t *testing.T) {
	t.Parallel()
	for arguments, want := range map[string][2]string{
		`{"command":"git push [masked 7]"}`:                     {"/command", "/command"},
		`{"command":"git push [masked 7 h:00]","x":"y"}`:        {"/command", "/command"},
		`{"command":"git","args":["push","[masked 7]"]}`:        {"/args", "/args"},
		"{\"command\":\"git push --for\ufffdce\"}":              {"/command", "/command"},
		`{"path":"/srv/[masked 9]/x","content":"y"}`:            {"/path", "/path"},
		`{"patch":"*** Update File: [masked 9]\n"}`:             {"/patch", "/patch"},
		`{"path":"/srv/x","content":"password = '[masked 9]'"}`: {"/content", ""},
		`{"edits":[{"new":{"text":"[masked 9]"}}]}`:             {"/edits", ""},
		`{"[masked 9]":1}`:                                      {"/[masked 9]", "/[masked 9]"},
		`{"command":"ls"}`:                                      {"", ""},
	} {
		d := decide.Derive([]byte(arguments), "/srv")
		if is := [2]string{strings.Join(d.Dropped, ","), strings.Join(d.Unclear, ",")}; is != want {
			t.Errorf("%s: %q, want %q", arguments, is, want)
		}
	}
}

// Details that name an argument do not cover a call whose arguments are on record as a hash, nor a
// path of which a part is masked.
func TestDetailsDoNotCoverUnknownArguments(t *testing.T) {
	t.Parallel()
	decided := func(details, input string, p action.Policy) string {
		payload := p.Record("bot", action.Event{Type: action.ToolRequested, Source: "mcp", Tool: "x", Input: json.RawMessage(input)}).Payload
		set, err := decide.Compile(nil)
		if err != nil {
			t.Fatal(err)
		}
		d := set.Decide(decide.Recorded("acme", "bot", "tool.requested", payload, decision.Context{Details: []json.RawMessage{json.RawMessage(details)}}))
		return strings.TrimSpace(d.Verdict + " " + d.Code)
	}
	const whole, absent, prefix = `[{"type":"tool_call","tools":["x"]}]`, `[{"type":"tool_call","tools":["x"],"arguments":{"/force":{"absent":true}}}]`,
		`[{"type":"tool_call","tools":["x"],"arguments":{"/path":{"prefix":"/srv/"}}}]`
	padded := `{"force":true,"x":"` + strings.Repeat("x", 20<<10) + `"}`
	denied := "deny " + decision.DetailsDenied
	is := []string{
		decided(whole, padded, action.Policy{}), decided(absent, padded, action.Policy{}), decided(absent, `{"force":true}`, action.Policy{HashInput: true}),
		decided(absent, `{"x":1}`, action.Policy{}), decided(prefix, `{"path":"/srv/[masked 9]"}`, action.Policy{}), decided(prefix, `{"path":"/srv/a"}`, action.Policy{}),
	}
	if want := []string{"allow", denied, denied, "allow", denied, "allow"}; !slices.Equal(is, want) {
		t.Errorf("%q, want %q", is, want)
	}
}
