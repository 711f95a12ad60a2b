package test

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"attestd/internal/must"
	"attestd/internal/testenv"
)

// pages are all pages of documentation.
func pages(t *testing.T) []string {
	t.Helper()
	var list []string
	must.OK(t, filepath.WalkDir("../docs", func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".md" {
			list = append(list, path)
		}
		return err
	}))
	for _, name := range []string{"README.md", "CONTRIBUTING.md", "CHANGELOG.md"} {
		list = append(list, "../"+name)
	}
	return list
}

var (
	markdownLink     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading          = regexp.MustCompile(`(?m)^#+ (.*)$`)
	operationsOfPage = regexp.MustCompile(`(?s)<!-- operations -->.*<!-- /operations -->`)
	fenced           = regexp.MustCompile("(?ms)^```.*?^```$")
)

// Each link from a page to a file of this repository, and to a section of a page, leads somewhere.
func TestLinksOfPages(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	links := 0
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		must.OK(t, err)
		for _, m := range markdownLink.FindAllSubmatch(fenced.ReplaceAll(text, nil), -1) {
			target, section, _ := strings.Cut(string(m[1]), "#")
			if strings.Contains(target, "://") {
				continue
			}
			links++
			file := page
			if target != "" {
				file = filepath.Join(filepath.Dir(page), filepath.FromSlash(target))
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s links to %s, which is not there", page, m[1])
			} else if section != "" && !slices.Contains(anchors(t, file), section) {
				t.Errorf("%s links to %s, and there is no such section", page, m[1])
			}
		}
	}
	if links < 50 {
		t.Errorf("%d links were found", links)
	}
}

// anchors are the names under which the sections of a page are linked to.
func anchors(t *testing.T, page string) (list []string) {
	t.Helper()
	text, err := os.ReadFile(page)
	must.OK(t, err)
	for _, m := range heading.FindAllSubmatch(fenced.ReplaceAll(text, nil), -1) {
		list = append(list, anchorOf(string(m[1])))
	}
	return list
}

// anchorOf is the name under which a section with this heading is linked to.
func anchorOf(heading string) string {
	name := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(heading), "")
	return strings.ReplaceAll(name, " ", "-")
}

// Each page of docs begins with whom it is for.
func TestPagesNameTheirAudience(t *testing.T) {
	t.Parallel()
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		must.OK(t, err)
		if strings.HasPrefix(filepath.ToSlash(page), "../docs/") && !regexp.MustCompile(`^# .+\n\nFor `).Match(text) {
			t.Errorf("%s does not begin with whom it is for", page)
		}
	}
}

// CONTRIBUTING.md names commits by their subjects, and these are in the history.
func TestCommitsNamedInContributing(t *testing.T) {
	t.Parallel()
	history := gitDir(t)
	text, err := os.ReadFile("../CONTRIBUTING.md")
	must.OK(t, err)
	out, err := exec.CommandContext(t.Context(), "git", "--git-dir", history, "rev-parse", "--is-shallow-repository").Output()
	must.OK(t, err)
	if strings.TrimSpace(string(out)) == "true" {
		testenv.Missing(t, "this clone has only a part of the history")
	}
	subjects, err := exec.CommandContext(t.Context(), "git", "--git-dir", history, "log", "--format=%s").Output()
	must.OK(t, err)
	named := regexp.MustCompile(`(?m)^\*(.*)\*$`).FindAllSubmatch(text, -1)
	if len(named) != 5 {
		t.Errorf("CONTRIBUTING.md names %d commits, want 5", len(named))
	}
	for _, m := range named {
		if !slices.Contains(strings.Split(string(subjects), "\n"), string(m[1])) {
			t.Errorf("no commit has the subject %q", m[1])
		}
	}
}

// Every test that the documentation names exists.
func TestDocumentedTestsExist(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	tests := declaredTests(t)
	count := 0
	named := regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Z]\\w*)`")
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		must.OK(t, err)
		// the table of operations names methods of clients, such as TestWebhook
		text = operationsOfPage.ReplaceAll(text, nil)
		for _, m := range named.FindAllSubmatch(text, -1) {
			if count++; tests[string(m[1])] == nil {
				t.Errorf("%s names %s, which does not exist", page, m[1])
			}
		}
	}
	if count < 100 {
		t.Errorf("only %d names of tests were found in the pages", count)
	}
}

// mostLines is how many lines a page may have. A reader finds what is on a page of this size.
const mostLines = 300

// stillLong are pages that are being split. Each is here until it has its size and its index.
var stillLong = []string{"CHANGELOG.md", "CONTRIBUTING.md"}

var (
	section   = regexp.MustCompile(`(?m)^## (.*)$`)
	ofSection = regexp.MustCompile(`\]\(#([^)]+)\)`)
)

// A page is short, and one with more than two sections begins with an index of all of them: links
// to their headings, in the order of the page, before the first of them.
func TestPagesAreShortAndHaveAnIndex(t *testing.T) {
	t.Parallel()
	short := 0
	for _, page := range pages(t) {
		name := strings.TrimPrefix(filepath.ToSlash(page), "../")
		if name == "README.md" || slices.Contains(stillLong, name) {
			continue
		}
		short++
		text, err := os.ReadFile(page)
		must.OK(t, err)
		if lines := bytes.Count(text, []byte("\n")); lines > mostLines {
			t.Errorf("%s is longer than a page may be: split it", name)
		}
		bare := fenced.ReplaceAll(text, nil)
		if at := section.FindAllIndex(bare, -1); len(at) > 2 && !indexed(bare, at[0][0]) {
			t.Errorf("%s has no index of all its sections, in their order, before the first of them", name)
		}
	}
	t.Logf("%d pages have their size and their index", short)
}

// indexed reports whether the text before the first section links to each section in turn.
func indexed(text []byte, first int) bool {
	var links []string
	for _, m := range ofSection.FindAllSubmatch(text[:first], -1) {
		links = append(links, string(m[1]))
	}
	for _, m := range section.FindAllSubmatch(text, -1) {
		i := slices.Index(links, anchorOf(string(m[1])))
		if i < 0 {
			return false
		}
		links = links[i+1:]
	}
	return true
}

var (
	namedPage    = regexp.MustCompile(`docs/[\w/-]+\.md`)
	namedHeading = regexp.MustCompile(`^, \\?"([^"\\]+)\\?"`)
)

// Each page that a message, a comment, a unit or a manifest names is there, with the section that
// is named with it, as in docs/….md, "Section".
func TestPagesNamedInSourceExist(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	named, withSection := 0, 0
	must.OK(t, filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			if slices.Contains([]string{"node_modules", ".git", "testdata", "dist"}, entry.Name()) {
				return filepath.SkipDir
			}
			return nil
		case filepath.Ext(path) == ".md" || !entry.Type().IsRegular():
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, at := range namedPage.FindAllIndex(text, -1) {
			page := filepath.FromSlash("../" + string(text[at[0]:at[1]]))
			named++
			if _, err := os.Stat(page); err != nil {
				t.Errorf("%s names %s, which is not there", path, page)
			} else if m := namedHeading.FindSubmatch(text[at[1]:]); m != nil {
				withSection++
				if !slices.Contains(anchors(t, page), anchorOf(string(m[1]))) {
					t.Errorf("%s names the section %q of %s, which is not there", path, m[1], page)
				}
			}
		}
		return nil
	}))
	if named < 50 || withSection < 10 {
		t.Errorf("%d pages and %d sections of them are named", named, withSection)
	}
}
