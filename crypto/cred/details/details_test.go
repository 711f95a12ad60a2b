package details_test

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"attestd/crypto/cred/details"
	"attestd/crypto/jcs"
	"attestd/crypto/strictjson"
)

// cases are those that the checkers in Python and JavaScript read too.
type cases struct {
	Covers []struct {
		Details json.RawMessage
		Calls   []struct {
			Tool      string
			Arguments *string // as text; null where they are not known
			Covered   bool
		}
	}
	Refused []struct {
		Details string
		Pointer *string // null where the error has none
	}
	Narrower []struct {
		Parent, Child json.RawMessage
		Narrower      bool
	}
}

func readCases(t testing.TB) (c cases) {
	t.Helper()
	text, err := os.ReadFile("cases.json")
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func parse(t testing.TB, text []byte) details.Details {
	t.Helper()
	d, err := details.Parse(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return d
}

func TestCoversCalls(t *testing.T) {
	t.Parallel()
	for _, c := range readCases(t).Covers {
		d := parse(t, c.Details)
		for _, call := range c.Calls {
			var arguments []byte
			if call.Arguments != nil {
				arguments = []byte(*call.Arguments)
			}
			if got := d.Covers(call.Tool, arguments); got != call.Covered {
				t.Errorf("%s covers %q %s: %v", c.Details, call.Tool, arguments, got)
			}
		}
	}
}

func TestRefusesWhatItDoesNotUnderstand(t *testing.T) {
	t.Parallel()
	for _, c := range readCases(t).Refused {
		_, err := details.Parse([]byte(c.Details))
		var refused *strictjson.Error
		switch {
		case !errors.As(err, &refused):
			t.Errorf("%.200s: %v", c.Details, err)
		case c.Pointer != nil && refused.Pointer != *c.Pointer:
			t.Errorf("%.200s: at %q, want %q: %v", c.Details, refused.Pointer, *c.Pointer, err)
		}
	}
}

func TestNarrower(t *testing.T) {
	t.Parallel()
	for _, c := range readCases(t).Narrower {
		parent, child := parse(t, c.Parent), parse(t, c.Child)
		if got := details.Narrower(parent, child); got != c.Narrower {
			t.Errorf("%s, %s: %v", c.Parent, c.Child, got)
		}
		if !details.Narrower(parent, parent) || !details.Narrower(child, child) {
			t.Errorf("%s or %s is wider than itself", c.Parent, c.Child)
		}
	}
}

func TestNoDetailsLimitNothing(t *testing.T) {
	t.Parallel()
	var none details.Details
	some := parse(t, []byte(`[{"type":"tool_call","tools":["a"]}]`))
	if !none.Covers("anything", nil) || !none.IsZero() || some.IsZero() {
		t.Error("no details limit something")
	}
	if !details.Narrower(none, some) || details.Narrower(some, none) || !details.Narrower(none, none) {
		t.Error("what has no details is wider than what has some")
	}
}

func TestWithin(t *testing.T) {
	t.Parallel()
	of := func(text string) details.Details {
		if text == "" {
			return details.Details{}
		}
		return parse(t, []byte(`[{"type":"tool_call","tools":`+text+`}]`))
	}
	for _, c := range []struct {
		asked, one, other, want string
		ok                      bool
	}{
		{"", "", "", "", true},
		{`["a"]`, "", "", `["a"]`, true},
		{"", `["a"]`, "", `["a"]`, true},
		{"", "", `["a"]`, `["a"]`, true},
		{"", `["a","b"]`, `["a"]`, `["a"]`, true},
		{`["b"]`, `["a","b"]`, `["b"]`, `["b"]`, true},
		{`["a"]`, `["a","b"]`, `["b"]`, "", false},
		{`["c"]`, `["a","b"]`, "", "", false},
		{"", `["a","b"]`, `["b","c"]`, "", false}, // neither is narrower, and nothing is made up
	} {
		got, ok := details.Within(of(c.asked), of(c.one), of(c.other))
		if ok != c.ok || got.String() != of(c.want).String() {
			t.Errorf("%+v: %v, %v", c, got, ok)
		}
	}
}

// The texts of which random details and calls are made: few, so that they meet.
var (
	tools    = []string{"a", "b", "*"}
	pointers = []string{"/x", "/y", "/x/0", "/z/k"}
	scalars  = []string{"0", "1", "1.0", "2", "-1", "9007199254740992", `"1"`, `"/s/a"`, `"/s/"`, `"/s/../e"`, `"/s//a"`, "true", "false", "null"}
	prefixes = []string{`"/s/"`, `"/s/a"`, `"/"`}
	numbers  = []string{"0", "1", "2", "-1.5", "9007199254740992"}
	others   = []string{"9007199254740993", "1e400", "1e-400", `["/s/a"]`, "[1]", "{}", `{"k":1}`, `{"k":"/s/b"}`}
)

func pick(r *rand.Rand, list []string) string { return list[r.IntN(len(list))] }

func list(r *rand.Rand, most int, one func() string) string {
	text := "[" + one()
	for range r.IntN(most) {
		text += "," + one()
	}
	return text + "]"
}

func randomTest(r *rand.Rand) string {
	switch r.IntN(6) {
	case 0:
		return `"equals":` + pick(r, scalars)
	case 1:
		return `"in":` + list(r, 3, func() string { return pick(r, scalars) })
	case 2:
		return `"prefix":` + pick(r, prefixes)
	case 3:
		return `"max":` + pick(r, numbers)
	case 4:
		return `"min":` + pick(r, numbers)
	}
	return `"absent":true`
}

func randomDetails(r *rand.Rand) []byte {
	return []byte(list(r, 2, func() string {
		entry := `{"type":"tool_call","tools":` + list(r, 2, func() string { return `"` + pick(r, tools) + `"` })
		arguments := ""
		for _, pointer := range pointers[:r.IntN(len(pointers)+1)] {
			if r.IntN(2) == 0 {
				arguments += `,"` + pointer + `":{` + randomTest(r) + `}`
			}
		}
		if arguments != "" {
			entry += `,"arguments":{` + arguments[1:] + `}`
		}
		return entry + `}`
	}))
}

func randomArguments(r *rand.Rand) []byte {
	if r.IntN(20) == 0 {
		return nil
	}
	text := ""
	for _, name := range []string{"x", "y", "z"} {
		if r.IntN(3) > 0 {
			text += `,"` + name + `":` + pick(r, slices.Concat(scalars, others))
		}
	}
	if text == "" {
		return []byte("{}")
	}
	return []byte("{" + text[1:] + "}")
}

// Nothing widens: a call that narrower details cover is covered by the wider ones. The pairs of a
// run are random, and its seed is printed by a failure.
func TestNarrowerNeverWidens(t *testing.T) {
	t.Parallel()
	pairs := 100_000
	if testing.Short() {
		pairs = 5_000
	}
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	some := make([]details.Details, 3000)
	for i := range some {
		some[i] = parse(t, randomDetails(r))
	}
	narrower, covered := 0, 0
	for range pairs {
		parent, child := some[r.IntN(len(some))], some[r.IntN(len(some))]
		tool, arguments := pick(r, tools[:2]), randomArguments(r)
		if !details.Narrower(parent, child) {
			continue
		}
		narrower++
		for range 10 {
			if child.Covers(tool, arguments) {
				covered++
				if !parent.Covers(tool, arguments) {
					t.Fatalf("seed %d: %s is wider than %s: it covers %s %s", seed, child, parent, tool, arguments)
				}
			}
			tool, arguments = pick(r, tools[:2]), randomArguments(r)
		}
	}
	if narrower < pairs/100 || covered < pairs/100 {
		t.Errorf("of %d pairs only %d were narrower, and %d calls were covered", pairs, narrower, covered)
	}
}

// FuzzParse holds that what is read has one canonical form, which reads as the same.
func FuzzParse(f *testing.F) {
	c := readCases(f)
	for _, one := range c.Covers {
		f.Add([]byte(one.Details), []byte(`{"amount":1}`))
	}
	for _, one := range c.Refused {
		f.Add([]byte(one.Details), []byte(`{"x":1}`))
	}
	f.Fuzz(func(t *testing.T, text, arguments []byte) {
		d, err := details.Parse(text)
		if err != nil {
			if !errors.As(err, new(*strictjson.Error)) || !d.IsZero() {
				t.Fatalf("%v, %v", d, err)
			}
			return
		}
		again := parse(t, []byte(d.String()))
		canonical, err := jcs.Append(nil, text, 8)
		if err != nil || string(canonical) != d.String() || again.String() != d.String() {
			t.Fatalf("%s is read as %s", text, d)
		}
		if !details.Narrower(d, again) || !details.Narrower(again, d) {
			t.Fatalf("%s is not as wide as itself", d)
		}
		if d.Covers("Bash", arguments) != again.Covers("Bash", arguments) {
			t.Fatalf("%s decides in two ways about %s", d, arguments)
		}
	})
}

// FuzzCovers holds that arguments which are not strict JSON are covered by nothing that has
// arguments, and that no spelling of them makes a difference.
func FuzzCovers(f *testing.F) {
	for _, one := range readCases(f).Covers {
		for _, call := range one.Calls {
			if call.Arguments != nil {
				f.Add([]byte(one.Details), call.Tool, []byte(*call.Arguments))
			}
		}
	}
	f.Fuzz(func(t *testing.T, text []byte, tool string, arguments []byte) {
		d, err := details.Parse(text)
		if err != nil {
			return
		}
		covered := d.Covers(tool, arguments)
		if covered && d.Covers(tool, nil) {
			return
		}
		canonical, err := jcs.Append(nil, arguments, 160)
		switch {
		case err == nil && d.Covers(tool, canonical) != covered:
			t.Fatalf("%s decides in two ways about %s %s", d, tool, arguments)
		case covered && !json.Valid(arguments):
			t.Fatalf("%s covers %s %q", d, tool, arguments)
		}
	})
}
