// Package details reads the authorization details of RFC 9396 that attestd gives: rights to call
// tools, on their arguments. A scope says which tools; the details say with which arguments too.
//
//	[{"type": "tool_call", "tools": ["bank/transfer", "Bash", "*"],
//	  "arguments": {"/amount": {"max": 100}, "/path": {"prefix": "/srv/"}}}]
//
// An entry covers a call if it names the tool, or *, and each of its arguments holds. An argument
// is a JSON Pointer (RFC 6901) into the arguments of the call, with one or more operators, all of
// which must hold:
//
//	equals   the value is this one: a string, a number, true, false or null
//	in       it is one of these
//	prefix   it is a string that begins so, and a clean path (below)
//	max min  it is a number, at most or at least this one
//	absent   true, and alone: there is no value
//
// A pointer to nothing fails except for absent. Arguments with a member twice, or that are not
// strict JSON, are covered by no entry that has arguments. Numbers are compared by their decimal
// value and never rounded: 1.0 is 1, and 9007199254740993 is more than 9007199254740992.
//
// A path is clean if it is read in one way alone: no segment is empty except the first and the
// last, none consists of dots and spaces, and there is no backslash, no control character and no
// percent-encoding of these, of a dot, a slash or a percent sign. Before the first segment may be a
// scheme and ://. So /srv/../etc, /srv/./a and /srv//a begin with nothing.
//
// Details are stored and signed in their canonical form (RFC 8785). What narrows them is defined
// here and not by the RFC: see [Narrower].
package details

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"attestd/crypto/jcs"
	"attestd/crypto/strictjson"
)

const (
	// Type is the one type of entry that there is.
	Type = "tool_call"
	// MaxSize is how many bytes details may have, in any spelling. It leaves room for the rest of a
	// token, and bounds the work of all that is done with them.
	MaxSize = 8 << 10
	// Code is the error of RFC 9396 §5, which all doors answer.
	Code = "invalid_authorization_details"

	maxDepth    = 8   // of details, which need 4
	maxCallDeep = 160 // of the arguments of a call
	maxToolName = 128 // as in a scope
	anyTool     = "*"
)

// Details are the entries that were read. The zero value is that there are none, which limits
// nothing.
type Details struct {
	text    string // canonical
	entries []entry
}

// entry is one object of the details.
type entry struct {
	tools     []string
	arguments map[string][]test // by pointer; nil for any
}

// test is an operator with what it compares with.
type test struct {
	operator string
	values   []value // one, except of in
}

// IsZero reports that there are no details.
func (d Details) IsZero() bool { return d.text == "" }

// String returns the canonical form, or "".
func (d Details) String() string { return d.text }

// MarshalJSON returns the canonical form, or null.
func (d Details) MarshalJSON() ([]byte, error) {
	if d.IsZero() {
		return []byte("null"), nil
	}
	return []byte(d.text), nil
}

// UnmarshalJSON reads what MarshalJSON writes.
func (d *Details) UnmarshalJSON(text []byte) (err error) {
	*d = Details{}
	if string(text) != "null" {
		*d, err = Parse(text)
	}
	return err
}

// Parse reads details strictly: an unknown type, member or operator is an error, since a right with
// a limit that is not understood must not count as one without. The error is a *strictjson.Error
// with the place.
func Parse(text []byte) (Details, error) {
	if len(text) > MaxSize {
		return Details{}, wrong("", fmt.Sprintf("has more than %d bytes", MaxSize))
	}
	// a number that RFC 8785 cannot carry is refused here, like everything that is ambiguous
	canonical, err := jcs.Append(nil, text, maxDepth)
	if err != nil {
		return Details{}, err
	}
	d := Details{text: string(canonical)}
	var refused error
	err = strictjson.EachElement(canonical, maxDepth, func(element []byte) {
		if refused == nil {
			var e entry
			e, refused = parseEntry(element, fmt.Sprintf("/%d", len(d.entries)))
			d.entries = append(d.entries, e)
		}
	})
	switch {
	case err != nil || len(d.entries) == 0:
		return Details{}, wrong("", "must be an array of at least one object")
	case refused != nil:
		return Details{}, refused
	}
	return d, nil
}

func wrong(pointer, reason string) error { return (&strictjson.Error{Reason: reason}).Within(pointer) }

// members calls yield for each member of an object until one is refused.
func members(object []byte, at string, yield func(name string, value []byte) error) (refused error) {
	err := strictjson.EachMember(object, maxDepth, func(name, value []byte) {
		if refused == nil {
			refused = yield(string(name), value)
		}
	})
	if err != nil {
		return wrong(at, "must be an object")
	}
	return refused
}

func parseEntry(object []byte, at string) (e entry, err error) {
	kind := ""
	err = members(object, at, func(name string, value []byte) (err error) {
		switch name {
		case "type":
			kind, _ = strictjson.AsString(value)
		case "tools":
			e.tools, err = parseTools(value, at+"/tools")
		case "arguments":
			e.arguments, err = parseArguments(value, at+"/arguments")
		default:
			err = wrong(at+"/"+escape(name), "is a member that is not known")
		}
		return err
	})
	switch {
	case err != nil:
	case kind != Type:
		err = wrong(at+"/type", "must be "+Type)
	case e.tools == nil:
		err = wrong(at+"/tools", "is required")
	}
	return e, err
}

func parseTools(list []byte, at string) ([]string, error) {
	tools, ok := strictjson.AsStrings(list)
	if !ok || len(tools) == 0 || slices.ContainsFunc(tools, func(tool string) bool { return tool != anyTool && !isToolName(tool) }) {
		return nil, wrong(at, "must be an array of names of 1 to 128 visible ASCII characters without *, or *")
	}
	return tools, nil
}

func isToolName(name string) bool {
	outside := func(c rune) bool { return c < '!' || c > '~' || c == '*' }
	return name != "" && len(name) <= maxToolName && strings.IndexFunc(name, outside) < 0
}

func parseArguments(object []byte, at string) (map[string][]test, error) {
	arguments := map[string][]test{}
	err := members(object, at, func(pointer string, value []byte) (err error) {
		at := at + "/" + escape(pointer)
		if !isPointer(pointer) {
			return wrong(at, "must be a JSON Pointer, such as /path")
		}
		arguments[pointer], err = parseTests(value, at)
		return err
	})
	if err == nil && len(arguments) == 0 {
		err = wrong(at, "is empty: leave it out")
	}
	return arguments, err
}

var pointerForm = regexp.MustCompile(`^(/([^~/]|~[01])*)*$`)

func isPointer(text string) bool { return pointerForm.MatchString(text) }

// escape makes a reference token of a JSON Pointer of a name.
func escape(name string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(name) }

func unescape(token string) string {
	return strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
}

func parseTests(object []byte, at string) (tests []test, err error) {
	err = members(object, at, func(operator string, raw []byte) error {
		t, err := parseTest(operator, raw, at+"/"+escape(operator))
		tests = append(tests, t)
		return err
	})
	switch {
	case err != nil:
	case len(tests) == 0:
		err = wrong(at, "needs an operator")
	case len(tests) > 1 && slices.ContainsFunc(tests, func(t test) bool { return t.operator == "absent" }):
		err = wrong(at, "has another operator beside absent")
	}
	return tests, err
}

func parseTest(operator string, raw []byte, at string) (test, error) {
	t := test{operator, []value{valueOf(raw)}}
	one := t.values[0]
	reason := ""
	switch operator {
	case "equals":
		if !one.isScalar() {
			reason = "must be a string, a number, true, false or null"
		}
	case "in":
		t.values = nil
		err := strictjson.EachElement(raw, maxDepth, func(element []byte) { t.values = append(t.values, valueOf(element)) })
		if err != nil || len(t.values) == 0 || slices.ContainsFunc(t.values, func(v value) bool { return !v.isScalar() }) {
			reason = "must be an array of strings, numbers, true, false or null"
		}
	case "prefix":
		if one.kind != '"' || one.text == "" || !isClean(one.text) || lacksPath(one.text) {
			reason = "must be the beginning of a clean path, of a URL at least up to the slash after its host"
		}
	case "max", "min":
		if one.kind != '0' {
			reason = "must be a number"
		}
	case "absent":
		if one.kind != 't' {
			reason = "must be true"
		}
	default:
		reason = "is an operator that is not known"
	}
	if reason != "" {
		return t, wrong(at, reason)
	}
	return t, nil
}

// Covers reports whether an entry covers a call of a tool. arguments are its arguments as JSON, nil
// where they are not known: then only entries without arguments cover it. Without details every
// call is covered: its scope decides alone.
func (d Details) Covers(tool string, arguments []byte) bool {
	if d.IsZero() {
		return true
	}
	var asked []entry
	for _, e := range d.entries {
		switch {
		case tool == "" || !slices.Contains(e.tools, tool) && !slices.Contains(e.tools, anyTool):
		case e.arguments == nil:
			return true
		case arguments != nil:
			asked = append(asked, e)
		}
	}
	if len(asked) == 0 {
		return false
	}
	values, ok := find(arguments, asked)
	return ok && slices.ContainsFunc(asked, func(e entry) bool { return e.holds(values) })
}

func (e entry) holds(values map[string]value) bool {
	for pointer, tests := range e.arguments {
		v, there := values[pointer]
		for _, t := range tests {
			if !t.holds(v, there) {
				return false
			}
		}
	}
	return true
}

func (t test) holds(v value, there bool) bool {
	if t.operator == "absent" || !there {
		return t.operator == "absent" && !there
	}
	want := t.values[0]
	switch t.operator {
	case "equals", "in":
		return slices.Contains(t.values, v)
	case "prefix":
		return v.kind == '"' && strings.HasPrefix(v.text, want.text) && isClean(v.text)
	case "max":
		return v.kind == '0' && v.number.compare(want.number) <= 0
	case "min":
		return v.kind == '0' && v.number.compare(want.number) >= 0
	}
	return false
}

var (
	scheme  = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*://`)
	encoded = regexp.MustCompile(`(?i)%(2e|2f|5c|25|7f|[01][0-9a-f])`)
)

// isClean reports whether a path is read in one way alone; see the package.
func isClean(path string) bool {
	path = path[len(scheme.FindString(path)):]
	isOdd := func(c rune) bool { return c == '\\' || c < ' ' || 0x7f <= c && c <= 0x9f }
	if strings.ContainsFunc(path, isOdd) || encoded.MatchString(path) {
		return false
	}
	segments := strings.Split(path, "/")
	for i, segment := range segments {
		isInner := 0 < i && i < len(segments)-1
		if isInner && segment == "" || segment != "" && strings.Trim(segment, ". ") == "" {
			return false
		}
	}
	return true
}

// lacksPath reports whether a prefix is that of a URL whose host could go on.
func lacksPath(prefix string) bool {
	begins := scheme.FindString(prefix)
	return begins != "" && !strings.Contains(prefix[len(begins):], "/")
}

// Narrower reports whether every call that child covers is covered by parent too. It compares each
// entry of child with each of parent, and says false where it is not sure: two entries of parent
// that cover an entry of child only together do not count.
func Narrower(parent, child Details) bool {
	if parent.IsZero() || child.IsZero() {
		return parent.IsZero()
	}
	for _, c := range child.entries {
		if !slices.ContainsFunc(parent.entries, func(p entry) bool { return p.includes(c) }) {
			return false
		}
	}
	return true
}

// Within returns the details of a right that is made of others: those that are asked for or, where
// there are none, of those of the others the narrowest. ok is false unless they are narrower than
// each of the others.
func Within(asked Details, others ...Details) (d Details, ok bool) {
	candidates := []Details{asked}
	if asked.IsZero() {
		candidates = slices.Concat(others, candidates)
	}
	for _, d := range candidates {
		if !slices.ContainsFunc(others, func(other Details) bool { return !Narrower(other, d) }) {
			return d, true
		}
	}
	return Details{}, false
}

// includes reports whether each call that c covers is covered by e.
func (e entry) includes(c entry) bool {
	for _, tool := range c.tools {
		if !slices.Contains(e.tools, tool) && !slices.Contains(e.tools, anyTool) {
			return false
		}
	}
	for pointer, tests := range e.arguments {
		for _, t := range tests {
			if !slices.ContainsFunc(c.arguments[pointer], t.follows) {
				return false
			}
		}
	}
	return true
}

// follows reports whether t holds of each value of which from holds.
func (t test) follows(from test) bool {
	switch {
	case from.operator == "equals" || from.operator == "in":
		return !slices.ContainsFunc(from.values, func(v value) bool { return !t.holds(v, true) })
	case from.operator != t.operator:
		return false
	}
	has, want := from.values[0], t.values[0]
	switch t.operator {
	case "absent":
		return true
	case "prefix":
		return strings.HasPrefix(has.text, want.text)
	case "max":
		return has.number.compare(want.number) <= 0
	case "min":
		return has.number.compare(want.number) >= 0
	}
	return false
}
