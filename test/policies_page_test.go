package test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"attestd/internal/must"
	"attestd/internal/testenv"
)

// What the pages on policies show is typed from their beginnings, and prints what they show below.
func TestPoliciesPageTyped(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	typePage(t, "../docs/policies.md", 7)
	typePage(t, "../docs/policies/authzen.md", 3)
}

// typePage types what a page shows for a company, in at least so many blocks.
func typePage(t *testing.T, page string, least int) {
	t.Helper()
	s := serve(t, filepath.Join(t.TempDir(), "attestd.db"))
	c := s.register(t, "acme")
	attestd, err := binary(t)
	must.OK(t, err)
	bin := t.TempDir()
	must.OK(t, os.Symlink(attestd, filepath.Join(bin, "attestd")))
	blocks, shown := blocksOf(t, page, "sh"), blocksOf(t, page, "text")
	if len(blocks) < least || len(blocks) != len(shown) {
		t.Fatalf("the page shows %d things to type and %d that are printed", len(blocks), len(shown))
	}
	script := "set -e\n"
	for i, block := range blocks {
		script += block + fmt.Sprintf("echo =%d=\n", i)
	}
	out := typed(t, t.TempDir(), script, "PATH="+bin+string(filepath.ListSeparator)+os.Getenv("PATH"), "ATTESTD_URL="+s.URL, "ATTESTD_KEY="+c.key)
	for i, want := range shown {
		printed, rest, found := strings.Cut(out, fmt.Sprintf("=%d=\n", i))
		if !found {
			t.Fatalf("block %d did not come to its end: %s", i, out)
		}
		if !isShown(want, printed) {
			t.Errorf("%s\nprints\n%s\nand the page shows\n%s", blocks[i], printed, want)
		}
		out = rest
	}
}
