package test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"attestd/internal/testenv"
)

// What docs/rules-and-people.md shows is typed from its beginning, twice, and each answer is the
// one that the page shows below it.
func TestRulesPageTyped(t *testing.T) {
	testenv.Needs(t, testenv.Slow, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	const page = "../docs/rules-and-people.md"
	s := serve(t, filepath.Join(t.TempDir(), "attestd.db"))
	c := s.register(t, "acme")
	blocks, shown := blocksOf(t, page, "sh"), blocksOf(t, page, "json")
	if len(blocks) < 6 || len(blocks) != len(shown) {
		t.Fatalf("the page shows %d things to type and %d answers", len(blocks), len(shown))
	}
	script := "set -e\n"
	for i, block := range blocks {
		script += block + fmt.Sprintf("echo; echo =%d=\n", i)
	}
	for range 2 {
		out := typed(t, t.TempDir(), script, "ATTESTD_URL="+s.URL, "ATTESTD_KEY="+c.key)
		for i, want := range shown {
			answer, rest, found := strings.Cut(out, fmt.Sprintf("=%d=\n", i))
			if !found {
				t.Fatalf("block %d did not come to its end: %s", i, out)
			}
			want = strings.ReplaceAll(want, ",\n\"", ",\"") // a long answer is shown in two lines
			if answer = regexp.MustCompile(`\n\n+`).ReplaceAllString(answer, "\n"); !isShown(want, answer) {
				t.Errorf("%s\nanswers\n%s\nand the page shows\n%s", blocks[i], answer, want)
			}
			out = rest
		}
	}
}
