//go:build linux

package claude

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"attestd/internal/harness"
	"attestd/internal/must"
)

// patience bounds every wait for a process or an answer. Nothing takes so long; what does, hangs.
const patience = 60 * time.Second

// binary builds attestd as the README describes, once.
var binary = sync.OnceValues(func() (string, error) {
	path := filepath.Join(scratch, "bin", "attestd")
	if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	return path, harness.Build(context.Background(), path)
})

// desk is a user's machine: a home, a project, a server on its usual port, and the environment of a
// shell.
type desk struct {
	t             *testing.T
	home, project string
	bin           string // a folder of the PATH
	db            string
	admin         string // key
	server        *exec.Cmd
}

// newDesk starts a server and sets Claude Code up as its user would, with flags of `attestd init
// claude-code` and settings that are there already.
func newDesk(t *testing.T, settings string, flags ...string) *desk {
	t.Helper()
	d := bareDesk(t)
	// which init asks for its version
	must.OK(t, os.Symlink(program(), filepath.Join(d.bin, "claude")))
	must.OK(t, os.Mkdir(filepath.Dir(d.settings()), 0o755))
	must.OK(t, os.WriteFile(d.settings(), []byte(settings), 0o600))
	trusted, err := json.Marshal(map[string]any{"projects": map[string]any{d.project: map[string]bool{"hasTrustDialogAccepted": true}}})
	must.OK(t, err)
	// or the user's rules would not count
	must.OK(t, os.WriteFile(filepath.Join(d.home, ".claude.json"), trusted, 0o600))
	d.admin = adminKey(t, d.attestd("", append([]string{"init", "claude-code", "--unsigned", "--write"}, flags...)...))
	return d
}

// bareDesk starts a server. No agent is set up.
func bareDesk(t *testing.T) *desk {
	t.Helper()
	need(t)
	dir := t.TempDir()
	d := &desk{t: t, home: filepath.Join(dir, "home"), project: filepath.Join(dir, "project"), bin: filepath.Join(dir, "bin"), db: filepath.Join(dir, "attestd.db")}
	for _, folder := range []string{d.home, d.project, d.bin} {
		must.OK(t, os.Mkdir(folder, 0o700))
	}
	d.serve()
	return d
}

// adminKey is the one that init has shown.
func adminKey(t *testing.T, text string) string {
	t.Helper()
	shown := regexp.MustCompile(`admin key +(svc_\S+)`).FindStringSubmatch(text)
	if shown == nil {
		t.Fatalf("no admin key in %s", text)
	}
	return shown[1]
}

// ran demands that a call has left this file, and removes it.
func (d *desk) ran(mark string) {
	d.t.Helper()
	if err := os.Remove(mark); err != nil {
		d.t.Error("the call was not made: ", err)
	}
}

func (d *desk) settings() string { return filepath.Join(d.project, ".claude", "settings.local.json") }

// serve starts the server, which must not run.
func (d *desk) serve() {
	d.t.Helper()
	path, err := binary()
	must.OK(d.t, err)
	d.server = exec.Command(path, "serve", "--db", d.db)
	d.server.Env = d.environment()
	log, err := d.server.StderrPipe()
	must.OK(d.t, err)
	must.OK(d.t, d.server.Start())
	listens := make(chan bool, 1)
	go func() {
		for lines := bufio.NewScanner(log); lines.Scan(); {
			if strings.Contains(lines.Text(), "listens on") {
				listens <- true
			}
		}
		close(listens)
	}()
	if !<-listens {
		d.t.Fatal("the server does not listen")
	}
	server := d.server
	d.t.Cleanup(func() { end(server) })
}

// end ends a server at once, if it runs.
func end(server *exec.Cmd) {
	_ = server.Process.Kill()
	_ = server.Wait()
}

// environment is that of a shell of this user's, in which there is a secret that is none of the
// agent's business.
func (d *desk) environment(more ...string) []string {
	return append([]string{"HOME=" + d.home, "PATH=" + d.bin + ":" + os.Getenv("PATH"), "DEPLOY_SECRET=" + secret}, more...)
}

const secret = "correct-horse-battery-staple"

// attestd runs the built binary to its end, in the project.
func (d *desk) attestd(input string, args ...string) string {
	d.t.Helper()
	path, err := binary()
	must.OK(d.t, err)
	cmd := exec.CommandContext(d.t.Context(), path, args...)
	cmd.Dir, cmd.Env, cmd.Stdin = d.project, d.environment(), strings.NewReader(input)
	var log bytes.Buffer
	cmd.Stderr = &log
	out, err := cmd.Output()
	if err != nil {
		d.t.Fatalf("attestd %v: %v\n%s%s", args, err, out, log.String())
	}
	return string(out)
}

// claude runs Claude Code against the model until the model is done. It starts it from a shell in
// the way that `attestd init` prints.
func (d *desk) claude(m *model) {
	d.t.Helper()
	start := regexp.MustCompile(`(?m)^start +(.*)$`).FindStringSubmatch(d.attestd("", "init", "claude-code", "--unsigned", "--settings", filepath.Join(d.home, "elsewhere.json"), "--write"))[1]
	d.shell(start, m)
}

// shell types a line that ends with the start of Claude Code.
func (d *desk) shell(line string, m *model) {
	d.t.Helper()
	line, found := strings.CutSuffix(line, "claude")
	if !found {
		d.t.Fatalf("claude is not started by %q", line)
	}
	cmd := exec.CommandContext(d.t.Context(), "bash", "-c", line+program()+" -p go --output-format json")
	cmd.Dir = d.project
	cmd.Env = d.environment(quiet(m)...)
	cmd.WaitDelay = patience
	out, err := cmd.CombinedOutput()
	if err != nil {
		d.t.Fatalf("claude: %v\n%s", err, out)
	}
}

// quiet is what Claude Code needs in its environment to ask only the mock.
func quiet(m *model) []string {
	return []string{"ANTHROPIC_BASE_URL=" + m.URL, "ANTHROPIC_API_KEY=sk-ant-test", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1"}
}

// ask makes one call of the API with the admin key.
func (d *desk) ask(method, path, body string) []byte {
	d.t.Helper()
	request, err := http.NewRequestWithContext(d.t.Context(), method, "http://127.0.0.1:8080"+path, strings.NewReader(body))
	must.OK(d.t, err)
	request.Header.Set("Authorization", "Bearer "+d.admin)
	answer, err := (&http.Client{Timeout: patience}).Do(request)
	must.OK(d.t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	must.OK(d.t, err)
	if answer.StatusCode >= 300 {
		d.t.Fatalf("%s %s: %d %s", method, path, answer.StatusCode, text)
	}
	return text
}

// records are those of the chain, as "kind callId", and whole by that name.
func (d *desk) records() (names []string, whole map[string]string) {
	d.t.Helper()
	var chain struct {
		Records []struct {
			Payload struct {
				AgentID, ActionType string
				Payload             json.RawMessage
			}
		}
	}
	text := d.ask("GET", "/v1/chain", "")
	must.OK(d.t, json.Unmarshal(text, &chain))
	for _, hidden := range []string{secret, "svc_", d.home} {
		if strings.Contains(string(text), hidden) {
			d.t.Errorf("the chain shows %s", hidden)
		}
	}
	if verdict := string(d.ask("GET", "/v1/verify", "")); !strings.Contains(verdict, `"valid":true`) {
		d.t.Error(verdict)
	}
	whole = map[string]string{}
	for _, r := range chain.Records {
		var call struct{ CallID string }
		must.OK(d.t, json.Unmarshal(r.Payload.Payload, &call))
		if strings.HasPrefix(call.CallID, "attestd-check-") { // and what is random
			call.CallID = "attestd-check"
		}
		name := strings.TrimSpace(r.Payload.ActionType + " " + call.CallID)
		names = append(names, name)
		whole[name] = string(r.Payload.Payload)
	}
	slices.Sort(names)
	return names, whole
}

// recorded demands that the chain has exactly these records in any order, each once.
func (d *desk) recorded(want ...string) map[string]string {
	d.t.Helper()
	got, whole := d.records()
	slices.Sort(want)
	if !slices.Equal(got, want) {
		d.t.Errorf("recorded\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	return whole
}
