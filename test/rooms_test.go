package test

import (
	"flag"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"attestd/internal/must"
	"attestd/internal/testenv"
)

var update = flag.Bool("update", false, "write the picture of rooms into docs/design.md, and the words of the checkers into testdata")

// imports lists which rooms (top-level directories) each room may import. Imports go downward only,
// and what runs next to an agent reaches a server by HTTP alone: only the commands import it.
var imports = map[string]string{
	"main":     "cmd",
	"cmd":      "server service store agent sdk chain crypto web examples internal",
	"server":   "service store chain crypto web internal",
	"service":  "store chain crypto internal",
	"store":    "chain crypto internal",
	"agent":    "sdk chain crypto internal",
	"sdk":      "chain crypto internal",
	"chain":    "crypto internal",
	"crypto":   "",
	"web":      "sdk internal", // the one package that embeds check.py
	"internal": "store chain crypto",
}

// testOnly are packages that the product never imports.
var testOnly = []string{"internal/harness", "internal/rewrite", "internal/testenv", "store/storetest", "store/postgres/pgtest",
	"chain/evidence/evidencetest"}

// Imports go downward only, and the picture in docs/design.md shows what they are.
func TestImportsGoDownward(t *testing.T) {
	t.Parallel()
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f",
		`{{$p := .ImportPath}}{{range .Imports}}{{$p}} {{.}}{{"\n"}}{{end}}`, "attestd/...").Output()
	must.OK(t, err)
	found := map[string]map[string]bool{}
	for line := range strings.Lines(string(out)) {
		from, to, _ := strings.Cut(strings.TrimSpace(line), " ")
		if !strings.HasPrefix(to, "attestd/") || isTestOnly(from) {
			continue
		}
		if isTestOnly(to) && !strings.HasPrefix(from, "attestd/test/") {
			t.Errorf("%s imports %s, which is for tests alone", from, to)
		}
		a, b := roomOf(from), roomOf(to)
		if a == b || a == "test" {
			continue
		}
		if !slices.Contains(strings.Fields(imports[a]), b) {
			t.Errorf("%s imports %s: %s may import %q alone", from, to, a, imports[a])
		}
		if found[a] == nil {
			found[a] = map[string]bool{}
		}
		found[a][b] = true
	}

	const page, begin, end = "../docs/design.md", "<!-- rooms -->\n", "<!-- /rooms -->"
	text, err := os.ReadFile(page)
	must.OK(t, err)
	before, rest, ok := strings.Cut(string(text), begin)
	was, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the picture", page)
	}
	is := pictureOf(found)
	if *update {
		must.OK(t, os.WriteFile(page, []byte(before+begin+is+end+after), 0o644))
	} else if was != is {
		t.Errorf("the picture of rooms is not what is imported: go test ./test -run TestImportsGoDownward -update")
	}
}

// The program for the machine of an agent has no server and no database in it.
func TestSmallProgramLinksNoServer(t *testing.T) {
	t.Parallel()
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "attestd/cmd/attestd-agent").Output()
	must.OK(t, err)
	packages := strings.Fields(string(out))
	for _, p := range packages {
		own, isOurs := strings.CutPrefix(p, "attestd/")
		room, _, _ := strings.Cut(own, "/")
		if isOurs && slices.Contains([]string{"server", "service", "store", "web"}, room) || strings.Contains(p, "sqlite") ||
			strings.Contains(p, "pgx") || p == "html/template" {
			t.Errorf("attestd-agent links %s", p)
		}
	}
	if len(packages) < 100 {
		t.Errorf("%d packages were looked at", len(packages))
	}
}

func roomOf(path string) string {
	_, room, ok := strings.Cut(path, "/")
	if !ok {
		return "main"
	}
	room, _, _ = strings.Cut(room, "/")
	return room
}

func isTestOnly(path string) bool {
	return slices.ContainsFunc(testOnly, func(p string) bool { return strings.HasPrefix(path, "attestd/"+p) })
}

// pictureOf draws the arrows that do not follow from others.
func pictureOf(imports map[string]map[string]bool) string {
	var b strings.Builder
	b.WriteString("```mermaid\nflowchart TD\n")
	for _, from := range slices.Sorted(maps.Keys(imports)) {
		for _, to := range slices.Sorted(maps.Keys(imports[from])) {
			if !reaches(imports, from, to) {
				b.WriteString("  " + from + " --> " + to + "\n")
			}
		}
	}
	b.WriteString("```\n")
	return b.String()
}

// reaches reports whether imports lead from one room to another through a third.
func reaches(imports map[string]map[string]bool, from, to string) bool {
	for by := range imports[from] {
		if by != to && (imports[by][to] || reaches(imports, by, to)) {
			return true
		}
	}
	return false
}
