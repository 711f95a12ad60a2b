package test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"attestd/internal/must"
)

// Each function on the route of POST /v1/attest, as docs/design/append.md has it, is in the file
// that is named with it.
func TestAttestRouteOfDesign(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/design/append.md")
	must.OK(t, err)
	block := regexp.MustCompile(`(?s)<!-- attest route -->\n(.*?)<!-- /attest route -->`).FindSubmatch(text)
	if block == nil {
		t.Fatal("docs/design/append.md has no marks around the route")
	}
	rows := regexp.MustCompile("(?m)^\\| \\d+ \\| `([^`]+)` \\| `([^`]+)` \\| .+ \\|$").FindAllSubmatch(block[1], -1)
	if len(rows) < 5 {
		t.Fatalf("the route has %d rows", len(rows))
	}
	for _, row := range rows {
		file, function := string(row[1]), string(row[2])
		source, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(file)))
		must.OK(t, err)
		if !regexp.MustCompile(`(?m)^func (\([^)]*\) )?` + regexp.QuoteMeta(function) + `[\[(]`).Match(source) {
			t.Errorf("%s has no function %s", file, function)
		}
	}
}
