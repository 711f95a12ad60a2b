package web_test

import (
	"strings"
	"testing"
)

// A running server offers the licenses of what it is made of, as text.
func TestNoticesAreServed(t *testing.T) {
	t.Parallel()
	r := get(t, "GET", "/notices")
	if r.StatusCode != 200 || r.Header.Get("Content-Type") != "text/plain; charset=utf-8" ||
		r.Header.Get("Content-Security-Policy") != "default-src 'none'; frame-ancestors 'none'" {
		t.Errorf("%d %v", r.StatusCode, r.Header)
	}
	if text := body(t, r); !strings.Contains(text, "modernc.org/sqlite v") || !strings.Contains(text, "preact, in the console") {
		t.Errorf("the notices begin with %.300q", text)
	}
}
