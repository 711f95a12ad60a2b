package postgres

import (
	"fmt"
	"os"
	"regexp"
	"testing"
)

// docs/operate/upgrade.md has a row for each schema, which says whose servers still start on it.
func TestUpgradePageHasEverySchema(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/operate/upgrade.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(`(?m)^\| (\d+) \| .+ \| .+ \| ?(\d*) \|$`).FindAllStringSubmatch(string(page), -1)
	const first = 2
	if len(rows) != Version-first+1 {
		t.Fatalf("the page has %d schemas, and there are %d after the first", len(rows), Version-first+1)
	}
	for i, row := range rows {
		schema, compatible := first+i, ""
		if schema > firstVersion {
			compatible = fmt.Sprint(steps()[schema-firstVersion-1].compatible)
		}
		if row[1] != fmt.Sprint(schema) || row[2] != compatible {
			t.Errorf("row %q is not that of schema %d, whose oldest is %q", row[0], schema, compatible)
		}
	}
}
