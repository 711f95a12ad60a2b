package test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"attestd/internal/must"
)

// The walk of docs/operate/first-day.md names settings and files that there are.
// TestFromPackageToAlert types it.
func TestWalkNamesSettings(t *testing.T) {
	t.Parallel()
	var settings string
	pages, err := filepath.Glob("../docs/configure/*.md")
	must.OK(t, err)
	for _, page := range append(pages, "../docs/configure.md") {
		text, err := os.ReadFile(page)
		must.OK(t, err)
		settings += string(text)
	}
	walk := strings.Join(blocksOf(t, "../docs/operate/first-day.md", "bash"), "")
	names := regexp.MustCompile(`(?m)^(?:export )?(ATTESTD_\w+)=`).FindAllStringSubmatch(walk, -1)
	if len(names) < 10 {
		t.Errorf("the walk has %d settings", len(names))
	}
	for _, name := range names {
		if !strings.Contains(settings, "`"+name[1]+"`") {
			t.Errorf("no page of docs/configure has %s", name[1])
		}
	}
	for _, file := range regexp.MustCompile(`/usr/share/doc/attestd/(\S+)`).FindAllStringSubmatch(walk, -1) {
		if _, err := os.Stat("../docs/" + file[1]); err != nil {
			t.Error(err)
		}
	}
	rules, err := os.ReadFile("../docs/monitoring/alerts.yaml")
	must.OK(t, err)
	for _, change := range regexp.MustCompile(`sed -i '/alert: (\w+)/,/labels/s/([^/]*)/`).FindAllStringSubmatch(walk, -1) {
		if _, rule, ok := strings.Cut(string(rules), "alert: "+change[1]+"\n"); !ok || !strings.Contains(rule[:strings.Index(rule, "labels")], change[2]) {
			t.Errorf("the rule %s has no %q", change[1], change[2])
		}
	}
}
