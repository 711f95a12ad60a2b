package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// The page of the source is what its modules say: go -C internal/tools run ./notices ../..
func TestNoticesAreCurrent(t *testing.T) {
	t.Parallel()
	want, err := notices("../../..")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../../" + page)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(text, want) {
		t.Errorf("%s is not what the modules say: go -C internal/tools run ./notices ../..", page)
	}
	for _, name := range []string{"modernc.org/sqlite v", "Go's standard library", "preact, in the console", "ed25519, in the console"} {
		if !strings.Contains(string(text), "\n"+name) {
			t.Errorf("%s is not in %s", name, page)
		}
	}
}

// What has no license is refused; one license of several parts is listed once.
func TestPartsWithoutLicenseAreRefused(t *testing.T) {
	t.Parallel()
	parts := map[string]*part{"a 1": {"a 1", map[string]bool{"MIT": true}}, "b 1": {"b 1", map[string]bool{"MIT": true, "BSD": true}}}
	text, err := written(parts)
	if err != nil || strings.Count(string(text), "MIT") != 1 || !strings.Contains(string(text), "a 1\nb 1\n-") {
		t.Errorf("%s, %v", text, err)
	}
	parts["c 1"] = &part{"c 1", nil}
	if _, err := written(parts); err == nil || !strings.Contains(err.Error(), "c 1") {
		t.Errorf("a part without a license: %v", err)
	}
}
