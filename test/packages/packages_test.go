// Package packages checks the packages of the clients with the tools that their users' editors and
// compilers trust.
package packages

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"attestd/internal/testenv"
)

const typescript = "../../sdk/typescript"

// tool is a program of node_modules as a command in a folder. CI has all of them; elsewhere the
// test is skipped where it is missing.
func tool(t *testing.T, dir, name string, args ...string) *exec.Cmd {
	t.Helper()
	path, err := filepath.Abs("node_modules/.bin/" + name)
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		testenv.Missing(t, "there is no "+name+": npm ci --prefix test/packages --ignore-scripts")
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Dir = dir
	return cmd
}

func run(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %v\n%s", cmd.Args[1:], err, out)
	}
}

// What `npm pack` makes of the TypeScript client resolves, with types that fit, by import and by
// require, in Node, in bundlers and in older compilers.
func TestNodePackageResolvesEverywhere(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat(typescript + "/dist/cjs/index.js"); err != nil {
		testenv.Missing(t, "the TypeScript client is not built: npm ci --prefix sdk/typescript")
	}
	packed := t.TempDir()
	pack := exec.CommandContext(t.Context(), testenv.Path(t, "npm"), "pack", "--ignore-scripts", "--pack-destination", packed)
	pack.Dir = typescript
	run(t, pack)
	made, err := filepath.Glob(packed + "/attestd-*.tgz")
	if err != nil || len(made) != 1 {
		t.Fatal("npm pack makes ", made, err)
	}
	run(t, tool(t, typescript, "attw", made[0]))
	run(t, tool(t, typescript, "publint", "run", made[0], "--strict"))
}
