//go:build linux

package claude

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"attestd/internal/must"
	"attestd/internal/testenv"
)

// install puts a copy of attestd into the PATH, and returns its path.
func (d *desk) install() string {
	d.t.Helper()
	built, err := binary()
	must.OK(d.t, err)
	text, err := os.ReadFile(built)
	must.OK(d.t, err)
	path := filepath.Join(d.bin, "attestd")
	must.OK(d.t, os.WriteFile(path, text, 0o700))
	return path
}

// faults are what may become of the program of a hook, each with the repair.
func (d *desk) faults() map[string]func() (repair func()) {
	program, env := filepath.Join(d.bin, "attestd"), filepath.Join(d.home, ".config", "attestd", "env")
	moved := func(path string, put func()) func() {
		must.OK(d.t, os.Rename(path, path+".away"))
		put()
		return func() { must.OK(d.t, os.Rename(path+".away", path)) }
	}
	return map[string]func() func(){
		"gone": func() func() { return moved(program, func() {}) },
		"not executable": func() func() {
			must.OK(d.t, os.Chmod(program, 0o600))
			return func() { must.OK(d.t, os.Chmod(program, 0o700)) }
		},
		"killed": func() func() {
			return moved(program, func() { must.OK(d.t, os.WriteFile(program, []byte("#!/bin/sh\nkill -9 $$\n"), 0o700)) })
		},
		// its program has no part in this, so nothing but the agent can end it
		"hangs": func() func() {
			return moved(program, func() { must.OK(d.t, os.WriteFile(program, []byte("#!/bin/sh\nexec sleep 60\n"), 0o700)) })
		},
		// attestd itself waits for a file
		"waits": func() func() { return moved(env, func() { must.OK(d.t, syscall.Mkfifo(env, 0o600)) }) },
	}
}

// refuses runs the agent with each fault, and demands that its call is not made. goesOn names the
// faults with which the agent goes on, as init has reported.
func (d *desk) refuses(run func(), goesOn ...string) {
	d.t.Helper()
	mark := filepath.Join(d.project, "mark")
	for name, spoil := range d.faults() {
		if slices.Contains(goesOn, name) && !testenv.Night() {
			continue // it takes a minute
		}
		repair := spoil()
		run()
		repair()
		_, err := os.Stat(mark)
		if ran := err == nil; ran != slices.Contains(goesOn, name) {
			d.t.Errorf("with a program that is %s the call is made: %v", name, ran)
		}
		if err := os.Remove(mark); err != nil && !errors.Is(err, fs.ErrNotExist) {
			d.t.Fatal(err)
		}
	}
}

// The real Claude Code refuses a call that must be recorded when the program of its hook is gone,
// cannot be run, is killed or hangs. With hooks switched off in its settings it makes the call, as
// --check has reported.
func TestGuardOfClaudeCode(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	d := newDesk(t, rules)
	d.install()
	output := d.start("attestd init claude-code --unsigned --command --write --fail closed")
	if strings.Contains(output, "\nlacks") {
		t.Error(output)
	}
	mark := filepath.Join(d.project, "mark")
	run := func() { d.shell("claude", newModel(t, []call{bash("touch mark")})) }
	d.start("attestd init claude-code --check")
	run()
	d.ran(mark)
	d.refuses(run)

	local := filepath.Join(d.project, ".claude", "settings.json")
	must.OK(t, os.WriteFile(local, []byte(`{"disableAllHooks":true}`), 0o600))
	output = d.start("attestd init claude-code --check || echo status $?")
	if !strings.Contains(output, "disableAllHooks") || !strings.Contains(output, "status 1") {
		t.Error(output)
	}
	before, _ := d.records()
	run()
	d.ran(mark)
	if after, _ := d.records(); len(after) != len(before) {
		t.Errorf("%d records, and then %d", len(before), len(after))
	}
}

// The real Gemini CLI and Codex refuse such a call too, but when the program hangs before attestd
// can answer: they have no setting for that, as init says.
func TestGuardsOfOtherAgents(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	t.Run("gemini", func(t *testing.T) {
		d, model := newOtherDesk(t, "gemini", geminiModel(t))
		d.register()
		d.install()
		settings := filepath.Join(d.home, ".gemini", "settings.json")
		must.OK(t, os.MkdirAll(filepath.Dir(settings), 0o700))
		const bare = `{"security":{"auth":{"selectedType":"gemini-api-key"}},"privacy":{"usageStatisticsEnabled":false},"general":{"enableAutoUpdate":false}}`
		must.OK(t, os.WriteFile(settings, []byte(bare), 0o600))
		if output := d.start("attestd init gemini --write --fail closed", "ATTESTD_KEY="+d.admin); !strings.Contains(output, "lacks      Gemini CLI has no setting") {
			t.Error(output)
		}
		environment := []string{"GOOGLE_GEMINI_BASE_URL=" + model, "GEMINI_API_KEY=test", "GEMINI_CLI_TRUST_WORKSPACE=true", "GEMINI_CLI_NO_RELAUNCH=true"}
		run := func() { d.start("gemini -m gemini-2.5-flash --yolo -p go", environment...) }
		run()
		d.ran(filepath.Join(d.project, "mark"))
		d.refuses(run, "hangs")

		text, err := os.ReadFile(settings)
		must.OK(t, err)
		must.OK(t, os.WriteFile(settings, []byte(strings.Replace(string(text), "{", `{"hooksConfig":{"enabled":false},`, 1)), 0o600))
		if output := d.start("attestd init gemini --check || echo status $?"); !strings.Contains(output, "under hooksConfig") || !strings.Contains(output, "status 1") {
			t.Error(output)
		}
		run()
		d.ran(filepath.Join(d.project, "mark"))
	})
	t.Run("codex", func(t *testing.T) {
		d, model := newOtherDesk(t, "codex", codexModel(t))
		d.register()
		d.install()
		if output := d.start("attestd init codex --write --fail closed", "ATTESTD_KEY="+d.admin); !strings.Contains(output, "lacks      Codex has no setting") {
			t.Error(output)
		}
		config := filepath.Join(d.home, ".codex", "config.toml")
		plain := strings.Replace(codexConfig, "MODEL", model, 1)
		must.OK(t, os.WriteFile(config, []byte(plain), 0o600))
		run := func() { d.start("codex exec --skip-git-repo-check --dangerously-bypass-hook-trust go </dev/null") }
		run()
		d.ran(filepath.Join(d.project, "mark"))
		d.refuses(run, "hangs")

		must.OK(t, os.WriteFile(config, []byte(strings.Replace(plain, "[features]", "[features]\nhooks = false", 1)), 0o600))
		if output := d.start("attestd init codex --check || echo status $?"); !strings.Contains(output, "hooks = false under [features]") || !strings.Contains(output, "status 1") {
			t.Error(output)
		}
		run()
		d.ran(filepath.Join(d.project, "mark"))
	})
}
