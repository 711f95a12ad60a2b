package mcptest

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"attestd/internal/must"
)

// authServer is an MCP server of the SDK that asks for OAuth, and its authorization server.
type authServer struct {
	*httptest.Server
	tools     http.Handler
	signedIn  atomic.Int64
	refreshed atomic.Int64
	requested atomic.Int64 // tokens, also in vain

	// A client that is registered here, where there is no dynamic registration; "" for none.
	client, secret string
	documents      bool // it takes the URLs of client ID metadata documents

	mu        sync.Mutex
	challenge map[string]string // by code
	token     string            // the one that is valid
}

func newAuthServer(t *testing.T) *authServer {
	tools := toolServer()
	s := &authServer{
		challenge: make(map[string]string),
		tools:     mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return tools }, &mcp.StreamableHTTPOptions{Stateless: true}),
	}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *authServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer := func(v any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v) // the client reports what is missing
	}
	s.mu.Lock()
	token := s.token
	s.mu.Unlock()
	switch r.URL.Path {
	case "/mcp":
		if token == "" || r.Header.Get("Authorization") != "Bearer "+token {
			w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+s.URL+`/metadata"`)
			http.Error(w, "sign in", http.StatusUnauthorized)
			return
		}
		s.tools.ServeHTTP(w, r)
	case "/metadata":
		answer(map[string]any{"resource": s.URL + "/mcp", "authorization_servers": []string{s.URL}})
	case "/.well-known/oauth-authorization-server":
		metadata := map[string]any{
			"issuer": s.URL, "authorization_endpoint": s.URL + "/authorize", "token_endpoint": s.URL + "/token",
			"code_challenge_methods_supported": []string{"S256"}, "response_types_supported": []string{"code"},
			"client_id_metadata_document_supported": s.documents,
		}
		if s.client == "" {
			metadata["registration_endpoint"] = s.URL + "/register"
		}
		answer(metadata)
	case "/register":
		var metadata map[string]any
		_ = json.NewDecoder(r.Body).Decode(&metadata) // an empty one is answered likewise
		metadata["client_id"] = "client-1"
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(metadata)
	case "/authorize":
		s.signedIn.Add(1)
		q := r.URL.Query()
		if q.Get("code_challenge_method") != "S256" || q.Get("resource") != s.URL+"/mcp" {
			http.Error(w, "no PKCE or no resource", http.StatusBadRequest)
			return
		}
		if s.client != "" && q.Get("client_id") != s.client {
			http.Error(w, "unknown client", http.StatusBadRequest)
			return
		}
		s.mu.Lock()
		s.challenge["hush-code"] = q.Get("code_challenge")
		s.mu.Unlock()
		http.Redirect(w, r, q.Get("redirect_uri")+"?code=hush-code&state="+q.Get("state"), http.StatusFound)
	case "/token":
		s.requested.Add(1)
		s.mu.Lock()
		defer s.mu.Unlock()
		id, secret, basic := r.BasicAuth()
		if !basic {
			id, secret = r.FormValue("client_id"), r.FormValue("client_secret")
		}
		if s.client != "" && (id != s.client || secret != s.secret) {
			http.Error(w, `{"error":"invalid_client"}`, http.StatusUnauthorized)
			return
		}
		if r.FormValue("grant_type") == "refresh_token" {
			s.refreshed.Add(1)
			if r.FormValue("refresh_token") != "hush-refresh" {
				http.Error(w, `{"error":"invalid_grant"}`, http.StatusBadRequest)
				return
			}
			s.token = "hush-second"
		} else {
			sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
			if s.challenge[r.FormValue("code")] != base64.RawURLEncoding.EncodeToString(sum[:]) {
				http.Error(w, `{"error":"invalid_grant"}`, http.StatusBadRequest)
				return
			}
			s.token = "hush-first"
		}
		answer(map[string]any{"access_token": s.token, "token_type": "Bearer", "refresh_token": "hush-refresh", "expires_in": 3600})
	default:
		http.NotFound(w, r)
	}
}

// browser is standard error of the proxy. It opens the first address to sign in, as the user would.
type browser struct {
	t    *testing.T
	mu   sync.Mutex
	text strings.Builder
	used map[string]bool
}

var signInAddress = regexp.MustCompile(`with your browser: (http\S+)\n`)

func (b *browser) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text.Write(text)
	for _, m := range signInAddress.FindAllStringSubmatch(b.text.String(), -1) {
		if address := m[1]; !b.used[address] {
			b.used[address] = true
			go b.open(address)
		}
	}
	return len(text), nil
}

func (b *browser) open(address string) {
	// a page of another program knows the port, and not the state
	if at := regexp.MustCompile(`redirect_uri=http%3A%2F%2F127\.0\.0\.1%3A(\d+)`).FindStringSubmatch(address); at != nil {
		resp, err := http.Get("http://127.0.0.1:" + at[1] + "/callback?code=evil&state=x")
		if err != nil || resp.StatusCode != http.StatusBadRequest {
			b.t.Errorf("a callback with another state: %v, %v", resp, err)
		}
	}
	resp, err := http.Get(address)
	if err != nil {
		b.t.Error(err)
		return
	}
	defer resp.Body.Close()
	if text, _ := io.ReadAll(resp.Body); !strings.HasPrefix(string(text), "Signed in.") {
		b.t.Errorf("the browser shows %s", text)
	}
}

// signIn runs a session of some calls with a proxy that signs in, and returns what it has printed.
func (s *service) signIn(folder string, upstream *authServer, calls int, flags ...string) *browser {
	s.t.Helper()
	b := &browser{t: s.t, used: map[string]bool{}}
	cmd := s.bridging(filepath.Join(folder, "state"), upstream.URL+"/mcp", append(flags, "--sign-in")...)
	cmd.Env = append(cmd.Env, "XDG_CONFIG_HOME="+folder, "HOME="+folder, "PATH="+folder)
	cmd.Stderr = b
	session, err := new(events).client().Connect(s.t.Context(), &mcp.CommandTransport{Command: cmd},
		&mcp.ClientSessionOptions{ProtocolVersion: "2026-07-28"})
	must.OK(s.t, err)
	p := &proxied{ClientSession: session}
	var all sync.WaitGroup
	for range calls {
		all.Go(func() { p.says(s.t, "echo", "one", "one") })
	}
	all.Wait()
	must.OK(s.t, p.Close())
	b.mu.Lock()
	defer b.mu.Unlock()
	if strings.Contains(b.text.String(), "hush") {
		s.t.Errorf("the proxy printed %s", b.text.String())
	}
	return b
}

// An upstream that asks for OAuth has the user sign in once, for many calls at a time. The tokens
// are private, outlive the proxy, are renewed, and are stored nowhere else.
func TestHTTPSignIn(t *testing.T) {
	t.Parallel()
	s, upstream, folder := serve(t), newAuthServer(t), t.TempDir()
	run := func(calls int) { s.signIn(folder, upstream, calls) }
	run(20)
	if n := upstream.signedIn.Load(); n != 1 {
		t.Errorf("the user signed in %d times", n)
	}
	files, err := filepath.Glob(filepath.Join(folder, "attestd", "tokens", "*.json"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	info, err := os.Stat(files[0])
	must.OK(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	run(1)
	if n := upstream.signedIn.Load(); n != 1 {
		t.Errorf("the user signed in %d times", n)
	}
	text, err := os.ReadFile(files[0])
	must.OK(t, err)
	expired := regexp.MustCompile(`"expiry":"[^"]+"`).ReplaceAllString(string(text), `"expiry":"2020-01-01T00:00:00Z"`)
	must.OK(t, os.WriteFile(files[0], []byte(expired), 0o600))
	run(1)
	if n, r := upstream.signedIn.Load(), upstream.refreshed.Load(); n != 1 || r != 1 {
		t.Errorf("the user signed in %d times, %d tokens were renewed", n, r)
	}
	if text, err = os.ReadFile(files[0]); err != nil || !strings.Contains(string(text), "hush-second") {
		t.Errorf("the new token is not stored: %v", err)
	}
	// a token that the server no longer takes
	upstream.mu.Lock()
	upstream.token = "hush-other"
	upstream.mu.Unlock()
	run(3)
	if n := upstream.signedIn.Load(); n != 2 {
		t.Errorf("the user signed in %d times", n)
	}
	for _, c := range s.verified() {
		if c.Action == "tool.failed" {
			t.Errorf("%+v", c)
		}
	}
	out, err := exec.Command(lab.Binary(), "mcp", "--upstream", "http://mcp.example.com/mcp", "--allow-http", "--sign-in").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "not sent over http") {
		t.Errorf("%v %s", err, out)
	}
}

// Where clients cannot register themselves, the proxy signs in as one that was registered: a public
// one, one with a secret, or one that a document describes. The secret is in no other file.
func TestHTTPSignInAsRegisteredClient(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		client, secret string
		documents      bool
	}{
		"public": {client: "client-7"}, "secret": {client: "client-7", secret: "hush-secret"},
		"document": {client: "https://client.example.com/attestd.json", documents: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, upstream, folder := serve(t), newAuthServer(t), t.TempDir()
			upstream.client, upstream.secret, upstream.documents = c.client, c.secret, c.documents
			flags := []string{"--client-id", c.client}
			file := filepath.Join(folder, "secret")
			if c.secret != "" {
				must.OK(t, os.WriteFile(file, []byte(c.secret+"\n"), 0o600))
				flags = append(flags, "--client-secret-file", file, "--issuer", upstream.URL)
			}
			s.signIn(folder, upstream, 3, flags...)
			files, err := filepath.Glob(filepath.Join(folder, "attestd", "tokens", "*.json"))
			if err != nil || len(files) != 1 {
				t.Fatal(files, err)
			}
			text, err := os.ReadFile(files[0])
			must.OK(t, err)
			if strings.Contains(string(text), "hush-secret") {
				t.Errorf("the secret is stored: %s", text)
			}
			expired := regexp.MustCompile(`"expiry":"[^"]+"`).ReplaceAllString(string(text), `"expiry":"2020-01-01T00:00:00Z"`)
			must.OK(t, os.WriteFile(files[0], []byte(expired), 0o600))
			s.signIn(folder, upstream, 1, flags...)
			if n, r := upstream.signedIn.Load(), upstream.refreshed.Load(); n != 1 || r == 0 {
				t.Errorf("the user signed in %d times, %d tokens were renewed", n, r)
			}
		})
	}
}

// A secret goes to the authorization server of --issuer alone, whichever the upstream names, and
// without a registered client the error says what to do.
func TestHTTPSignInRefusesOtherIssuers(t *testing.T) {
	t.Parallel()
	s, upstream, folder := serve(t), newAuthServer(t), t.TempDir()
	upstream.client, upstream.secret = "client-7", "hush-secret"
	file := filepath.Join(folder, "secret")
	must.OK(t, os.WriteFile(file, []byte(upstream.secret), 0o600))
	try := func(flags ...string) string {
		t.Helper()
		cmd := s.bridging(filepath.Join(folder, "state"), upstream.URL+"/mcp", append(flags, "--sign-in")...)
		cmd.Env = append(cmd.Env, "XDG_CONFIG_HOME="+folder, "HOME="+folder, "PATH="+folder)
		cmd.Stdin, cmd.Stderr = strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n"), nil
		out, _ := cmd.CombinedOutput() // the status is that of the end of input
		return string(out)
	}
	for want, flags := range map[string][]string{
		"does not match pre-registered credentials issuer": {"--client-id", "client-7", "--client-secret-file", file, "--issuer", "https://other.example.com"},
		"register one and name it with --client-id":        nil,
		"needs --issuer":                 {"--client-id", "client-7", "--client-secret-file", file},
		"need --client-id":               {"--issuer", upstream.URL},
		"must be an http URL":            {"--client-id", "client-7", "--redirect-url", "http://other.example.com/callback"},
		"--client-secret-file: stat ":    {"--client-id", "client-7", "--issuer", upstream.URL, "--client-secret-file", file + "x"},
		"--issuer must begin with https": {"--client-id", "client-7", "--issuer", "http://other.example.com"},
	} {
		if answer := try(flags...); !strings.Contains(answer, want) || strings.Contains(answer, "hush") {
			t.Errorf("%v: %s, want %s", flags, answer, want)
		}
	}
	if n := upstream.requested.Load(); n != 0 {
		t.Errorf("%d tokens were requested", n)
	}
}
