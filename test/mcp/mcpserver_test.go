package mcptest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/sdk/attestd"
)

// reply calls a tool of attestd mcp-server: its JSON, or the text of its error.
func reply(t *testing.T, session *mcp.ClientSession, tool string, args map[string]any) (answer map[string]any, refused string) {
	t.Helper()
	if args == nil {
		args = map[string]any{}
	}
	r, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
	must.OK(t, err)
	text := r.Content[0].(*mcp.TextContent).Text
	if r.IsError {
		return nil, text
	}
	must.OK(t, json.Unmarshal([]byte(text), &answer))
	return answer, ""
}

// stdio begins a session with attestd mcp-server over standard input and output.
func (s *service) stdio(revision string, flags ...string) *mcp.ClientSession {
	s.t.Helper()
	cmd := exec.Command(lab.Binary(), append([]string{"mcp-server"}, flags...)...)
	cmd.Env = append(cmd.Environ(), "ATTESTD_URL=http://"+s.addr, "ATTESTD_KEY="+s.key)
	cmd.Stderr = testLog{s.t}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).
		Connect(s.t.Context(), &mcp.CommandTransport{Command: cmd}, &mcp.ClientSessionOptions{ProtocolVersion: revision})
	must.OK(s.t, err)
	s.t.Cleanup(func() { _ = session.Close() })
	return session
}

// The tools of attestd mcp-server do what their operations do, in both eras of the protocol.
func TestServerTools(t *testing.T) {
	t.Parallel()
	s := serve(t)
	key, err := s.client.PublicKey(t.Context(), "acme")
	must.OK(t, err)
	_, err = s.client.RegisterAgent(t.Context(), attestd.NewAgent{AgentID: "peer"})
	must.OK(t, err)
	passport, err := s.client.IssuePassport(t.Context(), "peer", attestd.NewPassport{Scopes: []string{"tool:echo"}})
	must.OK(t, err)
	for n, revision := range []string{"2025-11-25", "2026-07-28"} {
		session := s.stdio(revision, "--agent", "bot", "--pinned-key", key.Fingerprint)
		list, err := session.ListTools(t.Context(), nil)
		must.OK(t, err)
		var names []string
		for _, tool := range list.Tools {
			names = append(names, tool.Name)
		}
		if slices.Sort(names); !slices.Equal(names, []string{"attest", "check_passport", "prove", "search_records", "verify"}) {
			t.Error(names)
		}
		for range 2 { // the second time with the same key
			args := map[string]any{"actionType": "file.deleted", "payload": map[string]any{"path": "a.txt"}, "idempotencyKey": fmt.Sprint("k", n)}
			if r, refused := reply(t, session, "attest", args); refused != "" || r["index"] != float64(n) {
				t.Errorf("attest: %v %s", r, refused)
			}
		}
		if _, refused := reply(t, session, "attest", map[string]any{"agentId": "other", "actionType": "x", "payload": 1}); refused != `this server is for the agent "bot"` {
			t.Errorf("%q", refused)
		}
		if v, _ := reply(t, session, "verify", nil); v["valid"] != true {
			t.Errorf("verify: %v", v)
		}
		if p, refused := reply(t, session, "prove", map[string]any{"index": n}); p["key"] != key.Fingerprint || !strings.Contains(fmt.Sprint(p["checked"]), "pinned") {
			t.Errorf("prove: %v %s", p, refused)
		}
		if _, refused := reply(t, session, "prove", map[string]any{"index": 99}); !strings.Contains(refused, "404") {
			t.Errorf("prove: %q", refused)
		}
		if v, _ := reply(t, session, "check_passport", map[string]any{"passport": passport.Passport, "tool": "echo"}); v["valid"] != true {
			t.Errorf("check_passport: %v", v)
		}
		if v, _ := reply(t, session, "check_passport", map[string]any{"passport": passport.Passport, "tool": "rm"}); v["valid"] != false || v["code"] != "SCOPE_DENIED" {
			t.Errorf("check_passport: %v", v)
		}
	}
	session := s.stdio("2025-11-25", "--pinned-key", "SHA256:"+strings.Repeat("A", 43))
	if _, refused := reply(t, session, "prove", map[string]any{"index": 0}); !strings.Contains(refused, "none of the company's") {
		t.Errorf("a proof by another key than the pinned one: %q", refused)
	}
}

// A search returns the records of one agent, newest first, in pages without gaps and duplicates.
func TestSearch(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	t.Parallel()
	s := serve(t)
	var all []attestd.Attestation
	for n := range 700 {
		all = append(all, attestd.Attestation{AgentID: []string{"bot", "other"}[n%2], ActionType: "n", Payload: map[string]any{"n": n, "long": strings.Repeat("x", n%7*3000)}})
	}
	for part := range slices.Chunk(all, 100) {
		_, err := s.client.AttestBatch(t.Context(), part)
		must.OK(t, err)
	}
	session := s.stdio("2025-11-25", "--agent", "bot")
	var got []int
	args := map[string]any{"limit": 100}
	for {
		answer, refused := reply(t, session, "search_records", args)
		if refused != "" {
			t.Fatal(refused)
		}
		for _, r := range answer["records"].([]any) {
			got = append(got, int(r.(map[string]any)["index"].(float64)))
		}
		if answer["next"] == nil {
			break
		}
		args["before"] = answer["next"]
	}
	var want []int
	for n := 698; n >= 0; n -= 2 {
		want = append(want, n)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d records, %d want", len(got), len(want))
	}
	if r, _ := reply(t, session, "search_records", map[string]any{"contains": `"n":600}`}); len(r["records"].([]any)) != 1 {
		t.Errorf("%v", r)
	}
	if _, refused := reply(t, session, "search_records", map[string]any{"limit": 101}); refused == "" {
		t.Error("a limit of 101 was taken")
	}
}

// bearer sends a credential with each request.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// Over HTTP each request brings its own credential and has its rights; the process's own is never
// used. Other hosts and origins are refused.
func TestServerHTTP(t *testing.T) {
	t.Parallel()
	s := serve(t)
	cmd := exec.Command(lab.Binary(), "mcp-server", "--listen", "127.0.0.1:0")
	cmd.Env = append(cmd.Environ(), "ATTESTD_URL=http://"+s.addr, "ATTESTD_KEY="+s.key)
	stderr, err := cmd.StderrPipe()
	must.OK(t, err)
	must.OK(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(stderr).ReadString('\n')
	must.OK(t, err)
	url := regexp.MustCompile(`http://127\.0\.0\.1:\d+/mcp`).FindString(line)

	made := func(role attestd.Role) string {
		k, err := s.client.CreateKey(t.Context(), attestd.NewCredential{Role: role})
		must.OK(t, err)
		return k.Key
	}
	connect := func(key, revision string) *mcp.ClientSession {
		session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(),
			&mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: bearer(key)}, DisableStandaloneSSE: true},
			&mcp.ClientSessionOptions{ProtocolVersion: revision})
		must.OK(t, err)
		t.Cleanup(func() { _ = session.Close() })
		return session
	}
	deed := map[string]any{"agentId": "bot", "actionType": "x", "payload": []int{1}}
	for _, revision := range []string{"2025-06-18", "2025-11-25", "2026-07-28"} {
		if r, refused := reply(t, connect(made(attestd.Writer), revision), "attest", deed); refused != "" || r["hash"] == nil {
			t.Errorf("%s: a writer attests: %v %s", revision, r, refused)
		}
		reader := connect(made(attestd.Reader), revision)
		if _, refused := reply(t, reader, "attest", deed); !strings.HasPrefix(refused, "the role of the credential does not allow attest") {
			t.Errorf("%s: a reader attests: %q", revision, refused)
		}
		if v, _ := reply(t, reader, "verify", nil); v["valid"] != true {
			t.Errorf("%s: a reader verifies: %v", revision, v)
		}
	}

	ping := `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	status := func(change func(*http.Request)) int {
		r, err := http.NewRequestWithContext(t.Context(), "POST", url, strings.NewReader(ping))
		must.OK(t, err)
		r.Header.Set("Authorization", "Bearer "+s.key)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		change(r)
		answer, err := http.DefaultClient.Do(r)
		must.OK(t, err)
		must.OK(t, answer.Body.Close())
		if answer.StatusCode == http.StatusUnauthorized && answer.Header.Get("WWW-Authenticate") != "Bearer" {
			t.Error("a 401 without WWW-Authenticate")
		}
		return answer.StatusCode
	}
	host := strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/mcp")
	port := host[strings.LastIndex(host, ":"):]
	for name, c := range map[string]struct {
		want   int
		change func(*http.Request)
	}{
		"as it should be":        {200, func(*http.Request) {}},
		"by its other name":      {200, func(r *http.Request) { r.Host = "localhost" + port }},
		"a page of its own":      {200, func(r *http.Request) { r.Header.Set("Origin", "http://"+host) }},
		"no credential":          {401, func(r *http.Request) { r.Header.Del("Authorization") }},
		"another kind of it":     {401, func(r *http.Request) { r.Header.Set("Authorization", "Basic "+s.key) }},
		"an unknown one":         {401, func(r *http.Request) { r.Header.Set("Authorization", "Bearer svc_no") }},
		"two of them":            {401, func(r *http.Request) { r.Header.Add("Authorization", "Bearer "+s.key) }},
		"a name that is rebound": {403, func(r *http.Request) { r.Host = "evil.example" + port }},
		"another port":           {403, func(r *http.Request) { r.Host = "127.0.0.1:1" }},
		"a page of elsewhere":    {403, func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }},
		"a page of no origin":    {403, func(r *http.Request) { r.Header.Set("Origin", "null") }},
		"a rebound page":         {403, func(r *http.Request) { r.Host = "evil.example" + port; r.Header.Set("Origin", "http://"+r.Host) }},
	} {
		if got := status(c.change); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
	s.kill()
	if got := status(func(*http.Request) {}); got != http.StatusBadGateway {
		t.Errorf("without attestd: %d", got)
	}
}

// A tool takes the arguments of its schema and no others, however they are written, and says which
// one it does not know: a misspelt delegation is not left out of a record.
func TestToolsRefuseUnknownArguments(t *testing.T) {
	t.Parallel()
	s := serve(t)
	session := s.stdio("2025-11-25", "--agent", "bot")
	list, err := session.ListTools(t.Context(), nil)
	must.OK(t, err)
	for _, tool := range list.Tools {
		schema, err := json.Marshal(tool.InputSchema)
		must.OK(t, err)
		if !strings.Contains(string(schema), `"additionalProperties":false`) {
			t.Errorf("%s takes any argument: %s", tool.Name, schema)
		}
	}
	attestation := map[string]any{"actionType": "x", "payload": 1}
	for _, c := range []struct {
		tool, unknown string
		args          map[string]any
	}{
		{"attest", "delegations", attestation}, {"attest", "Delegation", attestation}, {"attest", "idempotency_key", attestation}, {"attest", "AGENTID", attestation},
		{"attest", "__proto__", attestation}, {"attest", "", attestation},
		{"verify", "log", nil}, {"prove", "logs", map[string]any{"index": 0}}, {"prove", "Index", map[string]any{"index": 0}},
		{"check_passport", "tools", map[string]any{"passport": "p"}}, {"check_passport", "Tool", map[string]any{"passport": "p"}},
		{"search_records", "agent", nil}, {"search_records", "Limit", nil},
	} {
		args := map[string]any{c.unknown: "x"}
		maps.Copy(args, c.args)
		if answer, refused := reply(t, session, c.tool, args); !strings.Contains(refused, fmt.Sprintf("%q", c.unknown)) {
			t.Errorf("%s with %q: %v %q", c.tool, c.unknown, answer, refused)
		}
	}
	for r, err := range s.client.Records(t.Context(), attestd.Range{}) {
		t.Errorf("recorded is %v %v", r, err)
	}
}
