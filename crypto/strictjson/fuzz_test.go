package strictjson_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"attestd/crypto/strictjson"
)

// FuzzEachMember compares with a slow and obvious reading: encoding/json, and a check of its own
// for each thing that it lets through.
func FuzzEachMember(f *testing.F) {
	for _, in := range []string{
		`{}`, `{"a":1.50,"b":[true,null,{"c":"\u00e9"}]}`, ` { "" : -0e+1 } `, `[]`, `"x"`, ``, `{"a":1}{"a":1}`,
		`{"a":1,"\u0061":2}`, `{"a":{"b":1,"b":1}}`, `{"a":[[[]]]}`, `{"a":[[[[]]]]}`, `{"a":"]]]][[[[{{{{\""}`,
		`{"a":"\ud83d\ude00"}`, `{"a":"\ud83d"}`, `{"\ude00":1}`, `{"a":"\\ud83d"}`, "{\"a\":\"\xff\"}", "{\"a\":\"\ufffd\"}", `{"a":01}`, `{"a":1e400}`,
	} {
		f.Add([]byte(in))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		got := map[string]json.RawMessage{}
		err := strictjson.EachMember(in, maxDepth, func(name, value []byte) {
			if got[string(name)] != nil {
				t.Fatalf("%q: %q twice", in, name)
			}
			got[string(name)] = value
		})
		var refused *strictjson.Error
		if err != nil && !errors.Is(err, strictjson.ErrKind) && (!errors.As(err, &refused) || refused.Reason == "" || len(refused.Reason) > 300 || len(refused.Pointer) > 300) {
			t.Fatalf("%q: %v", in, err)
		}
		if sound := isSound(in); sound == errors.As(err, &refused) {
			t.Fatalf("%q is sound: %v; EachMember says %v", in, sound, err)
		}
		if err != nil {
			return
		}
		var want map[string]json.RawMessage
		if err := json.Unmarshal(in, &want); err != nil || !maps.EqualFunc(got, want, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) {
			t.Fatalf("%q is %q; want %q, %v", in, got, want, err)
		}
		for name, value := range got {
			var s any
			if json.Unmarshal(value, &s) != nil {
				continue // a number that no double holds
			}
			text, isString := strictjson.AsString(value)
			if want, ok := s.(string); ok != isString || want != text {
				t.Fatalf("%q: %q is %q", in, name, text)
			}
		}
	})
}

// isSound says whether in holds one value that EachMember lets pass, of whatever kind.
func isSound(in []byte) bool {
	return json.Valid(in) && utf8.Valid(in) && !hasLoneSurrogate(in) && !isAmbiguousOrDeep(in)
}

var escape = regexp.MustCompile(`\\(u[0-9a-fA-F]{4}|.)`)

// hasLoneSurrogate looks at every escape of the valid JSON in.
func hasLoneSurrogate(in []byte) bool {
	pair := regexp.MustCompile(`(?i)^\\ud[89ab]..\\ud[c-f]..`)
	for rest := in; ; {
		at := escape.FindIndex(rest)
		if at == nil {
			return false
		}
		switch unit := strings.ToLower(string(rest[at[0]:at[1]])); {
		case pair.Match(rest[at[0]:]):
			at[1] += len(unit)
		case strings.HasPrefix(unit, `\ud`) && unit[3] >= '8':
			return true
		}
		rest = rest[at[1]:]
	}
}

// isAmbiguousOrDeep reports whether the valid JSON in has an object with a name twice, or nests
// deeper than its members may.
func isAmbiguousOrDeep(in []byte) bool {
	dec := json.NewDecoder(bytes.NewReader(in))
	dec.UseNumber()
	type container struct {
		names  []string
		object bool
		tokens int
	}
	var open []*container
	for {
		token, err := dec.Token()
		if err != nil {
			return false
		}
		if token == json.Delim('}') || token == json.Delim(']') {
			open = open[:len(open)-1]
			continue
		}
		if len(open) > 0 {
			c := open[len(open)-1]
			if name, _ := token.(string); c.object && c.tokens%2 == 0 {
				if slices.Contains(c.names, name) {
					return true
				}
				c.names = append(c.names, name)
			}
			c.tokens++
		}
		if delim, ok := token.(json.Delim); ok {
			open = append(open, &container{object: delim == '{'})
		}
		if len(open) > maxDepth+1 {
			return true
		}
	}
}
