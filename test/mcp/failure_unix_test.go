//go:build unix

package mcptest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/sdk/attestd"
)

// refusal is what a tool that was called answers when it must not run, "" when it ran.
func (p *proxied) refusal(t *testing.T, tool string) string {
	t.Helper()
	r, err := p.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: map[string]any{"text": "x"}})
	must.OK(t, err)
	answer := r.Content[0].(*mcp.TextContent).Text
	if why, refused := strings.CutPrefix(answer, "attestd refused this call: "); refused && r.IsError {
		return why
	}
	return ""
}

// With --fail closed nothing runs that attestd has not acknowledged: while it is away the server
// sees no call, and the agent reads why.
func TestFailClosed(t *testing.T) {
	t.Parallel()
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(revision, func(t *testing.T) {
			t.Parallel()
			s := serve(t)
			p := s.connect(new(events).client(), revision, "", "--fail", "closed")
			p.says(t, "echo", "one", "one")
			s.kill()
			if got := p.refusal(t, "echo"); got != "attestd has not acknowledged its record" {
				t.Errorf("%q", got)
			}
			s.back()
			p.says(t, "echo", "three", "three")
			must.OK(t, p.Close())
			log, err := os.ReadFile(filepath.Join(p.folder, "server.in"))
			must.OK(t, err)
			if n := count(log, `"method":"tools/call"`); n != 2 {
				t.Errorf("the server saw %d calls", n)
			}
			if n := counts(s.verified()); n["requested"] != 3 || n["completed"] != 2 || n["denied"] != 1 {
				t.Errorf("%v", n)
			}
		})
	}
}

// A proxy that is killed while attestd is away has left what was asked in the spool, and the next
// start sends it: no call is unrecorded, none twice.
func TestProxyKilled(t *testing.T) {
	t.Parallel()
	s := serve(t)
	state := filepath.Join(t.TempDir(), "state")
	p := s.connect(new(events).client(), "2025-11-25", state)
	p.says(t, "echo", "one", "one")
	s.kill()
	var calls sync.WaitGroup
	for range 50 {
		calls.Go(func() {
			_, _ = p.CallTool(t.Context(), &mcp.CallToolParams{Name: "hang", Arguments: map[string]any{"text": ""}})
		})
	}
	p.says(t, "echo", "two", "two")
	arrived := func() int {
		log, err := os.ReadFile(filepath.Join(p.folder, "server.in"))
		must.OK(t, err)
		return count(log, `"name":"hang"`)
	}
	for arrived() < 50 { // it ends with the test's own time
		p.says(t, "echo", "three", "three")
	}
	killProxy(t, p.folder)
	calls.Wait()
	_ = p.Close()
	sent, err := os.ReadFile(filepath.Join(p.folder, "client.in"))
	must.OK(t, err)

	s.back()
	next := s.connect(new(events).client(), "2025-11-25", state)
	next.says(t, "echo", "four", "four")
	must.OK(t, next.Close())
	list := s.verified()
	if n := counts(list); n["requested"] != count(sent, `"method":"tools/call"`)+1 || n["failed"] != 0 {
		t.Errorf("%d calls made %v", count(sent, `"method":"tools/call"`), n)
	}
	seen := map[string]int{}
	for _, c := range list {
		seen[c.SessionID+c.CallID+c.Action]++
	}
	for key, n := range seen {
		if n > 1 {
			t.Errorf("%s stands %d times", key, n)
		}
	}
}

// sendRest starts proxies until no record waits in the spool. On a busy machine one may end before
// it has sent all.
func (s *service) sendRest(state string) {
	s.t.Helper()
	for {
		next := s.connect(new(events).client(), "2025-11-25", state)
		must.OK(s.t, next.Close())
		list, err := exec.CommandContext(s.t.Context(), lab.Binary(), "spool", "list", "--json", "--state", state).Output()
		must.OK(s.t, err)
		if len(list) == 0 {
			return
		}
	}
}

// Killed at any moment of a flood of calls, in either way to fail, a proxy leaves no call that the
// server has seen unrecorded, and none recorded twice.
func TestProxyKilledAtAnyPoint(t *testing.T) {
	testenv.Needs(t, testenv.NotQuick)
	t.Parallel()
	s := serve(t)
	state := filepath.Join(t.TempDir(), "state")
	asked := 0
	var seen []byte
	for n := range 10 {
		folder := t.TempDir()
		cmd := s.proxy(folder, state, tools(t), "--fail", []string{"open", "closed"}[n%2])
		in, err := cmd.StdinPipe()
		must.OK(t, err)
		out, err := cmd.StdoutPipe()
		must.OK(t, err)
		must.OK(t, cmd.Start())
		answers := bufio.NewReader(out)
		_, err = io.WriteString(in, `{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`+"\n")
		must.OK(t, err)
		_, err = answers.ReadString('\n')
		must.OK(t, err)
		// After so many answers, with more calls than that on their way.
		last := rand.IntN(150)
		go func() {
			for range last {
				if _, err := answers.ReadString('\n'); err != nil {
					return
				}
			}
			killProxy(t, folder)
			_, _ = io.Copy(io.Discard, answers)
		}()
		for err == nil {
			asked++
			_, err = fmt.Fprintf(in, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"text":"call %d."}}}`+"\n", asked, asked)
		}
		_ = cmd.Wait()
		log, err := os.ReadFile(filepath.Join(folder, "server.in"))
		must.OK(t, err)
		seen = append(seen, log...)
	}
	s.sendRest(state)
	times := map[string]int{}
	for _, c := range s.verified() {
		times[c.Action+" "+c.Input.Text+c.SessionID+c.CallID]++
		if c.Action == "tool.requested" {
			times[c.Input.Text]++
		}
	}
	calls := regexp.MustCompile(`call \d+\.`).FindAllString(string(seen), -1)
	for _, call := range calls {
		if times[call] != 1 {
			t.Errorf("%s stands %d times in the chain", call, times[call])
		}
	}
	for name, n := range times {
		if n != 1 {
			t.Errorf("%s stands %d times in the chain", name, n)
		}
	}
	if len(calls) == 0 {
		t.Error("the server has seen no call")
	}
}

// killProxy kills the attestd mcp below the outer tee, as a power cut would.
func killProxy(t *testing.T, folder string) {
	t.Helper()
	text, err1 := os.ReadFile(filepath.Join(folder, "client.pid"))
	pid, err2 := strconv.Atoi(string(text))
	if err := errors.Join(err1, err2); err != nil {
		t.Errorf("find the proxy: %v", err)
		return
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
}

// A passport opens the tools of its scopes. What it does not cover is refused here and recorded,
// the server never sees it; a revoked one opens nothing.
func TestPassport(t *testing.T) {
	t.Parallel()
	s := serve(t)
	_, err := s.client.RegisterAgent(t.Context(), attestd.NewAgent{AgentID: "bot"})
	must.OK(t, err)
	issued, err := s.client.IssuePassport(t.Context(), "bot", attestd.NewPassport{Scopes: []string{"tool:echo"}})
	must.OK(t, err)
	key, err := s.client.PublicKey(t.Context(), "acme")
	must.OK(t, err)
	file := filepath.Join(t.TempDir(), "passport")
	must.OK(t, os.WriteFile(file, []byte(issued.Passport+"\n"), 0o600))

	state := filepath.Join(t.TempDir(), "state")
	p := s.connect(new(events).client(), "2026-07-28", state, "--passport", file, "--pinned-key", key.Fingerprint)
	p.says(t, "echo", "one", "one")
	if got := p.refusal(t, "fail"); got != "no scope of the passport covers the tool" {
		t.Errorf("%q", got)
	}
	must.OK(t, p.Close())

	// While attestd is away, a session begins with the keys of the one before.
	s.kill()
	p = s.connect(new(events).client(), "2026-07-28", state, "--passport", file, "--pinned-key", key.Fingerprint)
	p.says(t, "echo", "two", "two")
	if got := p.refusal(t, "fail"); got != "no scope of the passport covers the tool" {
		t.Errorf("%q", got)
	}
	must.OK(t, p.Close())
	s.back()

	jti := ""
	for summary, err := range s.client.Passports(t.Context(), attestd.PassportFilter{}) {
		must.OK(t, err)
		jti = summary.JTI
	}
	_, err = s.client.RevokePassport(t.Context(), jti, "")
	must.OK(t, err)
	p = s.connect(new(events).client(), "2026-07-28", state, "--passport", file)
	if got := p.refusal(t, "echo"); got != "the passport is revoked" {
		t.Errorf("%q", got)
	}
	must.OK(t, p.Close())
	list := s.verified()
	if n := counts(list); n["requested"] != 5 || n["completed"] != 2 || n["denied"] != 3 {
		t.Errorf("%v", n)
	}
	for _, c := range list {
		if c.Agent != "bot" {
			t.Errorf("%+v", c)
		}
	}
}
