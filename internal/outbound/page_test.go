package outbound_test

import (
	"strings"
	"testing"

	"attestd/internal/outbound"
)

// A page is distinguished from what a receiver answers by its first tag alone.
func TestPagesAreRecognized(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]bool{
		"<html>Sign in</html>": true, "\ufeff\n <!DOCTYPE HTML>\n<title>x</title>": true, "<HTML lang=en>": true, "<!doctype html PUBLIC>": true,
		"": false, "ok": false, "<b>ok</b>": false, "<htmlx>": false, "<html": false, `{"ok":"<html>"}`: false,
		strings.Repeat(" ", 1<<10) + "<html>": false,
	} {
		if outbound.IsPage([]byte(body)) != want {
			t.Errorf("%.40q: %v", body, !want)
		}
	}
}

func FuzzIsPage(f *testing.F) {
	f.Add([]byte("<!doctype html>"))
	f.Fuzz(func(t *testing.T, body []byte) {
		if outbound.IsPage(body) && !strings.Contains(strings.ToLower(string(body)), "html") {
			t.Errorf("%q", body)
		}
	})
}
