package jcs_test

import (
	"bytes"
	"errors"
	"math"
	"math/big"
	"strings"
	"sync"
	"testing"

	"attestd/crypto/jcs"
	"attestd/crypto/strictjson"
)

func TestAppend(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, in, want string }{
		{"literals", " [ null , true ,\tfalse\r\n] ", `[null,true,false]`},
		{"empty containers", `{"b":{ },"a":[ ]}`, `{"a":[],"b":{}}`},
		{"keys by code unit, not by number", `{"10":1,"9":2,"":3,"A":4,"a":5}`, `{"":3,"10":1,"9":2,"A":4,"a":5}`},
		{"a key before those that it begins", `{"ab":1,"a":2,"abc":3}`, `{"a":2,"ab":1,"abc":3}`},
		{"keys that mean something elsewhere", `{"toString":1,"__proto__":2,"constructor":3}`, `{"__proto__":2,"constructor":3,"toString":1}`},
		{"surrogates before U+E000 to U+FFFF", `{"\uffff":1,"\ue000":2,"😀":3,"\ud7ff":4}`, "{\"\ud7ff\":4,\"😀\":3,\"\ue000\":2,\"\uffff\":1}"},
		{"keys by what escapes mean", `{"\u0062":1,"a":2,"\"":3,"!":4,"\n":5}`, `{"\n":5,"!":4,"\"":3,"a":2,"b":1}`},
		{"order at every level", `{"b":[{"z":{"y":1,"x":2},"a":3}],"a":4}`, `{"a":4,"b":[{"a":3,"z":{"x":2,"y":1}}]}`},
		{"escapes that JSON demands", `"\u0000\u001f\u0008\t\n\f\r\"\\"`, `"\u0000\u001f\b\t\n\f\r\"\\"`},
		{"escapes that it does not", `"\/\u0041\u007f\u00e9\u2028\u2029<>&"`, "\"/A\u007fé\u2028\u2029<>&\""},
		{"an escaped surrogate pair", `"\ud83d\ude00"`, `"😀"`},
		{"U+FFFD as such", "\"\\ufffd\ufffd\"", "\"\ufffd\ufffd\""},
		{"integers", `[0,-1,123456789012345,-123456789012345,9007199254740992]`, `[0,-1,123456789012345,-123456789012345,9007199254740992]`},
		{"zero, however spelt", `[-0,0.0,-0e5,0E999999999999999999999,-0.000e-1]`, `[0,0,0,0,0]`},
		{"respelt numbers", `[1.0,1e2,4.50,0.1,1E-7,1e21,1e20,100e-2,0.000001,1.5e+300]`, `[1,100,4.5,0.1,1e-7,1e+21,100000000000000000000,1,0.000001,1.5e+300]`},
		{"a long way to write 1", "0." + strings.Repeat("0", 20000) + "1e20001", "1"},
		{"a longer one, which misleads ParseFloat", "0." + strings.Repeat("0", 200000) + "1e200001", "1"},
		{"and back", "-25" + strings.Repeat("0", 200000) + "e-200001", "-2.5"},
		{"the ends of the range", `[5e-324,1.7976931348623157e308]`, `[5e-324,1.7976931348623157e+308]`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := jcs.Append([]byte("before "), []byte(test.in), maxDepth)
			if want := "before " + test.want; err != nil || string(got) != want {
				t.Errorf("got  %s, %v\nwant %s", got, err, want)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	lossy := func(lexeme string) string {
		return "number " + lexeme + " does not survive as an IEEE 754 double; send it as a string"
	}
	respelt := func(lexeme, form string) string {
		return "number " + lexeme + " is an IEEE 754 double whose canonical form has other digits, " + form + "; send those, or send it as a string"
	}
	beyond := func(lexeme string) string {
		return "number " + lexeme + " is beyond the range of an IEEE 754 double; send it as a string"
	}
	digits := strings.Repeat("1234567890", 100)
	exact := func(f float64) string { return new(big.Float).SetFloat64(f).Text('f', 1074) }
	exactTenth, exactLeast := strings.TrimRight(exact(0.1), "0"), exact(math.SmallestNonzeroFloat64)
	exactGreatest := new(big.Float).SetFloat64(math.MaxFloat64).Text('f', 0)
	for _, test := range []struct{ name, in, pointer, reason string }{
		{"nothing", "", "", "there is no value"},
		{"white space only", " \n", "", "there is no value"},
		{"two values", "1 2", "", "data after the end of the value"},
		{"text after the value", "{}x", "", "data after the end of the value"},
		{"cut short", `{"a":[1,`, "/a", "unexpected end (byte "},
		{"cut inside a literal", `{"a":tr`, "/a", "unexpected end (byte "},
		{"a comma too many", `[1,]`, "", "invalid character"},
		{"a leading zero", `{"a":01}`, "", "invalid character"},
		{"a plus sign", `[+1]`, "/0", "invalid character"},
		{"NaN", `{"a":NaN}`, "/a", "invalid character"},
		{"a key that is no string", `{1:2}`, "", "object member name must be a string"},
		{"a byte order mark", "\ufeff{}", "", "invalid character"},
		{"a control character", "[\"a\nb\"]", "/0", "invalid character"},

		{"a duplicate key", `{"a":{"x":1,"y":2,"x":3}}`, "/a/x", "duplicate object member name (byte "},
		{"a duplicate key in another spelling", `{"a":1,"\u0061":2}`, "/a", "duplicate object member name (byte "},
		{"a duplicate key with / and ~", `[0,{"~/":1,"~/":2}]`, "/1/~0~1", "duplicate object member name (byte "},
		{"invalid UTF-8 in a value", "{\"k\":[\"ok\",\"\xff\"]}", "/k/1", "invalid UTF-8"},
		{"invalid UTF-8 in a key", "{\"k\":{\"\xc3\":1}}", "/k", "invalid UTF-8"},
		{"an encoded surrogate", "[\"\xed\xa0\x80\"]", "/0", "invalid UTF-8"},
		{"a lone high surrogate", `{"k":"\ud800"}`, "/k", "invalid surrogate pair"},
		{"a lone low surrogate", `{"k":"\udc00x"}`, "/k", "invalid surrogate pair"},
		{"surrogates the wrong way round", `["\ude00\ud83d"]`, "/0", "invalid surrogate pair"},
		{"a lone surrogate in a key", `{"k":{"\ud800":1}}`, "/k", "invalid surrogate pair"},

		{"an integer beyond 2^53", `{"id":12345678901234567890}`, "/id", lossy("12345678901234567890")},
		{"2^53 + 1", `[9007199254740993]`, "/0", lossy("9007199254740993")},
		{"the exact value of a double whose form is shorter", `[295147905179352825856]`, "/0", respelt("295147905179352825856", "295147905179352830000")},
		{"2^64", `{"n":18446744073709551616}`, "/n", respelt("18446744073709551616", "18446744073709552000")},
		{"-2^64", `-18446744073709551616`, "", respelt("-18446744073709551616", "-18446744073709552000")},
		{"2^64 in another spelling", `1844674407370955.1616e4`, "", respelt("1844674407370955.1616e4", "18446744073709552000")},
		{"2^64 - 1", `18446744073709551615`, "", lossy("18446744073709551615")},
		{"the exact value of the double nearest to 0.1", exactTenth, "", respelt(exactTenth, "0.1")},
		{"the exact value of the least double", exactLeast, "", respelt(exactLeast[:64]+"…", "5e-324")},
		{"the exact value of the greatest double", exactGreatest, "", respelt(exactGreatest[:64]+"…", "1.7976931348623157e+308")},
		{"a digit too many", `[0.10000000000000001]`, "/0", lossy("0.10000000000000001")},
		{"the number of the RFC's own example", `[333333333.33333329]`, "/0", lossy("333333333.33333329")},
		{"too large", `{"a":[0,1e400]}`, "/a/1", beyond("1e400")},
		{"too large and negative", `-1e400`, "", beyond("-1e400")},
		{"too small", `1e-400`, "", lossy("1e-400")},
		{"smaller than the least double", `3e-324`, "", lossy("3e-324")},
		{"an exponent beyond any integer", `1e99999999999999999999`, "", beyond("1e99999999999999999999")},
		{"and below", `[-1e-99999999999999999999]`, "/0", lossy("-1e-99999999999999999999")},
		{"a long number is quoted in part", digits, "", beyond(digits[:64] + "…")},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dst := []byte("kept")
			got, err := jcs.Append(dst, []byte(test.in), maxDepth)
			var refused *strictjson.Error
			if !errors.As(err, &refused) {
				t.Fatalf("got %s, %v; want a *strictjson.Error", got, err)
			}
			if refused.Pointer != test.pointer || !strings.HasPrefix(refused.Reason, test.reason) {
				t.Errorf("got %q: %s\nwant %q: %s", refused.Pointer, refused.Reason, test.pointer, test.reason)
			}
			if string(got) != "kept" {
				t.Errorf("dst has become %q", got)
			}
		})
	}
}

func TestErrorText(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"a":[1,1e400]}`: `JSON at "/a/1": number 1e400 is beyond the range of an IEEE 754 double; send it as a string`,
		``:                "JSON: there is no value",
	} {
		if _, err := jcs.Append(nil, []byte(in), maxDepth); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", in, err, want)
		}
	}
}

func TestDepth(t *testing.T) {
	t.Parallel()
	nested := func(n int) []byte {
		return []byte(strings.Repeat(`[{"a":`, n/2) + "1" + strings.Repeat(`}]`, n/2))
	}
	if out, err := jcs.Append(nil, nested(maxDepth), maxDepth); err != nil || !bytes.Equal(out, nested(maxDepth)) {
		t.Errorf("%d levels: %s, %v", maxDepth, out, err)
	}
	_, err := jcs.Append(nil, nested(maxDepth+2), maxDepth)
	var refused *strictjson.Error
	if !errors.As(err, &refused) || refused.Pointer != strings.Repeat("/0/a", maxDepth/2) {
		t.Errorf("two levels more: %v", err)
	}
	if _, err := jcs.Append(nil, []byte(`"scalar"`), 0); err != nil {
		t.Errorf("a scalar at depth 0: %v", err)
	}
	if _, err := jcs.Append(nil, []byte(`{}`), 0); err == nil {
		t.Error("an object passes at depth 0")
	}
}

// Inputs of a megabyte that have made other implementations slow: one that were slow here would run
// into the tests' time limit.
func TestHostileSize(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	var keys strings.Builder
	for n := size / 16; n > 0; n-- {
		keys.WriteString(`"k`)
		keys.WriteString(strings.Repeat("9", 1+n%7))
		keys.WriteString(string(rune('a' + n%26)))
		keys.WriteString(strings.Repeat(string(rune('a'+n/26%26)), 1+n/676%100))
		keys.WriteString(`":1,`)
	}
	for name, in := range map[string]string{
		"open brackets":        strings.Repeat("[", size),
		"open objects":         strings.Repeat(`{"a":`, size/5),
		"digits":               strings.Repeat("9", size),
		"zeros":                "0." + strings.Repeat("0", size) + "1",
		"zeros made up for":    "0." + strings.Repeat("0", size-1) + "1e1048576",
		"exponent digits":      "1e" + strings.Repeat("9", size),
		"escapes":              `"` + strings.Repeat(`\u0061`, size/6) + `"`,
		"many keys":            "{" + keys.String() + `"z":1}`,
		"unsorted all the way": strings.Repeat(`{"b":`, maxDepth) + `"` + strings.Repeat("x", size) + `"` + strings.Repeat(`,"a":1}`, maxDepth),
		"empty arrays":         "[" + strings.Repeat("[],", size/3) + "[]]",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := jcs.Append(nil, []byte(in), maxDepth)
			var refused *strictjson.Error
			if errors.As(err, &refused) && len(refused.Reason) > 300 {
				t.Errorf("the reason is %d bytes long", len(refused.Reason))
			}
		})
	}
}

func TestAppendString(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":             `""`,
		"plain é 😀":    `"plain é 😀"`,
		"<a href=\"&":  `"<a href=\"&"`,
		"\x00\b\x7f\\": `"\u0000\b` + "\x7f" + `\\"`,
	} {
		if got := jcs.AppendString([]byte("x"), in); string(got) != "x"+want {
			t.Errorf("%q: got %s, want x%s", in, got, want)
		}
	}
}

// Append reuses its state, so what one call leaves behind, even after an error, must not show in
// another.
func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	inputs := []struct{ in, want string }{
		{`{"b":[1,{"d":2,"c":3}],"a":4}`, `{"a":4,"b":[1,{"c":3,"d":2}]}`},
		{`{"z":1,"y":{"x":1,"w":[1e400]}}`, ""},
		{`{"z":1,"y":{"x":1,"w":`, ""},
		{`["\u0061"]`, `["a"]`},
	}
	var group sync.WaitGroup
	for g := range 8 {
		group.Go(func() {
			for n := range 500 {
				test := inputs[(g+n)%len(inputs)]
				got, err := jcs.Append(nil, []byte(test.in), maxDepth)
				if string(got) != test.want || (err == nil) != (test.want != "") {
					t.Errorf("%s: got %s, %v", test.in, got, err)
				}
			}
		})
	}
	group.Wait()
}
