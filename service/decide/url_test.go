package decide_test

import (
	"strings"
	"testing"

	"attestd/service/decide"
)

// A path is decided in the one form that all services read in the same way.
func TestURLOfRequest(t *testing.T) {
	t.Parallel()
	for target, want := range map[string]string{
		"/":                       "/",
		"/v1/users?admin=true":    "/v1/users",
		"/v1/./users":             "/v1/users",
		"/v1/public/../admin":     "/v1/admin",
		"/v1/public/%2e%2E/admin": "/v1/admin",
		"/v1/%61dmin":             "/v1/admin",
		"/v1/users/..":            "/v1/",
		"/v1/users/.":             "/v1/users/",
		"/v1/users/":              "/v1/users/",
		"/caf%C3%A9":              "/café",
		"/a;b=1/c":                "/a;b=1/c",
		"/a?b=//c%00":             "/a",
	} {
		u, ok := decide.NewURL("GET", "https", "API.example:443", target)
		if !ok || u.String() != "https://api.example"+want || u.Method != "GET" {
			t.Errorf("%s is %q, %v", target, u, ok)
		}
	}
	for _, target := range []string{
		"", "*", "v1", "http://api.example/", "//v1", "/v1//users", "/v1%2Fadmin", "/v1%2fadmin", "/v1%5Cadmin", `/v1\admin`, "/v1%00", "/v1%0d%0aX: y", "/v1%7F", "/%252e%252e/admin", "/..",
		"/v1/../../admin", "/v1/..;/admin", "/v1/%2e%2e%3b/admin", "/v1/.;x/admin", "/v1#admin", "/v1%23admin", "/v1%3Fadmin", "/v1%", "/v1%4", "/v1%zz", "/v1 admin", "/v1/é", "/%ff", "/%c0%af",
		"/" + strings.Repeat("a", 9000),
	} {
		if u, ok := decide.NewURL("GET", "https", "api.example", target); ok {
			t.Errorf("%q is decided as %s", target, u)
		}
	}
}

func TestHostOfRequest(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]string{
		"API.Example": "api.example", "api.example:443": "api.example", "api.example:80": "api.example:80", "10.0.0.1:8443": "10.0.0.1:8443", "[2001:DB8::1]:443": "[2001:db8::1]", "my_service": "my_service",
	} {
		if u, ok := decide.NewURL("GET", "https", host, "/"); !ok || u.Host != want {
			t.Errorf("%s is %q, %v", host, u.Host, ok)
		}
	}
	for _, host := range []string{
		"", "api.example.", ".example", "api..example", "api.example:", "api.example:0", "api.example:0443", "api.example:99999", "user@api.example", "api.example/x", "api.example, evil.example",
		"[::1", "[fe80::1%25eth0]", "::1", "api example", "api.example\x00", "-a", strings.Repeat("a", 254),
	} {
		if u, ok := decide.NewURL("GET", "https", host, "/"); ok {
			t.Errorf("%q is decided as %s", host, u)
		}
	}
	for _, method := range []string{"", "get", "GET ", "G-T", strings.Repeat("A", 33)} {
		if _, ok := decide.NewURL(method, "https", "api.example", "/"); ok {
			t.Errorf("%q is a method", method)
		}
	}
	if _, ok := decide.NewURL("GET", "HTTPS", "api.example", "/"); ok {
		t.Error("HTTPS is a scheme")
	}
}

// FuzzURL holds that what is decided is clean, and its own clean form.
func FuzzURL(f *testing.F) {
	f.Add("GET", "https", "api.example:8443", "/a/%2e%2e/b?c")
	f.Add("POST", "http", "[::1]:80", "/%41;x")
	f.Fuzz(func(t *testing.T, method, scheme, host, target string) {
		u, ok := decide.NewURL(method, scheme, host, target)
		if !ok {
			return
		}
		if strings.Contains(u.Path, "//") || strings.Contains(u.Path, "/../") || strings.HasSuffix(u.Path, "/..") {
			t.Fatalf("%q is decided as %s", target, u)
		}
		escaped := strings.NewReplacer(" ", "%20").Replace(u.Path)
		for _, r := range u.Path {
			if r >= 0x7f {
				return
			}
		}
		if again, ok := decide.NewURL(method, scheme, u.Host, escaped); !ok || again != u {
			t.Fatalf("%s is decided as %s the second time, %v", u, again, ok)
		}
	})
}
