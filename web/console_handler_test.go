package web_test

import (
	"compress/gzip"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"attestd/internal/must"
	"attestd/web"
)

func get(t *testing.T, method, url string, header ...string) *http.Response {
	t.Helper()
	h, _ := web.Console()
	r := httptest.NewRequest(method, url, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	must.OK(t, err)
	return string(b)
}

func TestConsolePage(t *testing.T) {
	t.Parallel()
	r := get(t, "GET", "/")
	if r.StatusCode != 200 || !strings.HasPrefix(r.Header.Get("Content-Type"), "text/html") {
		t.Fatalf("%d %s", r.StatusCode, r.Header.Get("Content-Type"))
	}
	policy := r.Header.Get("Content-Security-Policy")
	for _, directive := range []string{
		"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "base-uri 'none'",
		"form-action 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'", "trusted-types worker",
	} {
		if !strings.Contains(policy, directive) {
			t.Errorf("the policy lacks %s", directive)
		}
	}
	if strings.Contains(policy, "unsafe") || strings.Contains(policy, "*") {
		t.Error("the policy is loose: ", policy)
	}
	for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin"} {
		if got := r.Header.Get(name); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
	if html := body(t, r); regexp.MustCompile(`(?i)<style|\son[a-z]+=|style=|<script(?:>| [^>]*>[^<])`).MatchString(html) {
		t.Error("the page has inline script or style")
	}
}

// Each evidence checker is served in one file. The page's own policy, which also applies from disk,
// is sent with it and allows no request.
func TestCheckersAreServed(t *testing.T) {
	t.Parallel()
	for name, contentType := range map[string]string{"/verifier.html": "text/html", "/check.py": "text/plain", "/check.mjs": "text/javascript"} {
		r := get(t, "GET", name)
		text, policy := body(t, r), r.Header.Get("Content-Security-Policy")
		if r.StatusCode != 200 || !strings.HasPrefix(r.Header.Get("Content-Type"), contentType) || r.Header.Get("X-Content-Type-Options") != "nosniff" || len(text) < 10_000 {
			t.Errorf("%s: %d %v", name, r.StatusCode, r.Header)
		}
		if !strings.HasPrefix(policy, "default-src 'none'") || !strings.HasSuffix(policy, "; frame-ancestors 'none'") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: policy %s", name, policy)
		}
		if name != "/verifier.html" {
			continue
		}
		own := strings.TrimSuffix(policy, "; frame-ancestors 'none'")
		if !strings.Contains(text, `<meta http-equiv="Content-Security-Policy" content="`+own+`">`) || strings.Count(own, "'sha256-") != 2 || strings.Contains(own, "-src 'self'") || strings.Contains(own, "connect-src") {
			t.Errorf("the page has not the policy %s", own)
		}
		if hosts := regexp.MustCompile(`(?i)<(link|img|iframe|script [^>]*src|a )|\son[a-z]+=|style=`).FindString(regexp.MustCompile(`(?s)<script>.*</script>|<!--.*-->`).ReplaceAllString(text, "")); hosts != "" {
			t.Errorf("the page has %q", hosts)
		}
	}
}

func TestConsoleAnswers(t *testing.T) {
	t.Parallel()
	_, has := web.Console()
	tests := []struct {
		method, path string
		has          bool
		status       int
	}{
		{"GET", "/", true, 200},
		{"HEAD", "/", true, 200},
		{"GET", "/console.js", true, 200},
		{"GET", "/console.css", true, 200},
		{"GET", "/verify_worker.js", true, 200},
		{"GET", "/vendor/LICENSE-preact", true, 200},
		{"GET", "/app.js", false, 404},
		{"GET", "/favicon.svg", true, 200},
		{"POST", "/", true, 405},
		{"GET", "/index.html", false, 404},
		{"GET", "/pages", false, 404},
		{"GET", "/../console.go", false, 404},
		{"GET", "/v1/health", false, 404},
	}
	for _, tt := range tests {
		if got := has(tt.path); got != tt.has {
			t.Errorf("has(%q) = %v", tt.path, got)
		}
		r := get(t, tt.method, tt.path)
		if r.StatusCode != tt.status {
			t.Errorf("%s %s: %d", tt.method, tt.path, r.StatusCode)
		}
		if tt.method == "HEAD" && body(t, r) != "" {
			t.Errorf("HEAD %s has a body", tt.path)
		}
	}
}

func TestConsoleIsRevalidatedAndCompressed(t *testing.T) {
	t.Parallel()
	plain := get(t, "GET", "/console.js")
	if again := get(t, "GET", "/console.js", "If-None-Match", plain.Header.Get("ETag")); again.StatusCode != 304 || body(t, again) != "" {
		t.Errorf("unchanged: %d", again.StatusCode)
	}
	zipped := get(t, "GET", "/console.js", "Accept-Encoding", "br, gzip")
	if zipped.Header.Get("Content-Encoding") != "gzip" {
		t.Fatal("not compressed")
	}
	z, err := gzip.NewReader(zipped.Body)
	must.OK(t, err)
	content, err := io.ReadAll(z)
	must.OK(t, err)
	if string(content) != body(t, plain) {
		t.Error("compressed and plain content differ")
	}
}

// A first visit loads the page, its script and its style with one request each, and they are small.
// Every script that another one imports is served, and none of our files names another host.
func TestConsoleIsCompleteAndSmall(t *testing.T) {
	t.Parallel()
	const limit = 142_500
	imports := regexp.MustCompile(`(?:from|import\() ?'(/[^']+)'|(?:href|src)="(/[^"#]+)"`)
	cold := 0
	seen := map[string]bool{}
	var load func(url string)
	load = func(url string) {
		if seen[url] {
			return
		}
		seen[url] = true
		r := get(t, "GET", url)
		if r.StatusCode != 200 {
			t.Errorf("%s is named, and not served", url)
		}
		for _, m := range imports.FindAllStringSubmatch(body(t, r), -1) {
			load(m[1] + m[2])
		}
	}
	load("/")
	for _, url := range []string{"/", "/console.js", "/console.css", "/favicon.svg"} {
		if !seen[url] {
			t.Errorf("the page does not name %s", url)
		}
		cold += len(body(t, get(t, "GET", url, "Accept-Encoding", "gzip")))
	}
	t.Logf("%d bytes", cold)
	if cold > limit {
		t.Errorf("a first visit loads %d bytes, more than %d", cold, limit)
	}
	hosts := regexp.MustCompile(`(?:https?|wss?)://[a-z]`)
	must.OK(t, filepath.WalkDir("console", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.Contains(filepath.ToSlash(name), "/vendor/") {
			return err
		}
		content, err := os.ReadFile(name)
		if ext := filepath.Ext(name); (ext == ".js" || ext == ".css" || ext == ".html") && hosts.Match(content) {
			t.Errorf("%s names another host: %s", name, hosts.Find(content))
		}
		return err
	}))
}
