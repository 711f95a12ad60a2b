package testenv

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// Tool returns the path of a program: that in $PATH, or else one that is built from the module of
// its name below internal/tools, which takes minutes the first time.
func Tool(t testing.TB, name string) string {
	t.Helper()
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	_, here, _, _ := runtime.Caller(0)
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", dir+"/", "tool")
	build.Dir = filepath.Join(filepath.Dir(here), "..", "tools", name)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build %s: %v\n%s", name, err, out)
	}
	return filepath.Join(dir, name)
}
