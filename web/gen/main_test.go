package main

import (
	"bytes"
	"os"
	"testing"
)

// Each generated file is what its sources make today.
func TestFresh(t *testing.T) {
	t.Chdir("..")
	for name, make := range map[string]func() ([]byte, error){
		"../sdk/python/attestd/__init__.pyi": func() ([]byte, error) { return stub("../sdk/python/stub.pyi") },
		"../sdk/python/attestd/_operations.py": func() ([]byte, error) {
			return pythonMethods("../sdk/python/attestd/_client.py")
		},
		"../docs/api.md": func() ([]byte, error) {
			return operationsPage("../sdk/attestd/operations_test.go,../docs/api.md")
		},
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
