package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// Each command has a man page with its flags, dated by the commit, and each shell a completion; two
// runs write the same bytes.
func TestManualsOfEveryCommand(t *testing.T) {
	t.Parallel()
	one, two := t.TempDir(), t.TempDir()
	for _, folder := range []string{one, two} {
		if err := write(folder, "1767225600"); err != nil {
			t.Fatal(err)
		}
	}
	files := 0
	for _, pattern := range []string{"man/*.1", "completions/*"} {
		found, err := filepath.Glob(filepath.Join(one, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			files++
			a, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			name, _ := filepath.Rel(one, path)
			if b, _ := os.ReadFile(filepath.Join(two, name)); !bytes.Equal(a, b) {
				t.Errorf("%s differs between two runs", name)
			}
		}
	}
	if files < 30 {
		t.Errorf("only %d files", files)
	}
	page, err := os.ReadFile(filepath.Join(one, "man/attestd-serve.1"))
	if err != nil || !bytes.Contains(page, []byte(`\fB--listen\fP`)) || !bytes.Contains(page, []byte(`"Jan 2026"`)) {
		t.Errorf("the page of serve: %v\n%.400s", err, page)
	}
	if err := write(t.TempDir(), "today"); err == nil {
		t.Error("pages without a time were written")
	}
}
