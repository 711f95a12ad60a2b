package mcptest

//lint:file-ignore SA1019 Sampling is deprecated since 2026-07-28, and goes through the proxy all the same.

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/sdk/attestd"
)

// Several clients call tools over HTTP through the proxy, 200 at once while attestd is killed and
// comes back, with messages of 8 MiB, progress, cancellation, elicitation and sampling. Each call
// that the server has received is recorded once, with its outcome, in a session of its client.
func TestHTTPRevisions(t *testing.T) {
	t.Parallel()
	for _, revision := range []string{"2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"} {
		t.Run(revision, func(t *testing.T) {
			t.Parallel()
			if revision != "2026-07-28" {
				testenv.Needs(t, testenv.Slow) // the newest shows most of it
			}
			s := serve(t)
			log := logFile(t)
			modern := revision >= "2026"
			upstream := httpTools(t, log, modern)
			proxy := s.listening("127.0.0.1:0", filepath.Join(t.TempDir(), "state"), upstream.addr)
			var e events
			clients := []*proxied{
				{ClientSession: dialHTTP(t, e.client(), proxy.addr, revision)}, {ClientSession: dialHTTP(t, new(events).client(), proxy.addr, revision)},
			}
			p := clients[0]
			if got := p.InitializeResult().ProtocolVersion; got != revision {
				t.Fatal("the session speaks", got)
			}
			var calls sync.WaitGroup
			for n := range 200 {
				calls.Go(func() {
					clients[n%2].says(t, "echo", fmt.Sprint("parallel \u2028 ", n), fmt.Sprint("parallel \u2028 ", n))
				})
				if n == 50 {
					s.kill()
				}
			}
			p.says(t, "echo", "away", "away")
			calls.Wait()
			s.back()
			big := strings.Repeat("0123456789abcdef", 8<<16)
			p.says(t, "echo", big, big)
			p.says(t, "fail", "no way", "no way")
			p.says(t, "progress", "", "done")
			if revision >= "2025-06-18" { // has elicitation
				p.says(t, "ask", "", "the user said Ada")
				p.says(t, "sample", "", "hello")
			}
			p.givesUp(t, log)
			clients[1].says(t, "echo", "last", "last")
			e.await(t, 5, false)
			for _, c := range clients {
				must.OK(t, c.Close())
			}
			if e.progress.Load() != 5 {
				t.Errorf("progress %d", e.progress.Load())
			}
			must.OK(t, proxy.Process.Signal(os.Interrupt))
			must.OK(t, proxy.Wait())
			asked := count(received(t, log), `"method":"tools/call"`)
			list := s.verified()
			n := counts(list)
			if n["requested"] != asked || n["completed"]+n["failed"]+n["pending"] != asked || n["failed"] != 2 || asked < 205 {
				t.Errorf("%d calls made %v", asked, n)
			}
			sessions := map[string]bool{}
			for _, c := range list {
				sessions[c.SessionID] = true
				if c.Agent != "bot" || c.Server != "tools" || c.CallID == "" {
					t.Errorf("%+v", c)
				}
			}
			if want := 2; len(sessions) != want && !modern {
				t.Errorf("%d sessions, want %d", len(sessions), want)
			}
		})
	}
}

// The TypeScript client and the protocol's own server of examples work over HTTP through the proxy.
func TestHTTPTypeScript(t *testing.T) {
	t.Parallel()
	node := testenv.Path(t, "node")
	if _, err := os.Stat(filepath.Join("testdata", "node_modules", "@modelcontextprotocol", "client")); err != nil {
		testenv.Missing(t, "there is no client: npm ci --prefix test/mcp/testdata")
	}
	for _, c := range []struct{ revision, server string }{
		{"2025-06-18", "everything"}, {"2025-11-25", "everything"}, {"2025-11-25", "tools"}, {"2026-07-28", "tools"},
	} {
		t.Run(c.revision+"_"+c.server, func(t *testing.T) {
			t.Parallel()
			if c.revision == "2025-06-18" {
				testenv.Needs(t, testenv.Slow) // the next one shows most of it
			}
			s := serve(t)
			var upstream *program
			if c.server == "tools" {
				upstream = httpTools(t, logFile(t), c.revision >= "2026")
			} else {
				upstream = everythingHTTP(t, node)
			}
			proxy := s.listening("127.0.0.1:0", filepath.Join(t.TempDir(), "state"), upstream.addr)
			plan, err := json.Marshal(map[string]any{"url": proxy.addr, "revision": c.revision, "server": c.server})
			must.OK(t, err)
			run := exec.Command(node, "typescript.mjs", string(plan))
			run.Dir = "testdata"
			out, err := run.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%.2000s", err, out)
			}
			calls, err := strconv.Atoi(strings.TrimSpace(string(out)))
			must.OK(t, err)
			must.OK(t, proxy.Process.Signal(os.Interrupt))
			must.OK(t, proxy.Wait())
			n := counts(s.verified())
			if n["requested"] != calls+n["pending"] || n["completed"]+n["failed"] != calls {
				t.Errorf("%d calls made %v", calls, n)
			}
		})
	}
}

// A client that uses standard input and output calls the tools of a server over HTTP, in each
// revision, in our server and in the protocol's own.
func TestHTTPByStdio(t *testing.T) {
	testenv.Needs(t, testenv.NotQuick)
	t.Parallel()
	for _, revision := range []string{"2025-06-18", "2025-11-25", "2026-07-28"} {
		t.Run(revision, func(t *testing.T) {
			t.Parallel()
			if revision != "2025-11-25" {
				testenv.Needs(t, testenv.Slow) // this one shows most of it
			}
			s := serve(t)
			log := logFile(t)
			upstream := httpTools(t, log, revision >= "2026")
			cmd := s.bridging(filepath.Join(t.TempDir(), "state"), upstream.addr)
			var e events
			session, err := e.client().Connect(t.Context(), &mcp.CommandTransport{Command: cmd},
				&mcp.ClientSessionOptions{ProtocolVersion: revision})
			must.OK(t, err)
			p := &proxied{ClientSession: session}
			if got := p.InitializeResult().ProtocolVersion; got != revision {
				t.Fatal("the session speaks", got)
			}
			var calls sync.WaitGroup
			for n := range 200 {
				calls.Go(func() { p.says(t, "echo", fmt.Sprint("parallel \u2028 ", n), fmt.Sprint("parallel \u2028 ", n)) })
			}
			calls.Wait()
			big := strings.Repeat("0123456789abcdef", 8<<16)
			p.says(t, "echo", big, big)
			p.says(t, "fail", "no way", "no way")
			p.says(t, "progress", "", "done")
			p.says(t, "ask", "", "the user said Ada")
			p.says(t, "sample", "", "hello")
			if revision < "2026" {
				p.says(t, "grow", "", "grown1")
			}
			p.givesUp(t, log)
			p.says(t, "echo", "last", "last")
			e.await(t, 5, revision < "2026")
			must.OK(t, p.Close())
			if e.progress.Load() != 5 || e.asked.Load() != 1 || e.sampled.Load() != 1 || revision < "2026" && e.changed.Load() == 0 {
				t.Errorf("progress %d, elicitation %d, sampling %d, changes %d", e.progress.Load(), e.asked.Load(),
					e.sampled.Load(), e.changed.Load())
			}
			asked := count(received(t, log), `"method":"tools/call"`)
			n := counts(s.verified())
			if n["requested"] != asked || n["completed"]+n["failed"]+n["pending"] != asked || n["failed"] != 2 || asked < 206 {
				t.Errorf("%d calls made %v", asked, n)
			}
		})
	}
	t.Run("everything", func(t *testing.T) {
		t.Parallel()
		node := testenv.Path(t, "node")
		s := serve(t)
		plan, err := json.Marshal(map[string]any{
			"command": s.bridging(filepath.Join(t.TempDir(), "state"), everythingHTTP(t, node).addr).Args, "revision": "2025-11-25", "server": "everything", "small": true,
		})
		must.OK(t, err)
		run := exec.Command(node, "typescript.mjs", string(plan))
		run.Dir, run.Env = "testdata", append(os.Environ(), "ATTESTD_URL=http://"+s.addr, "ATTESTD_KEY="+s.key)
		out, err := run.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%.2000s", err, out)
		}
		calls, err := strconv.Atoi(strings.TrimSpace(string(out)))
		must.OK(t, err)
		if n := counts(s.verified()); n["requested"] != calls || n["completed"]+n["failed"] != calls {
			t.Errorf("%d calls made %v", calls, n)
		}
	})
}

// The settings that attestd init mcp writes run: a client that starts the command in them calls the
// tools, with the earlier headers, and --remove restores the file.
func TestHTTPInit(t *testing.T) {
	t.Parallel()
	s := serve(t)
	log, folder := logFile(t), t.TempDir()
	tools := httpTools(t, log, false)
	behind, err := url.Parse(tools.addr)
	must.OK(t, err)
	forward := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: behind.Host})
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer hush" {
			http.Error(w, "who?", http.StatusUnauthorized)
			return
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(upstream.Close)
	file := filepath.Join(folder, ".mcp.json")
	before := "{ \"mcpServers\":\n  {\"tools\" : {\"type\":\"http\", \"url\":\"" + upstream.URL +
		"/mcp\", \"headers\": {\"Authorization\": \"Bearer hush\"}}}}"
	must.OK(t, os.WriteFile(file, []byte(before), 0o644))
	environment := append(os.Environ(), "XDG_CONFIG_HOME="+folder, "HOME="+folder, "XDG_STATE_HOME="+folder, "ATTESTD_URL=http://"+s.addr, "ATTESTD_KEY="+s.key)
	initMCP := func(flag string) {
		t.Helper()
		cmd := exec.Command(lab.Binary(), "init", "mcp", "--agent", "bot", "--settings", file, flag)
		cmd.Env = environment
		if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), "hush") && flag == "--write" {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	initMCP("--write")
	text, err := os.ReadFile(file)
	must.OK(t, err)
	var settings struct {
		MCPServers map[string]struct {
			Command string
			Args    []string
			Env     map[string]string
		}
	}
	must.OK(t, json.Unmarshal(text, &settings))
	entry := settings.MCPServers["tools"]
	cmd := exec.Command(entry.Command, entry.Args...)
	cmd.Env, cmd.Stderr = environment, testLog{t}
	for name, value := range entry.Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	session, err := new(events).client().Connect(t.Context(), &mcp.CommandTransport{Command: cmd},
		&mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	must.OK(t, err)
	p := &proxied{ClientSession: session}
	p.says(t, "echo", "one", "one")
	must.OK(t, p.Close())
	// the first one is that of the set-up, which has read it back
	if list := s.verified(); len(list) != 3 || list[0].Action != "agent.watched" || list[1].Agent != "bot" || list[1].Server != "tools" {
		t.Errorf("%+v", list)
	}
	initMCP("--remove")
	if text, err = os.ReadFile(file); err != nil || string(text) != before {
		t.Errorf("%s, %v", text, err)
	}
	if _, err := os.Stat(filepath.Join(folder, "attestd", "mcp-servers.json")); !errors.Is(err, os.ErrNotExist) {
		t.Error("the former entries are still stored")
	}
}

// Where the agent has a key, each client's session is a sealed session of signed records, and
// requests that call no tool leave none.
func TestHTTPSessionsAreSigned(t *testing.T) {
	t.Parallel()
	s, folder := serve(t), t.TempDir()
	environment := append(os.Environ(), "XDG_CONFIG_HOME="+folder, "HOME="+folder, "XDG_STATE_HOME="+folder, "ATTESTD_URL=http://"+s.addr)
	enrol := exec.Command(lab.Binary(), "init", "claude-code", "--agent", "bot")
	enrol.Env = append(environment, "ATTESTD_KEY="+s.key)
	if out, err := enrol.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(lab.Binary(), "mcp", "--agent", "bot", "--listen", "127.0.0.1:0",
		"--upstream", httpTools(t, logFile(t), false).addr)
	cmd.Env = environment
	proxy := startProgram(t, cmd, " on ", testLog{t})
	for range 2 {
		p := &proxied{ClientSession: dialHTTP(t, new(events).client(), proxy.addr, "2025-11-25")}
		p.says(t, "echo", "one", "one")
		must.OK(t, p.Close())
	}
	must.OK(t, proxy.Process.Signal(os.Interrupt))
	must.OK(t, proxy.Wait())
	s.verified()
	actions := map[string][]string{}
	for r, err := range s.client.Records(t.Context(), attestd.Range{}) {
		must.OK(t, err)
		var of struct{ SessionID string }
		must.OK(t, json.Unmarshal(r.Payload.Payload, &of))
		if of.SessionID != "" {
			actions[of.SessionID] = append(actions[of.SessionID], r.Payload.ActionType)
		}
	}
	if len(actions) != 2 {
		t.Errorf("%v", actions)
	}
	for id, list := range actions {
		if !slices.Equal(list, []string{"tool.requested", "tool.completed", "session.ended"}) {
			t.Errorf("%s: %v", id, list)
		}
	}
}

// bridging is the command of a proxy between standard input and output and a server over HTTP.
func (s *service) bridging(state, upstream string, flags ...string) *exec.Cmd {
	args := append([]string{"mcp", "--state", state, "--agent", "bot", "--upstream", upstream}, flags...)
	cmd := exec.Command(lab.Binary(), args...)
	cmd.Env = append(cmd.Environ(), "ATTESTD_URL=http://"+s.addr, "ATTESTD_KEY="+s.key)
	cmd.Stderr = testLog{s.t}
	return cmd
}

// everythingHTTP starts the protocol's server of examples over HTTP.
func everythingHTTP(t *testing.T, node string) *program {
	t.Helper()
	script := filepath.Join("testdata", "node_modules", "@modelcontextprotocol", "server-everything", "dist", "index.js")
	if _, err := os.Stat(script); err != nil {
		testenv.Missing(t, "there is no server-everything: npm ci --prefix test/mcp/testdata")
	}
	cmd, port := exec.Command(node, script, "streamableHttp"), freePort(t)
	cmd.Env = append(os.Environ(), "PORT="+port)
	p := startProgram(t, cmd, "listening on port ", io.Discard)
	p.addr = "http://127.0.0.1:" + port + "/mcp"
	return p
}

// A credential of the environment reaches the server in place of the client's, and nothing else.
// The client's own reaches it with --pass-authorization alone.
func TestHTTPCredentials(t *testing.T) {
	t.Parallel()
	s := serve(t)
	seen := make(chan http.Header, 10)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header
		http.Error(w, "not this one", http.StatusUnauthorized)
	}))
	t.Cleanup(upstream.Close)
	for _, c := range []struct {
		flags         []string
		bearer, other string
	}{
		{nil, "", "theirs"},
		{[]string{"--bearer-env", "UPSTREAM_TOKEN", "--header-env", "X-Api-Key=UPSTREAM_KEY"}, "Bearer hush-1", "hush-2"},
		{[]string{"--pass-authorization"}, "Bearer theirs", "theirs"},
	} {
		answer := new(strings.Builder)
		proxy := s.listeningWith(answer, []string{"UPSTREAM_TOKEN=hush-1", "UPSTREAM_KEY=hush-2"}, upstream.URL+"/mcp?key=hush-3", c.flags...)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, strings.TrimSuffix(proxy.addr, "?key=hush-3"),
			strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}`))
		must.OK(t, err)
		req.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer theirs"},
			"X-Api-Key": {"theirs"}, "Cookie": {"a=b"}}
		resp, err := http.DefaultClient.Do(req)
		must.OK(t, err)
		resp.Body.Close()
		h := <-seen
		if h.Get("Authorization") != c.bearer || h.Get("X-Api-Key") != c.other || h.Get("Cookie") != "" {
			t.Errorf("%v: %v", c.flags, h)
		}
		must.OK(t, proxy.Process.Signal(os.Interrupt))
		must.OK(t, proxy.Wait())
		<-proxy.read
		if strings.Contains(answer.String(), "hush") {
			t.Errorf("the proxy printed %s", answer)
		}
	}
	s.verified()
	for r, err := range s.client.Records(t.Context(), attestd.Range{}) {
		must.OK(t, err)
		if strings.Contains(string(r.Payload.Payload), "hush") {
			t.Errorf("a record has %s", r.Payload.Payload)
		}
	}
	for _, flags := range [][]string{{"--bearer-env", "NOT_SET_ANYWHERE"}, {"--header-env", "X"}, {"--header-env", "Host=HOME"}, {"--allow-http"}} {
		args := append([]string{"mcp", "--listen", "127.0.0.1:0", "--upstream", "http://mcp.example.com/mcp", "--bearer-env", "HOME"}, flags...)
		if out, err := exec.Command(lab.Binary(), args...).CombinedOutput(); err == nil || strings.Contains(string(out), os.Getenv("HOME")) {
			t.Errorf("%v: %v %s", flags, err, out)
		}
	}
}

// The command that docs/agents/mcp.md shows serves the address that it names.
func TestHTTPAsDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/agents/mcp.md")
	must.OK(t, err)
	_, section, _ := strings.Cut(string(page), "\n## MCP servers over HTTP\n")
	_, rest, _ := strings.Cut(section, "```\nattestd ")
	line, rest, ok := strings.Cut(rest, "\n```")
	address := regexp.MustCompile("`(http://127.0.0.1:8090/mcp)`").FindString(rest)
	if !ok || address == "" {
		t.Fatal("docs/agents/mcp.md does not show the command and the address")
	}
	s := serve(t)
	port := freePort(t)
	upstream := httpTools(t, logFile(t), true)
	args := strings.Fields(strings.NewReplacer("8090", port, "https://mcp.example.com/mcp", upstream.addr).Replace(line))
	cmd := exec.Command(lab.Binary(), append(args, "--state", filepath.Join(t.TempDir(), "state"))...)
	cmd.Env = append(cmd.Environ(), "ATTESTD_URL=http://"+s.addr, "ATTESTD_KEY="+s.key)
	proxy := startProgram(t, cmd, " on ", testLog{t})
	if want := strings.Trim(strings.Replace(address, "8090", port, 1), "`"); proxy.addr != want {
		t.Errorf("%s, want %s", proxy.addr, want)
	}
	p := &proxied{ClientSession: dialHTTP(t, new(events).client(), proxy.addr, "2026-07-28")}
	p.says(t, "echo", "one", "one")
	must.OK(t, p.Close())
	must.OK(t, proxy.Process.Signal(os.Interrupt))
	must.OK(t, proxy.Wait())
	if list := s.verified(); len(list) != 2 || list[0].Agent != "claude" || list[0].Server != "127.0.0.1" {
		t.Errorf("%+v", list)
	}
}

// A page of another origin, and a name that leads here, get nothing from the proxy.
func TestHTTPOrigin(t *testing.T) {
	t.Parallel()
	s := serve(t)
	log := logFile(t)
	proxy := s.listening("127.0.0.1:0", filepath.Join(t.TempDir(), "state"), httpTools(t, log, true).addr)
	for _, change := range []func(*http.Request){
		func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") },
		func(r *http.Request) { r.Host = "evil.example" },
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, proxy.addr, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}`))
		must.OK(t, err)
		req.Header.Set("Content-Type", "application/json")
		change(req)
		resp, err := http.DefaultClient.Do(req)
		must.OK(t, err)
		if resp.Body.Close(); resp.StatusCode != http.StatusForbidden {
			t.Errorf("HTTP %d", resp.StatusCode)
		}
	}
	if len(received(t, log)) != 0 || len(s.verified()) != 0 {
		t.Error("a refused request went on")
	}
}
