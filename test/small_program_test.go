package test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"attestd/internal/harness"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store/storetest"
)

// machine is the home of an agent's user, with both programs in a folder.
type machine struct {
	*testing.T
	home, programs string
	key            string
}

func newMachine(t *testing.T, key string) machine {
	m := machine{t, t.TempDir(), filepath.Join(t.TempDir(), "bin"), key}
	must.OK(t, os.Mkdir(m.programs, 0o755))
	whole, err := binary(t)
	must.OK(t, err)
	text, err := os.ReadFile(whole)
	must.OK(t, err)
	must.OK(t, os.WriteFile(filepath.Join(m.programs, "attestd"), text, 0o755))
	must.OK(t, harness.BuildSmall(t.Context(), filepath.Join(m.programs, "attestd-agent")))
	return m
}

// run runs one of the programs, and returns what it prints on both outputs.
func (m machine) run(program, input string, args ...string) (out string, err error) {
	cmd := exec.CommandContext(m.Context(), filepath.Join(m.programs, program), args...)
	cmd.Dir, cmd.Stdin = m.home, strings.NewReader(input)
	cmd.Env = []string{"HOME=" + m.home, "PATH=/usr/bin:/bin", "ATTESTD_KEY=" + m.key}
	text, err := cmd.CombinedOutput()
	return string(text), err
}

func (m machine) must(program string, args ...string) string {
	m.Helper()
	out, err := m.run(program, "", args...)
	if err != nil {
		m.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
	return out
}

// hook returns the command of the hook before a call.
func (m machine) hook() string {
	m.Helper()
	text, err := os.ReadFile(filepath.Join(m.home, ".claude/settings.local.json"))
	must.OK(m.T, err)
	var settings struct {
		Hooks struct {
			PreToolUse []struct{ Hooks []struct{ Command string } }
		}
	}
	must.OK(m.T, json.Unmarshal(text, &settings))
	return settings.Hooks.PreToolUse[0].Hooks[0].Command
}

// Where attestd-agent is next to attestd, the hooks that init writes run it. It records with the
// agent's key, and both programs check the hooks. Another vendor's program of that name is not
// used.
func TestInitWritesTheSmallProgram(t *testing.T) {
	testenv.Needs(t, testenv.Slow, testenv.Plain)
	t.Parallel()
	s := serve(t, storetest.New(t))
	m := newMachine(t, s.register(t, "acme").key)
	small := filepath.Join(m.programs, "attestd-agent")

	m.must("attestd", "init", "claude-code", "--url", s.URL, "--fail", "closed", "--write")
	if want := small + " hook --agent claude-code --url " + s.URL + " --fail closed || exit 2"; m.hook() != want {
		t.Errorf("the hook is %s, want %s", m.hook(), want)
	}
	event := `{"session_id":"s","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"true"},"tool_use_id":"toolu_small"}`
	cmd := exec.CommandContext(t.Context(), "sh", "-c", m.hook())
	cmd.Env, cmd.Stdin = []string{"HOME=" + m.home}, strings.NewReader(event)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if records := m.must("attestd-agent", "records", "--url", s.URL); !strings.Contains(records, "toolu_small") || !strings.Contains(records, `"statement"`) {
		t.Errorf("the event is not recorded, or not signed:\n%s", records)
	}
	for _, program := range []string{"attestd", "attestd-agent"} {
		if out := m.must(program, "init", "claude-code", "--url", s.URL, "--check"); !strings.Contains(out, "record     ") {
			t.Errorf("%s has found no record:\n%s", program, out)
		}
	}
	// without a server its messages have its own name
	if out, err := m.run("attestd-agent", "", "records", "--url", "http://127.0.0.1:1"); err == nil || !strings.HasPrefix(out, "attestd-agent: ") {
		t.Errorf("%v: %s", err, out)
	}

	installed := filepath.Join(m.home, ".local/bin")
	m.must("attestd", "init", "--install")
	for _, name := range []string{"attestd", "attestd-agent"} {
		if info, err := os.Stat(filepath.Join(installed, name)); err != nil || info.Mode().Perm() != 0o755 {
			t.Errorf("%s is not installed: %v", name, err)
		}
	}

	whole := filepath.Join(m.programs, "attestd")
	for how, change := range map[string]func() error{
		"another program": func() error { return os.WriteFile(small, []byte("#!/bin/sh\n"), 0o755) },
		"one that everybody may change": func() error {
			must.OK(t, harness.BuildSmall(t.Context(), small))
			return os.Chmod(small, 0o777)
		},
		"a pipe": func() error { return exec.Command("mkfifo", small).Run() },
	} {
		must.OK(t, os.RemoveAll(small))
		must.OK(t, change())
		m.must("attestd", "init", "claude-code", "--url", s.URL, "--write")
		if !strings.HasPrefix(m.hook(), whole+" hook ") {
			t.Errorf("beside %s the hook is %s", how, m.hook())
		}
	}
}
