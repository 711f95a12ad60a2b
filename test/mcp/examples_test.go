package mcptest

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"attestd/crypto/assertion"
	"attestd/crypto/jose"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/sdk/attestd"
)

// The example in Go accepts access tokens of the issuer for its own URL, and no others.
func TestExampleServerGo(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	t.Parallel()
	program := filepath.Join(t.TempDir(), "server")
	build := exec.Command(testenv.Path(t, "go"), "build", "-o", program, ".")
	build.Dir = filepath.Join("..", "..", "examples", "mcp-server-go")
	build.Env = append(build.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	exampleServer(t, func() *exec.Cmd { return exec.Command(program) })
}

// The example in TypeScript compiles, and does the same.
func TestExampleServerTypeScript(t *testing.T) {
	t.Parallel()
	node := testenv.Path(t, "node")
	folder, err := filepath.Abs(filepath.Join("..", "..", "examples", "mcp-server-typescript"))
	must.OK(t, err)
	modules := filepath.Join(folder, "node_modules")
	if _, err := os.Stat(filepath.Join(modules, "typescript")); err != nil {
		testenv.Missing(t, "there are no packages: npm ci --prefix examples/mcp-server-typescript")
	}
	built := t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(built, "package.json"), []byte(`{"type":"module"}`), 0o600))
	must.OK(t, os.Symlink(modules, filepath.Join(built, "node_modules")))
	compile := exec.Command(node, filepath.Join(modules, "typescript", "bin", "tsc"), "--project", folder, "--outDir", built)
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var flags []string
	if version, err := exec.Command(node, "--version").Output(); err == nil && strings.HasPrefix(string(version), "v18.") {
		flags = []string{"--experimental-global-webcrypto"} // which the SDK expects, as in Node 20
	}
	exampleServer(t, func() *exec.Cmd { return exec.Command(node, append(flags, filepath.Join(built, "server.js"))...) })
}

// exampleServer tries a server of the examples: from a client that knows its URL alone to what it
// refuses.
func exampleServer(t *testing.T, command func() *exec.Cmd) {
	s := serve(t)
	p := behindTLS(t, "/mcp", func(url string) string {
		cmd := command()
		cmd.Env = append(cmd.Environ(), "ISSUER="+s.issuer(), "RESOURCE="+url, "LISTEN=127.0.0.1:0")
		return started(t, cmd, `listens on http://([0-9.:]+)`)
	})
	writer := s.oauthClient(attestd.Writer)
	session, err := p.with(t, p.handler(t, writer, p.asking()), "2025-11-25")
	must.OK(t, err)
	call := func(session *mcp.ClientSession, tool string, args map[string]any) (text string, failed bool) {
		r, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
		if err != nil {
			return err.Error(), true
		}
		return r.Content[0].(*mcp.TextContent).Text, r.IsError
	}
	if got, failed := call(session, "add_note", map[string]any{"text": "hello"}); failed || got != `{"notes":1}` {
		t.Errorf("a writer adds a note: %s", got)
	}
	must.OK(t, session.Close())
	session, err = p.with(t, p.handler(t, s.oauthClient(attestd.Reader), p.asking()), "2026-07-28")
	must.OK(t, err)
	if got, failed := call(session, "list_notes", map[string]any{}); failed || got != `{"notes":["`+writer.ClientID+`: hello"]}` {
		t.Errorf("a reader lists the notes: %s", got)
	}
	if got, failed := call(session, "add_note", map[string]any{"text": "no"}); !failed {
		t.Errorf("a reader adds a note: %s", got)
	}
	_ = session.Close()
	s.refusals(p)

	// a server that is set to accept a delegated caller names the delegator
	q := behindTLS(t, "/mcp", func(url string) string {
		cmd := command()
		cmd.Env = append(cmd.Environ(), "ISSUER="+s.issuer(), "RESOURCE="+url, "LISTEN=127.0.0.1:0", "ACCEPT_ACT=true")
		return started(t, cmd, `listens on http://([0-9.:]+)`)
	})
	q.client = &http.Client{Transport: sends{s.exchanged(q.url), q.client.Transport}}
	session, err = q.with(t, nil, "2025-11-25")
	must.OK(t, err)
	if got, failed := call(session, "add_note", map[string]any{"text": "hello"}); failed || got != `{"notes":1}` {
		t.Errorf("runner adds a note for planner: %s", got)
	}
	agent := "spiffe://attestd.local/company/" + s.company + "/agent/"
	if got, failed := call(session, "list_notes", map[string]any{}); failed || got != `{"notes":["`+agent+"runner for "+agent+`planner: hello"]}` {
		t.Errorf("the notes are %s", got)
	}
	must.OK(t, session.Close())
}

// sends sends an access token with each request, by a client that trusts the proxy.
type sends struct {
	token string
	next  http.RoundTripper
}

func (b sends) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.next.RoundTrip(r)
}

// exchanged is an access token for a resource with which runner acts for planner. The company names
// the resource for exchanges.
func (s *service) exchanged(resource string) string {
	s.t.Helper()
	t, ctx := s.t, s.t.Context()
	must.OK(t, s.client.SetExchangeAudiences(ctx, []string{resource}))
	var tokens []string
	for _, agent := range []string{"planner", "runner"} {
		registered, err := s.client.RegisterAgent(ctx, attestd.NewAgent{AgentID: agent})
		must.OK(t, err)
		key, err := attestd.NewAgentKey(attestd.ES256)
		must.OK(t, err)
		_, err = s.client.EnrolKey(ctx, agent, key, attestd.NewEnrolledKey{})
		must.OK(t, err)
		private, err := key.PrivateJWK()
		must.OK(t, err)
		signer, err := jose.ParsePrivateKey(private)
		must.OK(t, err)
		text, err := assertion.Make(ctx, signer, registered.SPIFFEID, "http://"+s.addr+"/v1/oauth/token", time.Now())
		must.OK(t, err)
		signedIn, err := s.client.AgentToken(ctx, text, "")
		must.OK(t, err)
		tokens = append(tokens, signedIn.AccessToken)
	}
	r, err := http.NewRequestWithContext(ctx, "POST", s.issuer()+"/token", strings.NewReader(url.Values{
		"grant_type": {"urn:ietf:params:oauth:grant-type:token-exchange"}, "resource": {resource},
		"subject_token": tokens[:1], "subject_token_type": {"urn:ietf:params:oauth:token-type:access_token"},
	}.Encode()))
	must.OK(t, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Authorization", "Bearer "+tokens[1])
	answer, err := http.DefaultClient.Do(r)
	must.OK(t, err)
	defer answer.Body.Close()
	var got struct {
		Token string `json:"access_token"`
		Error string `json:"error_description"`
	}
	must.OK(t, json.NewDecoder(answer.Body).Decode(&got))
	if got.Token == "" {
		t.Fatalf("nothing is exchanged: %s", got.Error)
	}
	return got.Token
}

// refusals tries what is no access token of the company for this resource, from any issuer.
func (s *service) refusals(p *protected) {
	t := s.t
	t.Helper()
	public, err := attestd.New(attestd.Config{URL: "http://" + s.addr})
	must.OK(t, err)
	zoo, err := public.CreateCompany(t.Context(), attestd.NewCompany{CompanyID: "zoo"})
	must.OK(t, err)
	other := *s
	other.client, other.company = s.with(zoo.APIKey), "zoo"
	_, err = s.client.RegisterAgent(t.Context(), attestd.NewAgent{AgentID: "bot"})
	must.OK(t, err)
	ofAgent := func(algorithm string) string {
		made, err := s.client.CreateAgentToken(t.Context(), attestd.TokenRequest{AgentID: "bot", Audience: []string{p.url}, Algorithm: algorithm})
		must.OK(t, err)
		return made.Token
	}
	svid, err := s.client.AgentSVID(t.Context(), "bot")
	must.OK(t, err)
	writer := s.oauthClient(attestd.Writer)
	sound := s.token(writer, url.Values{"resource": {p.url}})
	for name, c := range map[string]struct {
		want  int
		token string
	}{
		"for this resource":         {200, sound},
		"with a scope":              {200, s.token(writer, url.Values{"resource": {p.url}, "scope": {"reader"}})},
		"for another resource":      {401, s.token(writer, url.Values{"resource": {"https://other.example/mcp"}})},
		"for another path":          {401, s.token(writer, url.Values{"resource": {p.url + "/x"}})},
		"for two resources":         {401, s.token(writer, url.Values{"resource": {p.url, "https://other.example/mcp"}})},
		"for the API":               {401, s.token(writer, url.Values{})},
		"of another company":        {401, other.token(other.oauthClient(attestd.Writer), url.Values{"resource": {p.url}})},
		"that says who an agent is": {401, ofAgent("ES256")},
		"that says so by RS256":     {401, ofAgent("RS256")},
		"with which another acts":   {401, s.exchanged(p.url)},
		"with another signature":    {401, sound[:strings.LastIndex(sound, ".")+1] + strings.Repeat("A", 86)},
		"an API key":                {401, s.key},
		"an SVID":                   {401, svid.SVID},
	} {
		if c.token == "" {
			t.Fatalf("%s: there is no token", name)
		}
		r, err := http.NewRequestWithContext(t.Context(), "POST", p.url, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
		must.OK(t, err)
		r.Header.Set("Authorization", "Bearer "+c.token)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		answer, err := p.client.Do(r)
		must.OK(t, err)
		must.OK(t, answer.Body.Close())
		if answer.StatusCode != c.want {
			t.Errorf("%s: %d, want %d", name, answer.StatusCode, c.want)
		}
		if challenge := answer.Header.Get("WWW-Authenticate"); c.want == 401 && !strings.Contains(challenge, `resource_metadata="`+p.metadata()+`"`) {
			t.Errorf("%s: %q", name, challenge)
		}
	}
	answer, err := p.client.Get(p.metadata())
	must.OK(t, err)
	defer answer.Body.Close()
	var metadata struct {
		Resource string
		Servers  []string `json:"authorization_servers"`
	}
	must.OK(t, json.NewDecoder(answer.Body).Decode(&metadata))
	if metadata.Resource != p.url || len(metadata.Servers) != 1 || metadata.Servers[0] != s.issuer() {
		t.Errorf("metadata: %+v", metadata)
	}
}

// metadata is the URL of the metadata of the resource.
func (p *protected) metadata() string {
	return strings.Replace(p.url, "/mcp", "/.well-known/oauth-protected-resource/mcp", 1)
}
