package search_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"

	"attestd/chain"
	"attestd/chain/search"
	"attestd/crypto/jcs"
)

// memberCases are shared with the tests of the console, which decides the same.
type memberCases struct {
	Matches   [][3]any
	Canonical [][2]string
	Refused   []string
}

func readMemberCases(t testing.TB) (c memberCases) {
	t.Helper()
	text, err := os.ReadFile("testdata/members.json")
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func hasMembers(t testing.TB, payload, text string) bool {
	t.Helper()
	members, err := search.ParseMembers(text)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	filter := search.Filter{Members: members}
	got, err := filter.Matches(&chain.Record{Payload: payloadOf("a", "b", payload)})
	if err != nil {
		t.Errorf("%q in %s: %v", text, payload, err)
	}
	return got
}

// A member is found at its path and by its value alone, in whatever spelling either has.
func TestPayloadMembers(t *testing.T) {
	t.Parallel()
	cases := readMemberCases(t)
	for _, c := range cases.Matches {
		if got := hasMembers(t, c[0].(string), c[1].(string)); got != c[2].(bool) {
			t.Errorf("%s in %s: %v", c[1], c[0], got)
		}
	}
	for _, c := range cases.Canonical {
		if m, err := search.ParseMembers(c[0]); err != nil || m.String() != c[1] {
			t.Errorf("%q: %v, %v, want %s", c[0], m, err, c[1])
		}
	}
}

// What no payload can match, or can be read in two ways, is refused.
func TestMembersAreRefused(t *testing.T) {
	t.Parallel()
	for _, text := range append(readMemberCases(t).Refused, strings.Repeat("a", 1023)+"=1", "a=\xff") {
		var refusal *search.MembersError
		if m, err := search.ParseMembers(text); !errors.As(err, &refusal) || refusal.Reason == "" {
			t.Errorf("%q is taken for %v, %v", text, m, err)
		}
	}
}

// A search for members reports a payload that it cannot read.
func TestMembersOfDamagedPayload(t *testing.T) {
	t.Parallel()
	members, err := search.ParseMembers("b.c=1")
	if err != nil {
		t.Fatal(err)
	}
	filter := search.Filter{Members: members}
	for _, payload := range []string{`{"a" "b":{"c":1}}`, `{"x":tru,"b":{"c":1}}`, `{"b":{"x":1,,"c":1}}`, `{"b":{"c":`} {
		var damage *search.DamageError
		if got, err := filter.Matches(&chain.Record{Index: 7, Payload: payloadOf("a", "b", payload)}); got || !errors.As(err, &damage) || damage.Index != 7 {
			t.Errorf("%s: %v, %v", payload, got, err)
		}
	}
}

// FuzzMembers: each condition that is accepted has one form, which means the same, and agrees in
// any JSON with a slow and obvious implementation.
func FuzzMembers(f *testing.F) {
	cases := readMemberCases(f)
	for _, c := range cases.Matches {
		f.Add(c[0].(string), c[1].(string))
	}
	for _, text := range cases.Refused {
		f.Add(`{"a":1}`, text)
	}
	f.Fuzz(func(t *testing.T, payload, text string) {
		members, err := search.ParseMembers(text)
		if err != nil {
			return
		}
		form := members.String()
		again, err := search.ParseMembers(form)
		if err != nil && len(form) <= 1024 || err == nil && again.String() != form {
			t.Fatalf("%q has the form %q, which is %v, %v", text, form, again, err)
		}
		if canonical, err := jcs.Append(nil, []byte(payload), 128); err != nil || !json.Valid(canonical) {
			return // not a valid payload
		}
		want := true
		for rest := form; rest != ""; {
			var path []string
			var value any
			path, value, rest = cutObvious(t, rest)
			want = want && obviously(t, payload, path, value)
		}
		if got := hasMembers(t, payload, text); got != want {
			t.Fatalf("%q in %s: %v, want %v", text, payload, got, want)
		}
	})
}

// cutObvious reads the first part of a condition in its one form.
func cutObvious(t testing.TB, form string) (path []string, value any, rest string) {
	t.Helper()
	for {
		name, after := cutJSON(t, form)
		path = append(path, name.(string))
		if form = after[1:]; after[0] == '=' {
			value, rest = cutJSON(t, form)
			return path, value, strings.TrimPrefix(rest, " ")
		}
	}
}

func cutJSON(t testing.TB, text string) (value any, rest string) {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(text))
	if err := dec.Decode(&value); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return value, text[dec.InputOffset():]
}

func obviously(t testing.TB, payload string, path []string, value any) bool {
	t.Helper()
	var at any
	if err := json.NewDecoder(bytes.NewReader([]byte(payload))).Decode(&at); err != nil {
		t.Fatal(err)
	}
	for _, name := range path {
		switch v := at.(type) {
		case map[string]any:
			next, has := v[name]
			if !has {
				return false
			}
			at = next
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || strconv.Itoa(i) != name || i < 0 || i >= len(v) {
				return false
			}
			at = v[i]
		default:
			return false
		}
	}
	switch at.(type) {
	case map[string]any, []any:
		return false
	}
	return at == value
}
