//go:build linux

package claude

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"attestd/internal/must"
	"attestd/internal/testenv"
)

// other is the program of another coding agent.
func other(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("others", "node_modules", ".bin", name))
	must.OK(t, err)
	if _, err := os.Stat(path); err != nil {
		testenv.Missing(t, "there is no "+name+": npm ci --ignore-scripts --prefix test/claude/others")
	}
	return path
}

// newOtherDesk starts a server, and puts an agent into the PATH of a user who has one. The agent's
// model is a mock.
func newOtherDesk(t *testing.T, name string, answer http.HandlerFunc) (d *desk, model string) {
	t.Helper()
	program := other(t, name)
	d = bareDesk(t)
	must.OK(t, os.Symlink(program, filepath.Join(d.bin, name)))
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	return d, server.URL
}

// start types lines into a shell of the user's, in the project.
func (d *desk) start(lines string, environment ...string) string {
	d.t.Helper()
	cmd := exec.CommandContext(d.t.Context(), "bash", "-ec", lines)
	cmd.Dir, cmd.Env, cmd.WaitDelay = d.project, d.environment(environment...), patience
	out, err := cmd.CombinedOutput()
	if err != nil {
		d.t.Fatalf("%s: %v\n%s", lines, err, out)
	}
	return string(out)
}

// documented are the lines of a block of docs/agents/telemetry.md, which begins with these.
func documented(t *testing.T, begin string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/agents/telemetry.md")
	must.OK(t, err)
	block := regexp.MustCompile("(?s)```[a-z]*\n(" + regexp.QuoteMeta(begin) + ".*?)\n```").FindSubmatch(text)
	if block == nil {
		t.Fatalf("docs/agents/telemetry.md has no block that begins with %s", begin)
	}
	return string(block[1])
}

// action is a record, by what has reported it and what it is about.
type action struct {
	Source, Name, Tool, Server, CallID, SessionID string

	kind string
}

// actions are the records of each source: the hooks of an agent, mcp, otlp.
func (d *desk) actions() map[string][]action {
	d.t.Helper()
	var chain struct {
		Records []struct {
			Payload struct {
				AgentID, ActionType string
				Payload             action
			}
		}
	}
	must.OK(d.t, json.Unmarshal(d.ask("GET", "/v1/chain", ""), &chain))
	by := map[string][]action{}
	for _, r := range chain.Records {
		a := r.Payload.Payload
		a.kind = r.Payload.ActionType
		by[a.Source] = append(by[a.Source], a)
	}
	return by
}

// has demands that there are so many such actions, of which only members that are set are compared.
func has(t *testing.T, list []action, n int, want action) {
	t.Helper()
	found := 0
	for _, a := range list {
		same := func(got, want string) bool { return want == "" || got == want }
		if same(a.kind, want.kind) && same(a.Name, want.Name) && same(a.Tool, want.Tool) && same(a.Server, want.Server) && same(a.CallID, want.CallID) && a.SessionID != "" {
			found++
		}
	}
	if found != n {
		t.Errorf("%d of %+v, want %d, in\n%+v", found, want, n, list)
	}
}
