package search_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"attestd/chain"
	"attestd/chain/search"
)

// A text is found in the decoded form of a single string or name, ignoring ASCII case.
func TestPayloadText(t *testing.T) {
	for _, c := range []struct {
		payload, text string
		want          bool
	}{
		{`"Hello World"`, "lo wor", true}, {`"hello"`, "HELLO", true}, {`{"Name":1}`, "nam", true}, {`{"a":{"b":["deep"]}}`, "DEEP", true},
		{`{"a":"hel","b":"lo"}`, "hello", false}, {`{"a":"b"}`, `a":"b`, false}, {`{"a":"b"}`, `"`, false}, {`12345`, "234", false}, {`true`, "true", false},
		{`"a\"b"`, `"`, true}, {`"a\\b"`, `\`, true}, {`"a\\b"`, `\\`, false}, {`"line\nfeed"`, "\n", true}, {`"\u0041bc"`, "abc", true}, {`"\ud83d\ude00"`, "😀", true},
		// the Kelvin sign is not a K
		{`"Ä"`, "ä", false}, {`"Ä"`, "Ä", true}, {`{"\u0061":""}`, "A", true}, {`["x","\\","needle"]`, "needle", true}, {"\"\u212a\"", "k", false},
	} {
		f := search.Filter{Text: c.text}
		got, err := f.Matches(&chain.Record{Payload: payloadOf("a", "b", c.payload)})
		if err != nil || got != c.want {
			t.Errorf("%q in %s: %v, %v", c.text, c.payload, got, err)
		}
	}
}

// The value of a record is the payload as it was sent, whatever the service has put behind it, and
// whatever the payload pretends.
func TestValueIsAsSent(t *testing.T) {
	for _, sent := range []string{
		`1`, `"a"`, `{"a":"b"}`, `{"statement":"a.b.c"}`, `{"a":1,"decision":{"verdict":"deny"}}`, `"x,\"statement\":\"y"`,
		`{"a":{"b":1,"decision":{"by":[],"verdict":"deny"}}}`, `{"a":1,"decision":{"b":1},"verdict":"deny"}`,
	} {
		signed := fmt.Appendf(nil, `{"agentId":"a","companyId":"acme","actionType":"b","payload":%s,"statement":"e30.e30.c"}`, sent)
		for _, object := range [][]byte{payloadOf("a", "b", sent), signed} {
			var terms search.Terms
			for _, verdict := range []string{"", "deny", "allow"} {
				r := chain.Record{Payload: object}
				if verdict != "" {
					r.Payload = decidedOf(object, verdict, "x#0", "x#1", "y")
				}
				if err := terms.Read(&r); err != nil || string(terms.Value) != sent || string(terms.Verdict) != verdict || len(terms.Policies) != 2*min(1, len(verdict)) {
					t.Errorf("%s: %q, %q by %q, %v", r.Payload, terms.Value, terms.Verdict, terms.Policies, err)
				}
			}
		}
	}
}

// FuzzText: in any JSON, containsText agrees with a slow and obvious implementation.
func FuzzText(f *testing.F) {
	f.Add(`{"a":["b\"c",{"D":"\u0065"}]}`, "E")
	f.Add(`"\\"`, `\`)
	f.Fuzz(func(t *testing.T, payload, text string) {
		var v any
		if text == "" || json.Unmarshal([]byte(payload), &v) != nil || strings.ContainsRune(payload, '\uFFFD') || strings.Contains(strings.ToLower(payload), `\ud`) {
			return
		}
		lower := func(s string) string {
			return strings.Map(func(r rune) rune {
				if 'A' <= r && r <= 'Z' {
					return r + 'a' - 'A'
				}
				return r
			}, s)
		}
		var holds func(v any) bool
		holds = func(v any) (found bool) {
			switch v := v.(type) {
			case string:
				return strings.Contains(lower(v), lower(text))
			case []any:
				for _, e := range v {
					found = found || holds(e)
				}
			case map[string]any:
				for name, e := range v {
					found = found || holds(name) || holds(e)
				}
			}
			return found
		}
		filter := search.Filter{Text: text}
		got, err := filter.Matches(&chain.Record{Payload: payloadOf("", "", payload)})
		if strings.ToValidUTF8(payload, "") != payload || strings.ToValidUTF8(text, "") != text {
			return // not a valid payload or question
		}
		if want := holds(v); err != nil || got != want && !repeats(payload) {
			t.Fatalf("%q in %s: %v, %v, want %v", text, payload, got, err, want)
		}
	})
}

// repeats reports whether an object may have duplicate members, of which the obvious implementation
// sees only the last. Payloads have none.
func repeats(payload string) bool { return strings.Count(payload, ":") > 1 }
