package testenv

import (
	"os/exec"
	"testing"
)

// Firefox returns the path of Firefox.
func Firefox(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"firefox-esr", "firefox"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	Missing(t, "no Firefox is installed: apt-get install firefox-esr")
	return ""
}
