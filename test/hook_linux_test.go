package test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gofrs/flock"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store/storetest"
)

// hookDesk is the machine of a user whose coding agent runs hooks.
type hookDesk struct {
	t    *testing.T
	home string
	env  []string
}

func newHookDesk(t *testing.T, env ...string) *hookDesk {
	home := t.TempDir()
	return &hookDesk{t, home, append([]string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}, env...)}
}

// run runs a command as the agent does, and returns its exit status and how long it took. Standard
// input stays open where the body is nil.
func (d *hookDesk) run(body []byte, args ...string) (status int, stdout, stderr string, took time.Duration) {
	d.t.Helper()
	path, err := binary(d.t)
	must.OK(d.t, err)
	cmd := exec.CommandContext(d.t.Context(), path, args...)
	cmd.Env, cmd.Dir = d.env, d.home
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	if body == nil {
		r, w, err := os.Pipe()
		must.OK(d.t, err)
		defer r.Close()
		defer w.Close()
		cmd.Stdin = r
	} else {
		cmd.Stdin = bytes.NewReader(body)
	}
	began := time.Now()
	err = cmd.Run()
	took = time.Since(began)
	if exited := (*exec.ExitError)(nil); err != nil {
		if !errors.As(err, &exited) {
			d.t.Fatal(err)
		}
		status = exited.ExitCode()
	}
	return status, out.String(), log.String(), took
}

func reported(name, call string) []byte {
	return fmt.Appendf(nil, `{"session_id":"s","hook_event_name":%q,"tool_name":"Bash","tool_use_id":%q,"tool_input":{}}`, name, call)
}

// Agents wait five seconds for a hook, and most go on with the call when it has not answered. So it
// answers before that, as --fail says, whatever it waits for: its input, a pipe at the place of a
// file, a lock that is never released, or a server that is silent.
func TestHookAnswersBeforeTheAgentGoesOn(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // it accepts, and never answers
	must.OK(t, err)
	t.Cleanup(func() { silent.Close() })
	away, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	must.OK(t, away.Close())
	reach := func(l net.Listener) []string { return []string{"ATTESTD_URL=http://" + l.Addr().String()} }
	pipe := func(path string) {
		must.OK(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must.OK(t, syscall.Mkfifo(path, 0o600))
	}
	body := reported("PreToolUse", "1")
	for name, c := range map[string]struct {
		env   []string
		input []byte
		spoil func(d *hookDesk)
		open  int // the exit status with --fail open: 0 where the event waits on disk
	}{
		"input that does not end": {env: append(reach(silent), "ATTESTD_KEY=svc_x"), open: 1},
		"a pipe as key file": {env: reach(silent), input: body, open: 1, spoil: func(d *hookDesk) {
			pipe(filepath.Join(d.home, "key"))
			d.env = append(d.env, "ATTESTD_KEY_FILE="+filepath.Join(d.home, "key"))
		}},
		"a pipe as key of the agent": {env: reach(silent), input: body, open: 1, spoil: func(d *hookDesk) {
			pipe(filepath.Join(d.home, ".config", "attestd", "agents", "claude-code.jwk"))
		}},
		"a pipe as file of CAs": {env: append(reach(silent), "ATTESTD_KEY=svc_x"), input: body, open: 1, spoil: func(d *hookDesk) {
			pipe(filepath.Join(d.home, "ca.pem"))
			d.env = append(d.env, "ATTESTD_CA_FILE="+filepath.Join(d.home, "ca.pem"))
		}},
		"a silent server": {env: append(reach(silent), "ATTESTD_KEY=svc_x"), input: body, open: 0},
		"a lock, and no server": {env: append(reach(away), "ATTESTD_KEY=svc_x"), input: body, open: 1, spoil: func(d *hookDesk) {
			folder := filepath.Join(d.home, "spool")
			must.OK(t, os.MkdirAll(folder, 0o700))
			lock := flock.New(filepath.Join(folder, "add.lock"))
			must.OK(t, lock.Lock())
			t.Cleanup(func() { lock.Unlock() })
		}},
		"a pipe as queue, and no server": {env: append(reach(away), "ATTESTD_KEY=svc_x"), input: body, open: 1, spoil: func(d *hookDesk) {
			pipe(filepath.Join(d.home, "spool", "queue"))
		}},
		"a pipe as secret, and no server": {env: append(reach(away), "ATTESTD_KEY=svc_x"), input: body, open: 0, spoil: func(d *hookDesk) {
			pipe(filepath.Join(d.home, "hook-secret"))
		}},
	} {
		for fail, want := range map[string]int{"open": c.open, "closed": 2} {
			t.Run(name+", "+fail, func(t *testing.T) {
				t.Parallel()
				d := newHookDesk(t, c.env...)
				if c.spoil != nil {
					c.spoil(d)
				}
				status, _, answer, took := d.run(c.input, "hook", "--state", d.home, "--fail", fail)
				if status != want || took > 4800*time.Millisecond || (status != 0) != (answer != "") {
					t.Errorf("exit status %d after %v, want %d: %s", status, took, want, answer)
				}
			})
		}
	}
}

// On a full disk events of hooks are recorded while the server is up, with and without a key of the
// agent: each once, and the user gets a message. With room again the session goes on where it was.
func TestHookOnAFullDisk(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	disk := smallDisk(t)
	s := serve(t, storetest.New(t), "--rate-limits", "off")
	c := s.register(t, "acme")
	c.call(t, 201, "POST", "/v1/agents/register", `{"agentId":"signer"}`, nil)
	c.call(t, 201, "POST", "/v1/agents/register", `{"agentId":"plain"}`, nil)
	d := newHookDesk(t, "ATTESTD_URL="+s.URL, "ATTESTD_KEY="+c.key)
	if status, _, answer, _ := d.run([]byte{}, "agent-key", "enrol", "--agent", "signer"); status != 0 {
		t.Fatal(answer)
	}
	for _, agent := range []string{"signer", "plain"} {
		n := 0
		call := func(full bool) {
			t.Helper()
			n++
			for _, name := range []string{"PreToolUse", "PostToolUse"} {
				status, out, answer, _ := d.run(reported(name, fmt.Sprint(n)), "hook", "--agent", agent, "--state", filepath.Join(disk, agent), "--fail", "closed")
				if status != 0 || full && agent == "signer" && !strings.Contains(out, "attestd cannot use its folder") || !full && out != "{}\n" {
					t.Errorf("%s %s: exit status %d, %s %s", agent, name, status, out, answer)
				}
			}
		}
		call(false)
		fillUp(t, disk)
		call(true)
		call(true)
		makeRoom(t, disk)
		call(false)
		// also where nothing could ever be stored
		fillUp(t, disk)
		status, out, answer, _ := d.run(reported("PreToolUse", "new"), "hook", "--agent", agent, "--state", filepath.Join(disk, "new"), "--fail", "closed")
		if status != 0 || !strings.Contains(out, "attestd cannot use its folder") {
			t.Errorf("exit status %d, %s %s", status, out, answer)
		}
		makeRoom(t, disk)
		must.OK(t, os.RemoveAll(filepath.Join(disk, "new")))

		status, out, answer, _ = d.run([]byte{}, "records", "--agent", agent)
		if status != 0 {
			t.Fatal(answer)
		}
		for _, id := range []string{"1", "2", "3", "4"} {
			for _, action := range []string{"tool.requested", "tool.completed"} {
				found := 0
				for line := range strings.Lines(out) {
					if strings.Contains(line, `"callId":"`+id+`"`) && strings.Contains(line, `"`+action+`"`) {
						found++
					}
				}
				if found != 1 {
					t.Errorf("%d records of %s %s by %s, want 1", found, action, id, agent)
				}
			}
		}
	}
}
