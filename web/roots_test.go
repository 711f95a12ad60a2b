package web_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"attestd/internal/must"
)

// A log has two trees, so a text that people read says which root it means: the chain root or the
// log root (docs/glossary.md). Texts in the sources of the console, of verifier.html and of both
// scripts are found by the text before the word: another word, or the beginning of the text.
func TestTextsSayWhichRoot(t *testing.T) {
	t.Parallel()
	bare := regexp.MustCompile("(?:([A-Za-z’]+) |[>'\"`])([Rr]oots?)\\b(['\"`]?)")
	comment := regexp.MustCompile(`^\s*(//|/?\*|#).*|\s(//|#) .*$`)
	// which of the two, and what precedes a name in code
	before := []string{"chain", "log", "Chain", "Log", "const", "let", "return", "await", "async", "of", "def"}
	stored := strings.NewReplacer(
		// is in each file of evidence, and is compared
		"That the root in hexProof is the chain", "",
		// stored with a finding
		"== 'the root'", "", "?? 'the root'", "", "fail('the root'", "",
	)
	texts := 0
	for _, folder := range []string{"console", "verifier", "check.mjs", "../sdk/python/attestd/check.py"} {
		must.OK(t, filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				if entry != nil && entry.Name() == "vendor" {
					return filepath.SkipDir
				}
				return err
			}
			if !slices.Contains([]string{".js", ".mjs", ".py", ".html"}, filepath.Ext(path)) {
				return nil
			}
			source, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for n, line := range strings.Split(string(source), "\n") {
				for _, found := range bare.FindAllStringSubmatch(stored.Replace(comment.ReplaceAllString(line, "")), -1) {
					if slices.Contains(before[:4], found[1]) {
						texts++
					}
					// 'root', of a member
					isName := found[1] == "" && found[2] == "root" && found[3] != ""
					if isName || slices.Contains(before, found[1]) {
						continue
					}
					t.Errorf("%s:%d says %q, and not which of the two roots: %s", path, n+1, found[0], strings.TrimSpace(line))
				}
			}
			return nil
		}))
	}
	if texts < 20 {
		t.Errorf("only %d texts about a root were found", texts)
	}
}
