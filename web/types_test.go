package web_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"attestd/internal/testenv"
)

// consoleModules returns the console's own modules and those of the verifier; vendored ones are not
// among them.
func consoleModules(t *testing.T) []string {
	t.Helper()
	var found []string
	for _, pattern := range []string{"console/*.js", "console/*/*.js", "console/lib/*/*.js", "verifier/*.js"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if !strings.HasPrefix(name, "console/vendor/") {
				found = append(found, name)
			}
		}
	}
	if len(found) < 100 {
		t.Fatalf("only %d modules found", len(found))
	}
	return found
}

// The compiler checks the types of each module with the settings of tsconfig.json and emits
// nothing.
func TestConsoleTypes(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	t.Parallel()
	compiler := "../sdk/typescript/node_modules/typescript/lib/tsc.js"
	if _, err := os.Stat(compiler); err != nil {
		testenv.Missing(t, "there is no TypeScript compiler: npm ci --prefix sdk/typescript")
	}
	if out, err := exec.CommandContext(t.Context(), testenv.Path(t, "node"), compiler).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

var commentLine = regexp.MustCompile(`^\s*(//|/?\*)`)

// Each module asks for the check of its types, lines have at most 120 columns and comments at most
// 100.
func TestConsoleModuleForm(t *testing.T) {
	t.Parallel()
	for _, name := range consoleModules(t) {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(content), "\n")
		if lines[0] != "// @ts-check" {
			t.Errorf("%s does not begin with // @ts-check", name)
		}
		for i, line := range lines {
			most := 120
			if commentLine.MatchString(line) {
				most = 100
			}
			if n := utf8.RuneCountInString(line); n > most {
				t.Errorf("%s:%d has %d columns, over %d", name, i+1, n, most)
			}
		}
	}
}
