package test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"attestd/internal/must"
)

// incidentsPages are the overview of incidents, and after it the pages of recipes.
func incidentsPages(t *testing.T) []string {
	t.Helper()
	pages, err := filepath.Glob("../docs/incidents/*.md")
	must.OK(t, err)
	return append([]string{"../docs/incidents.md"}, pages...)
}

// A recipe is a section of a page of incidents that shows commands. Its steps are, in the order of
// the page:
//
//   - a block of the language console: lines that begin with "$ " or "# " are typed, and the lines
//     that follow them are what must be printed, "…" standing for anything in a line, or as a line
//     for any lines. A command that fails is followed by "echo $?";
//   - a block of the language log: lines that must be in the server's log;
//   - a comment "<!-- test: NAME ARG… -->", which readers do not see: the fault that the recipe is
//     about, or what else happens between commands. See faults.
type recipe struct {
	page  string
	title string
	steps []step
}

type step struct {
	line    int      // of the page
	fault   []string // name and arguments
	log     string   // a line of the log
	command string
	printed []string
}

var faultComment = regexp.MustCompile(`^<!-- test: (.*) -->$`)

// recipes reads the pages. The first recipe is what is typed before each of the others.
func recipes(t *testing.T) (list []recipe) {
	t.Helper()
	for _, page := range incidentsPages(t) {
		for _, r := range recipesOf(t, page) {
			if len(r.steps) > 0 {
				list = append(list, r)
			}
		}
	}
	if len(list) < 20 || list[0].title != "Before you type" {
		t.Fatalf("%d recipes were found", len(list))
	}
	return list
}

// recipesOf reads a page: what is above its first section, and each section.
func recipesOf(t *testing.T, page string) (list []recipe) {
	t.Helper()
	text, err := os.ReadFile(page)
	must.OK(t, err)
	list = []recipe{{page: page}}
	language, typing := "", false
	for i, line := range strings.Split(string(text), "\n") {
		r := &list[len(list)-1]
		last := len(r.steps) - 1
		switch title, ok := strings.CutPrefix(line, "## "); {
		case language == "" && ok:
			list = append(list, recipe{page: page, title: title})
		case strings.HasPrefix(line, "```"):
			language, typing = strings.TrimPrefix(line, "```"), false
		case language == "console" && typing && strings.HasSuffix(r.steps[last].command, "\\"):
			r.steps[last].command += "\n" + line
		case language == "console" && (strings.HasPrefix(line, "$ ") || strings.HasPrefix(line, "# ")):
			r.steps, typing = append(r.steps, step{line: i + 1, command: line[2:]}), true
		case language == "console" && !typing:
			t.Fatalf("%s:%d: a line that nothing prints", page, i+1)
		case language == "console":
			r.steps[last].printed = append(r.steps[last].printed, line)
		case language == "log":
			r.steps = append(r.steps, step{line: i + 1, log: line})
		case language == "":
			if m := faultComment.FindStringSubmatch(line); m != nil {
				r.steps = append(r.steps, step{line: i + 1, fault: strings.Fields(m[1])})
			}
		}
	}
	return list
}

// pattern is a regular expression for the lines of the page.
func pattern(lines ...string) string {
	var b strings.Builder
	for _, line := range lines {
		if line == "…" {
			b.WriteString("(?:.*\n)*")
			continue
		}
		b.WriteString(strings.ReplaceAll(regexp.QuoteMeta(line), "…", ".*") + "\n")
	}
	return b.String()
}
