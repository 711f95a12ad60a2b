package mcptest

import (
	"bufio"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/auth/extauth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"attestd/internal/must"
	"attestd/sdk/attestd"
)

// protected is an attestd mcp-server as a resource, behind a proxy that has the certificate.
type protected struct {
	url    string
	client *http.Client // which trusts the certificate
	roots  string       // file with the certificate
}

// behindTLS starts a proxy with a certificate in front of a server, which start starts for the
// proxy's URL of a path and which is reached at the address that it returns.
func behindTLS(t *testing.T, path string, start func(url string) (address string)) *protected {
	t.Helper()
	proxy := &httputil.ReverseProxy{}
	front := httptest.NewTLSServer(proxy)
	t.Cleanup(front.Close)
	resource := front.URL + path
	address := start(resource)
	proxy.Rewrite = func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: address})
		r.Out.Host = r.In.Host
	}
	roots := filepath.Join(t.TempDir(), "roots.pem")
	must.OK(t, os.WriteFile(roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: front.Certificate().Raw}), 0o600))
	return &protected{resource, front.Client(), roots}
}

// resource starts attestd mcp-server as a resource of the company acme.
func (s *service) resource(flags ...string) *protected {
	s.t.Helper()
	return behindTLS(s.t, "/mcp", func(url string) string {
		args := []string{"mcp-server", "--listen", "127.0.0.1:0", "--resource", url, "--issuer", s.issuer()}
		cmd := exec.Command(lab.Binary(), append(args, flags...)...)
		cmd.Env = append(cmd.Environ(), "ATTESTD_URL=http://"+s.addr, "ATTESTD_KEY="+s.key)
		return started(s.t, cmd, `on http://([0-9.:]+)`)
	})
}

func (s *service) issuer() string { return "http://" + s.addr + "/o/" + s.company }

// started starts a server until the end of the test, and returns the address that it prints.
func started(t *testing.T, cmd *exec.Cmd, pattern string) (address string) {
	t.Helper()
	stderr, err := cmd.StderrPipe()
	must.OK(t, err)
	must.OK(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	lines := bufio.NewReader(stderr)
	for {
		line, err := lines.ReadString('\n')
		if found := regexp.MustCompile(pattern).FindStringSubmatch(line); found != nil {
			go func() { _, _ = lines.WriteTo(testLog{t}) }()
			return found[1]
		}
		if err != nil {
			t.Fatalf("%s ends: %s", cmd.Path, line)
		}
	}
}

// with is a session whose client finds the issuer, gets a token for the resource and shows it.
func (p *protected) with(t *testing.T, handler auth.OAuthHandler, revision string) (*mcp.ClientSession, error) {
	return mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(),
		&mcp.StreamableClientTransport{Endpoint: p.url, HTTPClient: p.client, OAuthHandler: handler, DisableStandaloneSSE: true},
		&mcp.ClientSessionOptions{ProtocolVersion: revision})
}

// oauthClient creates an OAuth client of a role.
func (s *service) oauthClient(role attestd.Role) attestd.OAuthClient {
	s.t.Helper()
	made, err := s.client.CreateOAuthClient(s.t.Context(), attestd.NewCredential{Role: role})
	must.OK(s.t, err)
	return made
}

// token gets an access token of an OAuth client, for a resource where one is named.
func (s *service) token(made attestd.OAuthClient, form url.Values) string {
	s.t.Helper()
	form.Set("grant_type", "client_credentials")
	form.Set("client_id", made.ClientID)
	form.Set("client_secret", made.ClientSecret)
	answer, err := http.PostForm(s.issuer()+"/token", form)
	must.OK(s.t, err)
	defer answer.Body.Close()
	var got struct {
		Token string `json:"access_token"`
	}
	must.OK(s.t, json.NewDecoder(answer.Body).Decode(&got))
	return got.Token
}

// asksFor adds the resource to requests for a token, as MCP demands of clients. The handler of
// go-sdk 1.8.0 leaves it out.
type asksFor struct {
	resource string
	next     http.RoundTripper
}

func (a asksFor) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/token") {
		return a.next.RoundTrip(r)
	}
	if err := r.ParseForm(); err != nil {
		return nil, err
	}
	r.PostForm.Set("resource", a.resource)
	body := r.PostForm.Encode()
	r = r.Clone(r.Context())
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	return a.next.RoundTrip(r)
}

// asking is the client of p that adds the resource.
func (p *protected) asking() *http.Client {
	return &http.Client{Transport: asksFor{p.url, p.client.Transport}}
}

// handler is go-sdk's handler of client credentials.
func (p *protected) handler(t *testing.T, made attestd.OAuthClient, client *http.Client) auth.OAuthHandler {
	t.Helper()
	h, err := extauth.NewClientCredentialsHandler(&extauth.ClientCredentialsHandlerConfig{HTTPClient: client, Credentials: &oauthex.ClientCredentials{
		ClientID: made.ClientID, ClientSecretAuth: &oauthex.ClientSecretAuth{ClientSecret: made.ClientSecret},
	}})
	must.OK(t, err)
	return h
}

// go-sdk's client finds the issuer from a 401, gets a token for the resource, calls tools with it,
// and what its scope does not allow is refused. Without the resource in its request the token is
// for the API, and is refused here.
func TestGoClientAuthorizes(t *testing.T) {
	t.Parallel()
	s := serve(t)
	p := s.resource()
	deed := map[string]any{"agentId": "bot", "actionType": "x", "payload": 1}
	for _, revision := range []string{"2025-06-18", "2025-11-25", "2026-07-28"} {
		session, err := p.with(t, p.handler(t, s.oauthClient(attestd.Writer), p.asking()), revision)
		must.OK(t, err)
		if r, refused := reply(t, session, "attest", deed); refused != "" || r["hash"] == nil {
			t.Errorf("%s: a writer attests: %v %s", revision, r, refused)
		}
		if v, _ := reply(t, session, "verify", nil); v["valid"] != true {
			t.Errorf("%s: a writer verifies: %v", revision, v)
		}
		must.OK(t, session.Close())
		session, err = p.with(t, p.handler(t, s.oauthClient(attestd.Reader), p.asking()), revision)
		must.OK(t, err)
		if v, _ := reply(t, session, "verify", nil); v["valid"] != true {
			t.Errorf("%s: a reader verifies: %v", revision, v)
		}
		// the client asks for the scope of the challenge, which its role does not have
		if r, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "attest", Arguments: deed}); err == nil || !strings.Contains(err.Error(), "invalid_scope") {
			t.Errorf("%s: a reader attests: %v %v", revision, r, err)
		}
		_ = session.Close()
	}
	if _, err := p.with(t, p.handler(t, s.oauthClient(attestd.Writer), p.client), "2025-11-25"); err == nil {
		t.Error("a token for the API is accepted")
	}
	records := 0
	for _, err := range s.client.Records(t.Context(), attestd.Range{}) {
		must.OK(t, err)
		records++
	}
	if records != 3 {
		t.Errorf("%d records", records)
	}
}

// What is no access token of the company for this resource is refused.
func TestResourceRefusesOtherCredentials(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.refusals(s.resource())
}

// A command line that would serve something else than it says is refused.
func TestResourceFlags(t *testing.T) {
	t.Parallel()
	s := serve(t)
	const resource = "https://mcp.example/mcp"
	for name, args := range map[string][]string{
		"no issuer":              {"--listen", "127.0.0.1:0", "--resource", resource},
		"no resource":            {"--listen", "127.0.0.1:0", "--issuer", s.issuer()},
		"standard input":         {"--resource", resource, "--issuer", s.issuer()},
		"http":                   {"--listen", "127.0.0.1:0", "--resource", "http://mcp.example/mcp", "--issuer", s.issuer()},
		"another company":        {"--listen", "127.0.0.1:0", "--resource", resource, "--issuer", "http://" + s.addr + "/o/zoo"},
		"no company":             {"--listen", "127.0.0.1:0", "--resource", resource, "--issuer", "http://" + s.addr},
		"an issuer with a slash": {"--listen", "127.0.0.1:0", "--resource", resource, "--issuer", s.issuer() + "/"},
		"an issuer over http":    {"--listen", "127.0.0.1:0", "--resource", resource, "--issuer", "http://attest.example/o/acme"},
		"not on loopback":        {"--listen", "0.0.0.0:0", "--resource", resource, "--issuer", s.issuer()},
	} {
		cmd := exec.CommandContext(t.Context(), lab.Binary(), append([]string{"mcp-server"}, args...)...)
		cmd.Env = append(cmd.Environ(), "ATTESTD_URL=http://"+s.addr, "ATTESTD_KEY="+s.key)
		out, err := cmd.CombinedOutput()
		if exit, is := errors.AsType[*exec.ExitError](err); !is || exit.ExitCode() != 2 {
			t.Errorf("%s: %v %s", name, err, out)
		}
	}
}
