package mcpserver_test

import (
	"net/http"
	"strings"
	"testing"

	"attestd/agent/mcpserver"
)

// The metadata is public, the same for every page, and at the place that RFC 9728 §3.1 gives it.
func TestResourceMetadata(t *testing.T) {
	t.Parallel()
	i := newIssuers(t)
	for url, path := range map[string]string{
		resource: metadataPath, "https://mcp.example": "/.well-known/oauth-protected-resource", "https://mcp.example/": "/.well-known/oauth-protected-resource",
		"https://mcp.example:8443/a/b": "/.well-known/oauth-protected-resource/a/b",
	} {
		h := i.protected(t, url, nowhere)
		at := func(path string) func(*http.Request) {
			return func(r *http.Request) {
				r.Method, r.URL.Path, r.Host = "GET", path, "mcp.example"
				r.Header.Set("Origin", "https://any.example")
			}
		}
		answer, text := post(h, "", "", at(path))
		want := `{"resource":"` + url + `","authorization_servers":["` + i.of("acme") + `"],"bearer_methods_supported":["header"],"dpop_signing_alg_values_supported":["ES256","EdDSA","Ed25519"],"resource_name":"attestd MCP server"}`
		if answer.StatusCode != 200 || text != want || answer.Header.Get("Access-Control-Allow-Origin") != "*" ||
			answer.Header.Get("Content-Type") != "application/json" || answer.Header.Get("Cache-Control") != "public, max-age=300" {
			t.Errorf("%s: %d %s %v", url, answer.StatusCode, text, answer.Header)
		}
		for _, elsewhere := range []string{path + "/", path + "/x", "/.well-known/oauth-authorization-server", "/v1/company"} {
			if answer, _ := post(h, "", "", at(elsewhere)); answer.StatusCode != 404 {
				t.Errorf("%s: %s is %d", url, elsewhere, answer.StatusCode)
			}
		}
		if answer, _ := post(h, "", "", func(r *http.Request) { at(path)(r); r.Method = "OPTIONS" }); answer.StatusCode != 204 {
			t.Errorf("a preflight: %d", answer.StatusCode)
		}
		if answer, _ := post(h, "", "", func(r *http.Request) { at(path)(r); r.Method = "POST" }); answer.StatusCode != 405 {
			t.Errorf("a POST: %d", answer.StatusCode)
		}
	}
}

// A resource without a path has two spellings, and both mean it.
func TestResourceWithoutPath(t *testing.T) {
	t.Parallel()
	i := newIssuers(t)
	for _, url := range []string{"https://mcp.example", "https://mcp.example/"} {
		h := i.protected(t, url, nowhere)
		for audience, want := range map[string]int{"https://mcp.example": 200, "https://mcp.example/": 200, "https://mcp.example//": 401, resource: 401} {
			d := i.sound()
			d.claims["aud"] = audience
			answer, text := post(h, ping, i.sign(t, d), func(r *http.Request) { r.URL.Path = "/" })
			if answer.StatusCode != want {
				t.Errorf("%s, aud %s: %d %s", url, audience, answer.StatusCode, text)
			}
		}
	}
	for _, url := range []string{
		"", "mcp.example/mcp", "http://mcp.example/mcp", "https://", "https:///mcp", "https://a:b@mcp.example/mcp", "https://mcp.example/mcp?a=b",
		"https://mcp.example/mcp#f", "https://mcp.example/mcp/", "https://mcp.example//mcp", "https://mcp.example/m\"cp", "https://mcp.example/m cp",
		"https://mcp.example" + metadataPath, "https://mcp.example/" + strings.Repeat("x", 1024),
	} {
		if mcpserver.CheckResource(url) == nil {
			t.Errorf("%q is a resource", url)
		}
	}
}

// A proxy may name the public host; other hosts and other origins are refused, with a token too.
func TestHostsAndOriginsOfResource(t *testing.T) {
	t.Parallel()
	i := newIssuers(t)
	h := i.protected(t, resource, nowhere)
	token := i.sign(t, i.sound())
	for name, c := range map[string]struct {
		want   int
		change func(*http.Request)
	}{
		"the public host":       {200, func(r *http.Request) { r.Host = "mcp.example" }},
		"in another case":       {200, func(r *http.Request) { r.Host = "MCP.example" }},
		"a page of its own":     {200, func(r *http.Request) { r.Header.Set("Origin", "https://mcp.example") }},
		"another host":          {403, func(r *http.Request) { r.Host = "evil.example" }},
		"another port":          {403, func(r *http.Request) { r.Host = "127.0.0.1:2" }},
		"a page of elsewhere":   {403, func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }},
		"the page without TLS":  {403, func(r *http.Request) { r.Header.Set("Origin", "http://mcp.example") }},
		"a page of no origin":   {403, func(r *http.Request) { r.Header.Set("Origin", "null") }},
		"one page of its two":   {403, func(r *http.Request) { r.Header["Origin"] = []string{"https://mcp.example", "https://evil.example"} }},
		"another path":          {404, func(r *http.Request) { r.URL.Path = "/mcp/" }},
		"a path with an escape": {404, func(r *http.Request) { r.URL.Path, r.URL.RawPath = "/mcp", "/%6dcp" }},
	} {
		if answer, text := post(h, ping, token, c.change); answer.StatusCode != c.want {
			t.Errorf("%s: %d %s", name, answer.StatusCode, text)
		}
	}
}
