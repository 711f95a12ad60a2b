package filekind_test

import (
	"bufio"
	"bytes"
	"os"
	"strings"
	"testing"

	"attestd/chain/evidence"
	"attestd/chain/filekind"
	"attestd/chain/filekind/kindtest"
)

func of(file []byte) filekind.Kind { return filekind.Of(evidence.Reader(bytes.NewReader(file))) }

func readCases(t testing.TB) []kindtest.Case {
	t.Helper()
	cases, err := kindtest.Cases()
	if err != nil {
		t.Fatal(err)
	}
	return cases
}

// The table that all checkers share: what a file is.
func TestOf(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for _, c := range readCases(t) {
		if got := of([]byte(c.File)); string(got) != c.Kind {
			t.Errorf("%s is %q, want %q", c.Name, got, c.Kind)
		}
		seen[c.Kind] = true
	}
	for _, kind := range filekind.All() {
		if !seen[string(kind)] {
			t.Errorf("no file is %s", kind)
		}
		if words := kind.Is(); strings.HasPrefix(words, ":") || strings.HasSuffix(words, " ") {
			t.Errorf("%s is %q", kind, words)
		}
	}
}

// What is found is not read away, and only the beginning counts.
func TestOfReadsNothing(t *testing.T) {
	t.Parallel()
	report, err := os.ReadFile("../evidence/testdata/report.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	long := append(bytes.Clone(report), make([]byte, 20<<20)...)
	src := evidence.Reader(bytes.NewReader(long))
	if filekind.Of(src) != filekind.Report {
		t.Error("a long report is none")
	}
	var rest bytes.Buffer
	if _, err := rest.ReadFrom(src); err != nil || !bytes.Equal(rest.Bytes(), long) {
		t.Errorf("%d bytes are left of %d: %v", rest.Len(), len(long), err)
	}
	for size, want := range map[int]filekind.Kind{8<<20 - 1: filekind.Proof, 8 << 20: filekind.Unknown} {
		proof := `{"record":0,"proof":[],"root":"` + strings.Repeat("a", size-33) + `"}`
		if got := of([]byte(proof)); len(proof) != size || got != want {
			t.Errorf("a proof of %d bytes is %q, want %q", len(proof), got, want)
		}
	}
}

// FuzzOf feeds whatever: it never panics, and a file has one kind, with white space after it or
// without.
func FuzzOf(f *testing.F) {
	for _, c := range readCases(f) {
		f.Add([]byte(c.File))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		of := func(file []byte) filekind.Kind { return filekind.Of(bufio.NewReaderSize(bytes.NewReader(file), 1<<16)) }
		kind := of(file)
		if again := of(append(bytes.Clone(file), ' ')); again != kind && bytes.HasPrefix(bytes.TrimLeft(file, " \t\r\n"), []byte("{")) {
			t.Errorf("%q is %q, and %q with a space", file, kind, again)
		}
	})
}
