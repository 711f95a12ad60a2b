package web

import "testing"

func TestConvert(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, in, want string }{
		{"order, aliases and spellings", "b: &x {z: 1.50, a: [true, null]}\na: *x\n\"1\": '2'\n",
			"{\n\"b\": {\n\"z\": 1.50,\n\"a\": [\ntrue,\nnull\n]\n},\n\"a\": {\n\"z\": 1.50,\n\"a\": [\ntrue,\nnull\n]\n},\n\"1\": \"2\"\n}\n"},
		{"a name that is no string", "1: x", `line 1: name "1" is not a string`},
		{"a number that JSON spells otherwise", "a: 0x10", `line 1: "0x10" is not spelled as in JSON: jsontext: invalid character 'x' after top-level value within "/a" after offset 8`},
		{"a value that JSON does not have", "a: 2026-01-01", `line 1: "2026-01-01" is a !!timestamp, which JSON does not have; quote it`},
		{"a merge key", "a: &x {b: 1}\nc: {<<: *x}", `line 2: name "<<" is not a string`},
	} {
		got, err := convert([]byte(test.in))
		if err != nil {
			got = []byte(err.Error())
		}
		if string(got) != test.want {
			t.Errorf("%s:\ngot  %q\nwant %q", test.name, got, test.want)
		}
	}
}
