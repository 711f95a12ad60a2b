package testenv

import (
	"errors"
	"os/exec"
	"testing"
)

// Chromium returns the path of the browser. It prefers Chromium's headless shell, which needs half
// the processor time.
func Chromium(t testing.TB) string {
	t.Helper()
	path, err := chromium()
	if err != nil {
		Missing(t, err.Error())
	}
	return path
}

func chromium() (string, error) {
	for _, name := range []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "headless_shell"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("no Chromium is installed: apt-get install chromium-headless-shell")
}
