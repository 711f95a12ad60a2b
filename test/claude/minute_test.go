//go:build linux

package claude

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"attestd/internal/must"
	"attestd/internal/testenv"
)

// The test types the README word for word: from a clone of this repository, with a clean home, to
// the checkers, and once more. The first time may last a minute, to the first attested call of
// Claude Code.
func TestReadmeMinute(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	need(t)
	origin, err := exec.CommandContext(t.Context(), "git", "rev-parse", "--absolute-git-dir").Output()
	if err != nil {
		testenv.Missing(t, "this copy of the project has no git history")
	}
	home := t.TempDir()
	d := &desk{t: t, home: home, project: filepath.Join(home, "attestd"), bin: filepath.Join(home, "bin")}
	m := newModel(t, []call{bash("echo a")})
	environment := append(d.environment(quiet(m)...), goEnvironment(t)...)
	must.OK(t, os.Mkdir(d.bin, 0o755))
	// A person would type a prompt.
	must.OK(t, os.WriteFile(filepath.Join(d.bin, "claude"), []byte("#!/bin/sh\n[ \"$1\" = --version ] && exec '"+program()+"' --version\nexec '"+program()+"' -p go --output-format json\n"), 0o755))
	typed := func(line string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), "bash", "-c", line)
		cmd.Dir, cmd.Env, cmd.WaitDelay = d.project, environment, patience
		// "go run" leaves its program behind when it is killed
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		return cmd
	}

	began := time.Now()
	if out, err := exec.CommandContext(t.Context(), "git", "clone", "-q", strings.TrimSpace(string(origin)), d.project).CombinedOutput(); err != nil {
		t.Fatalf("git clone: %v\n%s", err, out)
	}
	start, session := d.readme()
	server := typed(start)
	log, err := server.StderrPipe()
	must.OK(t, err)
	must.OK(t, server.Start())
	defer func() {
		_ = syscall.Kill(-server.Process.Pid, syscall.SIGKILL)
		_ = server.Wait()
	}()
	lines := bufio.NewScanner(log)
	for lines.Scan() && !strings.Contains(lines.Text(), "listens on") {
	}
	go func() {
		for lines.Scan() { // or the server would wait for a reader
		}
	}()
	serves := time.Since(began)
	var want []string
	for range 2 {
		if out, err := typed(session).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		want = append(want, "agent.watched", "tool.requested toolu_0_0", "tool.completed toolu_0_0", "session.ended", "git.push")
	}
	// which another walk names again
	want = append(want, slices.Repeat([]string{"git.commit"}, 10)...)

	key, err := os.ReadFile(filepath.Join(d.project, "acme.key"))
	must.OK(t, err)
	d.admin = strings.TrimSpace(string(key))
	d.recorded(want...)
	var chain struct {
		Records []struct{ Timestamp time.Time }
	}
	must.OK(t, json.Unmarshal(d.ask("GET", "/v1/chain", ""), &chain))
	took := chain.Records[1].Timestamp.Sub(began)
	t.Logf("from the clone to a server: %.1f s; to the first attested call: %.1f s", serves.Seconds(), took.Seconds())
	if took > 10*time.Minute { // a machine with a cold cache and much else to do may take several
		t.Error("that is no minute")
	}
}

// readme returns the command with which the clone's README starts a server, and everything else
// that is typed, except the chapter on its end.
func (d *desk) readme() (start, session string) {
	d.t.Helper()
	text, err := os.ReadFile(filepath.Join(d.project, "README.md"))
	must.OK(d.t, err)
	text = regexp.MustCompile(`(?ms)^## Again, .*?^## `).ReplaceAll(text, []byte("## "))
	blocks := regexp.MustCompile("(?ms)^```sh\n(.*?)^```$").FindAllSubmatch(text, -1)
	if len(blocks) < 3 || string(blocks[0][1]) != "go run . serve\n" {
		d.t.Fatal("the README has changed: its first block of sh starts a server")
	}
	for _, b := range blocks[1:] {
		session += string(b[1])
	}
	return string(blocks[0][1]), "set -e\n" + session
}

// goEnvironment is where the modules and what was built before are: a user who has Go has them
// below a home of their own.
func goEnvironment(t *testing.T) (list []string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", "-json", "GOCACHE", "GOMODCACHE", "GOFLAGS", "GOPROXY", "GOSUMDB", "GOTOOLCHAIN").Output()
	must.OK(t, err)
	var values map[string]string
	must.OK(t, json.Unmarshal(out, &values))
	for name, value := range values {
		list = append(list, name+"="+value)
	}
	return list
}
