package test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"attestd/internal/must"
)

// The table of docs/operate.md leads from each alert, code and reason to what is to be done, and to
// each recipe.
func TestEveryAlarmLeadsSomewhere(t *testing.T) {
	t.Parallel()
	operate, err := os.ReadFile("../docs/operate.md")
	must.OK(t, err)
	_, rest, _ := strings.Cut(string(operate), "\n## A bad night\n")
	table, _, found := strings.Cut(rest, "\n## ")
	if !found {
		t.Fatal("docs/operate.md has no table of alarms")
	}
	alerts, err := os.ReadFile("../docs/monitoring/alerts.yaml")
	must.OK(t, err)
	names := regexp.MustCompile(`(?m)^ +- alert: (\w+)$`).FindAllStringSubmatch(string(alerts), -1)
	readiness, err := os.ReadFile("../docs/operate/readiness.md")
	must.OK(t, err)
	codes := regexp.MustCompile("(?m)^\\| `([A-Z_]+)` \\|").FindAllStringSubmatch(string(readiness), -1)
	if len(names) < 20 || len(codes) < 20 {
		t.Fatalf("%d alerts and %d codes were found", len(names), len(codes))
	}
	for _, name := range append(names, codes...) {
		if !strings.Contains(table, "`"+name[1]+"`") {
			t.Errorf("the table of a bad night lacks %s", name[1])
		}
	}
	for _, r := range recipes(t)[1:] {
		link := strings.TrimPrefix(r.page, "../docs/") + "#" + anchorOf(r.title) + ")"
		if !strings.Contains(table, link) {
			t.Errorf("the table of a bad night does not lead to %q", r.title)
		}
	}
}
