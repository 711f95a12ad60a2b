package mcpproxy

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A code, and with it a secret, is sent to no authorization server over http, unless it is on this
// machine.
func TestAuthorizationServersAreEncrypted(t *testing.T) {
	t.Parallel()
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/.well-known/oauth-protected-resource/mcp":
			_, _ = io.WriteString(w, `{"resource":"`+server.URL+`/mcp","authorization_servers":["`+server.URL+`"]}`)
		case "/.well-known/oauth-authorization-server":
			_, _ = io.WriteString(w, `{"issuer":"`+server.URL+`","authorization_endpoint":"`+server.URL+`/authorize","token_endpoint":"http://192.0.2.1/token","code_challenge_methods_supported":["S256"]}`)
		case "/authorize":
			q := r.URL.Query()
			http.Redirect(w, r, q.Get("redirect_uri")+"?code=hush&state="+q.Get("state"), http.StatusFound)
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	s := NewSignIn(func() (string, error) { return "", nil }, func(string) error { return nil }, func(address string) {
		go func() {
			if resp, err := http.Get(address); err == nil {
				resp.Body.Close()
			}
		}()
	})
	s.OAuth = OAuthClient{ID: "client", Secret: "hush", Issuer: server.URL}
	request := httptest.NewRequest(http.MethodPost, server.URL+"/mcp", nil)
	err := s.authorize(t.Context(), &http.Response{StatusCode: http.StatusUnauthorized, Header: make(http.Header),
		Request: request, Body: http.NoBody})
	if err == nil || !strings.Contains(err.Error(), "does not use HTTPS") || strings.Contains(err.Error(), "hush") {
		t.Error(err)
	}
}

// A stored grant counts for the client and issuer alone to which it was given.
func TestGrantsOfOtherClientsAreIgnored(t *testing.T) {
	t.Parallel()
	const stored = `{"clientId":"a","issuer":"https://as.example","tokenUrl":"https://as.example/token","token":{"access_token":"t","expiry":"2999-01-01T00:00:00Z"}}`
	for _, c := range []struct {
		client OAuthClient
		want   string
	}{
		{OAuthClient{ID: "a", Issuer: "https://as.example"}, "t"},
		{OAuthClient{ID: "b", Issuer: "https://as.example"}, ""},
		{OAuthClient{ID: "a", Issuer: "https://other.example", Secret: "hush"}, ""},
		{OAuthClient{ID: "a"}, ""},
		{OAuthClient{}, ""},
	} {
		s := NewSignIn(func() (string, error) { return stored, nil }, nil, nil)
		s.OAuth = c.client
		if got, err := s.token(); got != c.want || err != nil {
			t.Errorf("%+v: %q, %v", c.client, got, err)
		}
	}
}

func TestParseRedirect(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		"http://127.0.0.1:8765/callback": true, "http://localhost/callback": true, "http://[::1]:1/": true, "http://localhost": true,
		"https://localhost/x": false, "http://example.com/x": false, "http://localhost/x?y": false, "http://a@localhost/x": false, "localhost:1": false, "": false,
	} {
		if _, err := ParseRedirect(text); (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
	}
}
