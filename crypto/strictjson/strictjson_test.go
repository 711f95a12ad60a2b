package strictjson_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"attestd/crypto/strictjson"
)

const maxDepth = 3

// members reads an object with EachMember, each member as name=value.
func members(src string) (list []string, err error) {
	err = strictjson.EachMember([]byte(src), maxDepth, func(name, value []byte) {
		list = append(list, string(name)+"="+string(value))
	})
	return list, err
}

// Members come in their order, names unquoted and values as they are spelt.
func TestEachMember(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		in   string
		want []string
	}{
		{`{}`, nil},
		{" {\t} \r\n", nil},
		{`{"a":1}`, []string{"a=1"}},
		{` { "b" : 1.50e0 , "a" : [ 1, {"x" :null} ] } `, []string{"b=1.50e0", `a=[ 1, {"x" :null} ]`}},
		{`{"\u0061\n":"\u0062","":-0}`, []string{"a\n=\"\\u0062\"", "=-0"}},
		{`{"a":{"b":1},"b":{"b":2}}`, []string{`a={"b":1}`, `b={"b":2}`}},
		{`{"😀":"\ud83d\ude00"}`, []string{`😀="\ud83d\ude00"`}},
		{`{"a":[[[]]]}`, []string{"a=[[[]]]"}},
		{`{"a":[],"b":[],"c":{},"d":[[]],"e":"[[[[[[","f":"\"[[[[[["}`, []string{"a=[]", "b=[]", "c={}", "d=[[]]", `e="[[[[[["`, `f="\"[[[[[["`}},
	} {
		if got, err := members(test.in); err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%s: got %q, %v; want %q", test.in, got, err, test.want)
		}
	}
}

// A value aliases the source, remains valid after parsing, and has no capacity beyond its end.
func TestValuesAliasTheSource(t *testing.T) {
	t.Parallel()
	src := []byte(` {"a" : "one", "b":{"c":[ ]} } `)
	var parts [][]byte
	err := strictjson.EachMember(src, maxDepth, func(name, value []byte) { parts = append(parts, name, value) })
	if err != nil || string(bytes.Join(parts, []byte("|"))) != `a|"one"|b|{"c":[ ]}` {
		t.Fatalf("%q, %v", parts, err)
	}
	for i, part := range parts {
		if i%2 == 1 {
			_ = append(part, "spoilt"...)
		}
		part[0] = '!'
	}
	if string(src) != ` {"!" : !one", "!":!"c":[ ]} } ` {
		t.Errorf("%s", src)
	}
}

// Each error has a position and a reason.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ in, want string }{
		{"", "JSON: there is no value"},
		{" \n", "JSON: there is no value"},
		{"x", "JSON: invalid character 'x' at start of value (byte 0)"},
		{"\ufeff{}", `JSON: invalid character '\ufeff' at start of value (byte 0)`},
		{"{", "JSON: unexpected end (byte 1)"},
		{"[1", "JSON: unexpected end (byte 2)"},
		{`{"a":{"b":tr`, `JSON at "/a/b": unexpected end (byte 12)`},
		{`{"a":1} {}`, "JSON: data after the end of the value"},
		{`{"a":1}x`, "JSON: data after the end of the value"},
		{"{}\x00", "JSON: data after the end of the value"},
		{`{"a":1,}`, "JSON: invalid character ',' at start of value (byte 6)"},
		{`{"a":{"b":1,}}`, `JSON at "/a": invalid character '}' at start of string (expecting '"') (byte 12)`},
		{`{"a":01}`, "JSON: invalid character '1' after object value (expecting ',' or '}') (byte 6)"},
		{`{"a":[NaN]}`, `JSON at "/a/0": invalid character 'N' at start of value (byte 6)`},
		{`{1:2}`, "JSON: object member name must be a string (byte 1)"},
		{"{\"a\":\"x\ny\"}", `JSON at "/a": invalid character '\n' in string (expecting non-control character) (byte 7)`},
		{`{"a":1,"\u0061":2}`, `JSON at "/a": duplicate object member name (byte 7)`},
		{`{"x":[0,{"~/":1,"~/":2}]}`, `JSON at "/x/1/~0~1": duplicate object member name (byte 16)`},
		{"{\"a\":[\"\xff\"]}", `JSON at "/a/0": invalid UTF-8 (byte 7)`},
		{"{\"\xc3\":1}", "JSON: invalid UTF-8 (byte 2)"},
		{"{\"a\":\"\xed\xa0\x80\"}", `JSON at "/a": invalid UTF-8 (byte 6)`},
		{`{"a":"\udc00"}`, "JSON at \"/a\": invalid surrogate pair `\\udc00\"}` in string (byte 6)"},
		{`{"a":{"\ud800x":1}}`, "JSON at \"/a\": invalid surrogate pair `\\ud800x\":1}}` in string (byte 7)"},
		{`{"a":[[[{}]]]}`, `JSON at "/a/0/0/0": nested deeper than 3`},
		{`{"a":0,"a":[[[{}]]]}`, `JSON at "/a": duplicate object member name (byte 7)`},
		{`[[[[[`, `JSON at "/0/0/0/0": nested deeper than 3`},
		{`"[" [[[[`, "JSON: data after the end of the value"},
		{`{"a":1}]}}[[[[[[`, "JSON: data after the end of the value"},
		{`{"` + strings.Repeat("é", 200) + `":x}`, `JSON at "/` + strings.Repeat("é", 127) + `…": invalid character 'x' at start of value (byte 404)`},
	} {
		_, err := members(test.in)
		var refused *strictjson.Error
		if !errors.As(err, &refused) || err.Error() != test.want {
			t.Errorf("%q:\ngot  %v\nwant %s", test.in, err, test.want)
		}
	}
}

// A sound value of another kind is distinguished from one that is not sound.
func TestErrKind(t *testing.T) {
	t.Parallel()
	for _, in := range []string{`[]`, `[{"a":1}]`, `"{}"`, `-1`, `null`, ` true `} {
		if _, err := members(in); !errors.Is(err, strictjson.ErrKind) {
			t.Errorf("%s: %v", in, err)
		}
	}
	if err := strictjson.EachElement([]byte(`{}`), maxDepth, nil); !errors.Is(err, strictjson.ErrKind) {
		t.Errorf("an object for an array: %v", err)
	}
}

func TestEachElement(t *testing.T) {
	t.Parallel()
	var got []string
	err := strictjson.EachElement([]byte(` [ 1.0 ,"a", [ ] ] `), 1, func(value []byte) { got = append(got, string(value)) })
	if err != nil || !slices.Equal(got, []string{"1.0", `"a"`, "[ ]"}) {
		t.Errorf("%q, %v", got, err)
	}
	for in, want := range map[string]string{
		`[1,]`:           "JSON: invalid character ',' at start of value (byte 2)",
		`[1] 2`:          "JSON: data after the end of the value",
		`[0,[1,[]]]`:     `JSON at "/1/1": nested deeper than 1`,
		`[{"a":1,"a":2}`: `JSON at "/0/a": duplicate object member name (byte 8)`,
	} {
		if err := strictjson.EachElement([]byte(in), 1, func([]byte) {}); err == nil || err.Error() != want {
			t.Errorf("%s: %v", in, err)
		}
	}
}

// A list of strings that is longer than any that is taken is none, and is not built.
func TestStringsAreBounded(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]bool{10_000: true, 10_001: false, 500_000: false} {
		list, ok := strictjson.AsStrings([]byte("[" + strings.TrimSuffix(strings.Repeat(`"",`, n), ",") + "]"))
		if ok != want || len(list) > 10_000 {
			t.Errorf("%d strings: %v, a list of %d", n, ok, len(list))
		}
	}
}

func TestScalars(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ in, text, list, integer string }{
		{"", "-", "-", "-"},
		{"null", "-", "-", "-"},
		{"true", "-", "-", "-"},
		{"{}", "-", "-", "-"},
		{`""`, "=", "-", "-"},
		{`"\u0061\"\ud83d\ude00"`, `=a"😀`, "-", "-"},
		{"[]", "-", "=[]", "-"},
		{`["a", "\n[["]`, "-", `=["a" "\n[["]`, "-"},
		{`["a",1]`, "-", "-", "-"},
		{`["a",["b"]]`, "-", "-", "-"},
		{"0", "-", "-", "=0"},
		{"-1", "-", "-", "-"},
		{"1.0", "-", "-", "-"},
		{"1e2", "-", "-", "-"},
		{"9223372036854775807", "-", "-", "=9223372036854775807"},
		{"9223372036854775808", "-", "-", "-"},
	} {
		in := []byte(test.in)
		text := func(value any, ok bool) string {
			if !ok {
				return "-"
			}
			return fmt.Sprint("=", value)
		}
		s, isString := strictjson.AsString(in)
		list, isList := strictjson.AsStrings(in)
		n, isInteger := strictjson.AsInteger(in)
		got := []string{text(s, isString), text(fmt.Sprintf("%q", list), isList), text(n, isInteger)}
		if want := []string{test.text, test.list, test.integer}; !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", test.in, got, want)
		}
	}
}

// A Reader descends into containers and reports its position.
func TestReader(t *testing.T) {
	t.Parallel()
	r := strictjson.NewReader()
	r.Open([]byte(`{"a":[1,true]}`))
	defer r.Close()
	var kinds []byte
	for _, step := range []func() error{
		r.Bracket,
		func() error { _, err := r.Value(); return err },
		r.Bracket,
		func() error { _, err := r.Value(); return err },
	} {
		kinds = append(kinds, r.Kind())
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	if string(kinds) != `{"[0` || r.Kind() != 't' {
		t.Errorf("kinds %s, then %c", kinds, r.Kind())
	}
	fault := r.Fault("not wanted")
	if *fault != (strictjson.Error{Pointer: "/a/0", Reason: "not wanted"}) || fault.Within("/x").Pointer != "/x/a/0" {
		t.Errorf("%+v", fault)
	}
}

// Readers are used again, so what one leaves behind, even after an error, must not show in another.
func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	inputs := []struct{ in, want string }{
		{`{"a":1,"b":[2]}`, "[a=1 b=[2]]"},
		{`{"a":1,"a":2}`, "[a=1]"},
		{`{"b":{"c":`, "[]"},
		{`{"c":{}} x`, "[c={}]"},
	}
	var group sync.WaitGroup
	for g := range 8 {
		group.Go(func() {
			for n := range 500 {
				test := inputs[(g+n)%len(inputs)]
				if got, _ := members(test.in); fmt.Sprint(got) != test.want {
					t.Errorf("%s: got %s", test.in, got)
				}
			}
		})
	}
	group.Wait()
}
