package main

import (
	"bytes"
	"os"
	"testing"
)

// What is served is what its sources make today.
func TestFresh(t *testing.T) {
	t.Chdir("..")
	for name, make := range map[string]func() ([]byte, error){
		"openapi.json":                       func() ([]byte, error) { return openAPI("openapi.yaml") },
		"verifier.html":                      func() ([]byte, error) { return page("verifier/page.html") },
		"check.py":                           func() ([]byte, error) { return join("checkers/python/*") },
		"check.mjs":                          func() ([]byte, error) { return join("checkers/javascript/*") },
		"../sdk/python/attestd/__init__.pyi": func() ([]byte, error) { return stub("openapi.json,../sdk/python/stub.pyi") },
		"../sdk/python/parts/4a_operations.py": func() ([]byte, error) {
			return pythonMethods("openapi.json,../sdk/python/parts/5_client.py")
		},
		"../docs/api.md": func() ([]byte, error) {
			return operationsPage("openapi.json,../sdk/attestd/operations_test.go,../docs/api.md")
		},
		"../sdk/python/attestd/__init__.py": func() ([]byte, error) { return join("../sdk/python/parts/*,checkers/python/[1-7]*") },
	} {
		want, err := make()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, want) {
			t.Errorf("web/%s is not what its sources make (%v): run go generate ./web", name, err)
		}
	}
}

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
