package mcptest

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"attestd/internal/must"
	"attestd/internal/testenv"
)

// The TypeScript client goes through the proxy unchanged as well, with the protocol's own server of
// examples and with that of go-sdk.
func TestTypeScript(t *testing.T) {
	t.Parallel()
	node := testenv.Path(t, "node")
	everything := filepath.Join("testdata", "node_modules", "@modelcontextprotocol", "server-everything", "dist", "index.js")
	if _, err := os.Stat(everything); err != nil {
		testenv.Missing(t, "there is no server-everything: npm ci --prefix test/mcp/testdata")
	}
	everything, err := filepath.Abs(everything)
	must.OK(t, err)
	for _, c := range []struct {
		revision, server string
		command          []string
	}{
		{"2025-06-18", "everything", []string{node, everything, "stdio"}},
		{"2025-11-25", "everything", []string{node, everything, "stdio"}},
		{"2025-11-25", "tools", tools(t)},
		{"2026-07-28", "tools", tools(t)},
	} {
		t.Run(c.revision+"_"+c.server, func(t *testing.T) {
			t.Parallel()
			if c.revision == "2025-06-18" {
				testenv.Needs(t, testenv.Slow) // the next one shows most of it
			}
			s := serve(t)
			folder := t.TempDir()
			proxy := s.proxy(folder, filepath.Join(folder, "state"), c.command, "--server", c.server)
			plan, err := json.Marshal(map[string]any{"command": proxy.Args, "revision": c.revision, "server": c.server})
			must.OK(t, err)
			run := exec.Command(node, "typescript.mjs", string(plan))
			run.Dir, run.Env = "testdata", proxy.Env
			out, err := run.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%.2000s", err, out)
			}
			calls, err := strconv.Atoi(strings.TrimSpace(string(out)))
			must.OK(t, err)
			sent, got := unchanged(t, folder)
			input := count(got, `"resultType":"input_required"`)
			if asked := count(sent, `"method":"tools/call"`); asked != calls+input {
				t.Errorf("%d calls, %d answers that need input, %d on the wire", calls, input, asked)
			}
			list := s.verified()
			if n := counts(list); n["requested"] != calls+input || n["completed"]+n["failed"] != calls || n["pending"] != input || len(list) != 2*(calls+input) {
				t.Errorf("%d calls and %d answers that need input made %v", calls, input, n)
			}
		})
	}
}
