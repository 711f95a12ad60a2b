package test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"attestd/internal/must"
	"attestd/internal/testenv"
)

// declaredTests returns the tests, fuzz tests and benchmarks of this repository, with the folders
// that have one of the name.
func declaredTests(t *testing.T) map[string][]string {
	t.Helper()
	tests := map[string][]string{}
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w+)\(`)
	must.OK(t, filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || d.Name() == ".git"):
			return filepath.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		for _, m := range declared.FindAllSubmatch(text, -1) {
			tests[string(m[1])] = append(tests[string(m[1])], filepath.ToSlash(filepath.Dir(path)))
		}
		return err
	}))
	return tests
}

// promisePages are the pages of docs/security with promises.
func promisePages(t *testing.T) []string {
	t.Helper()
	pages, err := filepath.Glob("../docs/security/promises-*.md")
	must.OK(t, err)
	return pages
}

// promises returns the text of these pages, one after the other.
func promises(t *testing.T) (text []byte) {
	t.Helper()
	for _, page := range promisePages(t) {
		one, err := os.ReadFile(page)
		must.OK(t, err)
		text = append(text, one...)
	}
	return text
}

// Each promise of docs/security has its own number, over all of its pages, and names what shows it:
// tests, followed by their folder, and scripts. All of these exist.
func TestPromisesNameWhatShowsThem(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	page := promises(t)
	tests := declaredTests(t)
	scripts := map[string]bool{}
	for _, pattern := range []string{"testdata/script/*.txtar", "../web/console_test/*.test.js"} {
		found, err := filepath.Glob(pattern)
		must.OK(t, err)
		for _, path := range found {
			scripts[filepath.Base(path)] = true
		}
	}
	row := regexp.MustCompile(`(?m)^\| (\d+) \| (.*) \| (.*) \|$`)
	// a test, a script, or the folder of the tests before it
	part := regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Z]\\w*)`|`([a-z_]+\\.(?:txtar|test\\.js))`|\\(([^()`]+)[,)]")
	numbers := map[string]bool{}
	for _, r := range row.FindAllSubmatch(page, -1) {
		number, shown := string(r[1]), string(r[3])
		if numbers[number] {
			t.Errorf("two promises have the number %s", number)
		}
		numbers[number] = true
		var here []string // tests whose folder comes
		parts := part.FindAllStringSubmatch(shown, -1)
		if len(parts) == 0 {
			t.Errorf("promise %s: nothing shows it: %s", number, shown)
		}
		for _, m := range parts {
			test, script, folder := m[1], m[2], m[3]
			switch {
			case test != "" && tests[test] == nil:
				t.Errorf("promise %s: there is no %s", number, test)
			case test != "":
				here = append(here, test)
			case script != "" && !scripts[script]:
				t.Errorf("promise %s: there is no %s", number, script)
			case folder != "":
				folder, _, _ = strings.Cut(folder, ",")
				for _, test := range here {
					if !slices.ContainsFunc(tests[test], func(in string) bool { return strings.HasSuffix(in, "/"+folder) }) {
						t.Errorf("promise %s: %s is not in %s, but in %q", number, test, folder, tests[test])
					}
				}
				here = nil
			}
		}
		if len(here) > 0 {
			t.Errorf("promise %s does not say where %q is", number, here)
		}
	}
	if len(numbers) < 360 {
		t.Errorf("only %d promises were found", len(numbers))
	}
}

// docs/security.md leads to each table of promises.
func TestOverviewLeadsToEveryPromise(t *testing.T) {
	t.Parallel()
	overview, err := os.ReadFile("../docs/security.md")
	must.OK(t, err)
	table := regexp.MustCompile(`(?m)^## (.*)\n\n\| # \| promise \| test \|$`)
	found := 0
	for _, page := range promisePages(t) {
		text, err := os.ReadFile(page)
		must.OK(t, err)
		for _, m := range table.FindAllSubmatch(text, -1) {
			found++
			link := "(security/" + filepath.Base(page) + "#" + anchorOf(string(m[1])) + ")"
			if !strings.Contains(string(overview), link) {
				t.Errorf("docs/security.md does not link to %s", link)
			}
		}
	}
	if found < 30 {
		t.Errorf("only %d tables of promises were found", found)
	}
}
