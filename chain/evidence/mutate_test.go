package evidence_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"attestd/chain/evidence"
	"attestd/internal/must"
	"attestd/internal/testenv"
)

// mutation is a change of a sample and the code that every checker must come to, whatever is
// trusted. Others read the list too, so it is data: At is a JSON Pointer to what is changed, or
// none for the text of the entire file, and one of the others says how.
type mutation struct {
	Name   string          `json:"name"`
	Of     string          `json:"of"` // sample
	At     string          `json:"at"`
	Set    json.RawMessage `json:"set"`    // the value, or a new member
	Add    json.RawMessage `json:"add"`    // an element before At
	Remove bool            `json:"remove"` // the member or element
	Again  bool            `json:"again"`  // the element is duplicated
	// in the text of the file, or the string At: its first occurrence
	Find    string        `json:"find"`
	Replace string        `json:"replace"`
	Code    evidence.Code `json:"code"`
}

// apply returns the changed text.
func (m *mutation) apply(t testing.TB, sample []byte) []byte {
	t.Helper()
	if m.At == "" {
		return []byte(replace(t, string(sample), m.Find, m.Replace))
	}
	var root any
	decoder := json.NewDecoder(bytes.NewReader(sample))
	decoder.UseNumber()
	must.OK(t, decoder.Decode(&root))
	read := func(raw json.RawMessage) (value any) {
		must.OK(t, json.Unmarshal(raw, &value))
		return value
	}
	var change func(value any, path []string) any
	change = func(value any, path []string) any {
		if len(path) == 0 {
			if m.Set != nil {
				return read(m.Set)
			}
			return replace(t, value.(string), m.Find, m.Replace)
		}
		name, last := path[0], len(path) == 1
		if list, ok := value.([]any); ok {
			i, err := strconv.Atoi(name)
			must.OK(t, err)
			switch {
			case last && m.Remove:
				return slices.Delete(list, i, i+1)
			case last && m.Again:
				return slices.Insert(list, i, list[i])
			case last && m.Add != nil:
				return slices.Insert(list, i, read(m.Add))
			}
			list[i] = change(list[i], path[1:])
			return list
		}
		members := value.(map[string]any)
		if last && m.Remove {
			delete(members, name)
		} else {
			members[name] = change(members[name], path[1:])
		}
		return members
	}
	text, err := json.Marshal(change(root, strings.Split(m.At, "/")[1:]))
	must.OK(t, err)
	return text
}

func replace(t testing.TB, s, find, by string) string {
	t.Helper()
	if !strings.Contains(s, find) || find == "" {
		t.Errorf("%q is not in %.100q", find, s)
	}
	return strings.Replace(s, find, by, 1)
}

func trusts(t testing.TB) map[string]evidence.Trust {
	return map[string]evidence.Trust{
		"nothing": {}, "a key": {Fingerprint: fingerprint(0)}, "a policy": {Policy: policy(t, "none")},
	}
}

// Each of the mutations in testdata fails with its code, with a key, with a policy and
// with nothing.
func TestMutations(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/mutations.json")
	must.OK(t, err)
	var list []mutation
	must.OK(t, json.Unmarshal(text, &list))
	names := make(map[string]bool)
	for _, m := range list {
		sample, err := os.ReadFile("testdata/" + m.Of + ".json")
		must.OK(t, err)
		changed := m.apply(t, sample)
		if names[m.Name] || bytes.Equal(changed, sample) {
			t.Errorf("%s: is listed twice, or changes nothing", m.Name)
		}
		names[m.Name] = true
		for name, trust := range trusts(t) {
			if v := evidence.Check(changed, trust); v.Outcome != evidence.Fails || v.Code != m.Code || v.Reason == "" {
				t.Errorf("%s, trusting %s: %+v, want %s", m.Name, name, v, m.Code)
			}
		}
	}
	if len(list) < 60 {
		t.Errorf("only %d mutations", len(list))
	}
}

// Every value of the samples is changed in every way that its type allows, at every depth. Only
// these pass: an entry that is left out, which shows that omission is not proven. Without -night
// the first change of each class is tried, and one in four of the rest.
func TestEveryField(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]*evidence.File{
		"whole": complete(t), "small": small(t), "control": control(t), "signed": signed(t), "admitted": admitted(t),
		"decided": refused(t),
	} {
		var root any
		decoder := json.NewDecoder(bytes.NewReader(f.JSON()))
		decoder.UseNumber()
		must.OK(t, decoder.Decode(&root))
		checked, count, classes := 0, 0, make(map[string]bool)
		check := func(path string) {
			// of signed also that the first key was revoked since, and the authority as a whole
			// and of decided the change of policies that came later
			omitted := name == "signed" && (path == "/agentKey/records/3 left out" || path == "/authority left out") ||
				name == "decided" && path == "/policies/records/3 left out" ||
				strings.HasPrefix(path, "/authority/records") && strings.HasSuffix(path, " left out") && strings.Count(path, "/") == 3 ||
				strings.HasPrefix(path, "/passport/records") && strings.HasSuffix(path, " left out") && strings.Count(path, "/") == 3
			class := class(path)
			if count++; !testenv.Night() && !omitted && classes[class] && count%4 != 0 {
				return
			}
			checked++
			classes[class] = true
			text, err := json.Marshal(root)
			must.OK(t, err)
			// nor is it trusted, then, by any key or policy
			if v := evidence.Check(text, evidence.Trust{}); (v.Outcome != evidence.Fails) != omitted {
				t.Errorf("%s%s: %+v", name, path, v)
			}
		}
		mutate(root, "", func(v any) { root = v }, check)
		t.Logf("%s: %d of %d mutations, of %d classes", name, checked, count, len(classes))
	}
}

// class is what changes of one kind have in common: the path without its indexes, and the way.
func class(path string) string {
	path, how, _ := strings.Cut(path, " ")
	if strings.HasPrefix(how, `"`) {
		how = "another text"
	}
	return indexes.ReplaceAllString(path+" "+how, "#")
}

var indexes = regexp.MustCompile(`\d+`)

// mutate changes value, which set puts in its place, and everything inside it, one thing at a time,
// and calls check after each.
func mutate(value any, path string, set func(any), check func(path string)) {
	try := func(changed any, how string) {
		set(changed)
		check(path + " " + how)
		set(value)
	}
	switch v := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			member := v[name]
			delete(v, name)
			check(path + "/" + name + " left out")
			v[name] = member
			mutate(member, path+"/"+name, func(changed any) { v[name] = changed }, check)
		}
		v["more"] = true
		check(path + " with one more")
		delete(v, "more")
		try([]any{v}, "in an array")
	case []any:
		for i := range v {
			without := slices.Delete(slices.Clone(v), i, i+1)
			set(without)
			check(fmt.Sprintf("%s/%d left out", path, i))
			set(value)
			try(slices.Insert(slices.Clone(v), i, v[i]), fmt.Sprintf("%d twice", i))
			if i > 0 {
				swapped := slices.Clone(v)
				swapped[i-1], swapped[i] = swapped[i], swapped[i-1]
				try(swapped, fmt.Sprintf("%d and the one before swapped", i))
			}
			mutate(v[i], fmt.Sprintf("%s/%d", path, i), func(changed any) { v[i] = changed }, check)
		}
		try(append(slices.Clone(v), "more"), "with one more")
		try(nil, "null")
	case string:
		for _, changed := range changes(v) {
			try(changed, fmt.Sprintf("%.40q", changed))
		}
		try(nil, "null")
		try(json.Number("1"), "a number")
	case json.Number:
		for _, changed := range []json.Number{"0.5", "-1", "77", "9007199254740992"} {
			try(changed, "as "+string(changed))
		}
		try(string(v), "a string")
	case bool:
		try(!v, "negated")
	case nil:
		try("", "a string")
	}
}

// sampled says whether a byte of a line is changed: every one with -night; with -long each at which
// a word begins or ends, and one in seven inside words; otherwise one in 29.
func sampled(line string, at int) bool {
	within := func(i int) bool {
		return i >= 0 && i < len(line) && (line[i] == '-' || line[i] == '_' || '0' <= line[i] && line[i] <= '9' || 'a' <= line[i]|0x20 && line[i]|0x20 <= 'z')
	}
	if !testenv.Long() {
		return at%29 == 0
	}
	return testenv.Night() || at%7 == 0 || !within(at-1) || !within(at) || !within(at+1)
}

// changes are other texts, a byte changed in every line at its start, in its middle and at its end.
func changes(s string) []string {
	list := []string{s + "x", s + "\n", " " + s}
	if s != "" {
		list = append(list, "", s[:len(s)-1], s[1:])
	}
	at := 0
	for _, line := range strings.SplitAfter(s, "\n") {
		for _, i := range []int{0, len(line) / 2, len(line) - 2, len(line) - 1} {
			if i < 0 || i >= len(line) || line[i] >= 0x80 {
				continue
			}
			changed := []byte(s)
			if changed[at+i] ^= 1; changed[at+i] == '"' || changed[at+i] < ' ' {
				changed[at+i] = 'z'
			}
			list = append(list, string(changed))
		}
		at += len(line)
		if line != s && line != "" {
			list = append(list, s[:at-len(line)]+s[at:], s[:at]+line+s[at:])
		}
	}
	return slices.DeleteFunc(list, func(changed string) bool { return changed == s })
}

// FuzzCheck feeds whatever to the parser: it never panics, and takes no record that the keys of the
// samples have not signed.
func FuzzCheck(f *testing.F) {
	genuine := make(map[string]bool)
	for _, sample := range []*evidence.File{complete(f), small(f), control(f), signed(f), admitted(f)} {
		f.Add(sample.JSON())
		genuine[sample.Record.Hash.String()] = true
	}
	f.Add([]byte(`{"format":"attestd-evidence/v1"}`))
	pinned, taken := evidence.Trust{Fingerprint: fingerprint(0)}, evidence.Trust{Policy: policy(f, "one")}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, trust := range []evidence.Trust{{}, pinned, taken} {
			v := evidence.Check(text, trust)
			if v.Outcome == evidence.Holds && trust == (evidence.Trust{}) || (v.Outcome == evidence.Fails) != (v.Code != "") {
				t.Fatalf("%q: %+v", text, v)
			}
			if v.Outcome != evidence.Holds {
				continue
			}
			var file struct{ Record struct{ Hash string } }
			must.OK(t, json.Unmarshal(text, &file))
			if !genuine[file.Record.Hash] {
				t.Fatalf("%q: %+v", text, v)
			}
		}
	})
}
