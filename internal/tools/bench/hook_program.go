package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// hookProgram measures the processes that agents start for each event: how long one takes with the
// file of its program in the system's cache and without, and its memory. Events are signed with the
// agent's key, or not.
func (b *bench) hookProgram(ctx context.Context) (err error) {
	server, t, err := b.serveTenant(ctx, "hook-program.db", "--base-url=")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	for _, program := range []struct {
		name, file string
		isSmall    bool
	}{{"attestd", b.binary(), false}, {"attestd-agent", b.small(), true}} {
		h := &hookRun{url: "http://" + server.addr, folder: filepath.Join(b.dir, "hook-"+program.name), name: program.name, agent: "agent-of-" + program.name}
		if err := h.prepare(ctx, program.file, t); err != nil {
			return err
		}
		for _, signed := range []bool{false, true} {
			kind := "an event"
			if signed {
				kind = "a signed event"
			}
			b.say("hooks, %s, %s", program.name, kind)
			if err := h.measure(ctx, b, kind, signed, program.isSmall); err != nil {
				return fmt.Errorf("%s, %s: %w", program.name, kind, err)
			}
		}
		if info, err := os.Stat(h.program()); err == nil {
			b.report.add("hook program", program.name, "size of the program", float64(info.Size())/1e6, fileSize, boundOf(program.isSmall, 10))
		}
	}
	return nil
}

// boundOf is the target of the small program alone.
func boundOf(isSmall bool, most float64) *target {
	if !isSmall {
		return nil
	}
	return atMost(most)
}

// hookRun starts the hooks of one program, in a home folder of its own.
type hookRun struct {
	url, folder, name string
	agent             string // has a key
	key               string // may write records, and is no agent's
	events            int
}

func (h *hookRun) program() string { return filepath.Join(h.folder, h.name) }

// prepare copies the program, because a file that a server runs stays in the cache, and gives an
// agent of this machine a key.
func (h *hookRun) prepare(ctx context.Context, program string, t tenant) error {
	text, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	if err := errors.Join(os.MkdirAll(h.folder, 0o700), os.WriteFile(h.program(), text, 0o755)); err != nil {
		return err
	}
	h.key = t.key
	cmd := exec.CommandContext(ctx, h.program(), "init", "claude-code", "--agent", h.agent, "--url", h.url, "--write")
	cmd.Dir, cmd.Env = h.folder, append(h.environment(), "ATTESTD_KEY="+t.key)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("init: %w: %s", err, out)
	}
	return nil
}

func (h *hookRun) environment() []string {
	return append(os.Environ(), "HOME="+h.folder, "XDG_CONFIG_HOME=", "XDG_STATE_HOME=", "USERPROFILE="+h.folder)
}

// command is one hook of Claude Code, before a call.
func (h *hookRun) command(ctx context.Context, signed bool) *exec.Cmd {
	h.events++
	agent := h.agent
	if !signed {
		agent = "plain"
	}
	cmd := exec.CommandContext(ctx, h.program(), "hook", "--from", "claude-code", "--agent", agent, "--url", h.url)
	cmd.Env, cmd.Stdin = h.environment(), strings.NewReader(hookEvent(time.Now().UnixNano(), h.events))
	if !signed {
		cmd.Env = append(cmd.Env, "ATTESTD_KEY="+h.key)
	}
	return cmd
}

func (h *hookRun) measure(ctx context.Context, b *bench, kind string, signed, isSmall bool) error {
	run := func() (time.Duration, error) {
		cmd := h.command(ctx, signed)
		began := time.Now()
		out, err := cmd.CombinedOutput()
		took := time.Since(began)
		if err != nil || len(out) > 0 && !strings.HasPrefix(string(out), "{") {
			return 0, fmt.Errorf("the hook ended with %w: %s", err, out)
		}
		return took, nil
	}
	var warm, cold []float64
	for range pick(b.quick, 20, 200) {
		took, err := run()
		if err != nil {
			return err
		}
		warm = append(warm, millis(took))
	}
	for range pick(b.quick, 5, 40) {
		if !uncache(h.program()) {
			break
		}
		took, err := run()
		if err != nil {
			return err
		}
		cold = append(cold, millis(took))
	}
	most, err := h.memory(ctx, signed)
	if err != nil {
		return err
	}
	within := boundOf(isSmall, 4)
	if signed {
		within = boundOf(isSmall, 8)
	}
	b.report.add("hook program", h.name, kind+", warm, median", median(warm), milli, within)
	if len(cold) > 0 {
		b.report.add("hook program", h.name, kind+", cold, median", median(cold), milli, boundOf(isSmall, 25))
	}
	if most > 0 {
		b.report.add("hook program", h.name, kind+", most memory", float64(most)/(1<<20), mebibytes, boundOf(isSmall, 8))
	}
	return nil
}

// memory returns the most resident memory of a hook, as Linux says it of a process that runs. What
// it says of one that has ended has its parent's in it.
func (h *hookRun) memory(ctx context.Context, signed bool) (most int64, err error) {
	for range 5 {
		cmd := h.command(ctx, signed)
		if err := cmd.Start(); err != nil {
			return 0, err
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		for running := true; running; {
			if now, ok := statusBytes(cmd.Process.Pid, "VmHWM"); ok {
				most = max(most, now)
			}
			select {
			case err := <-ended:
				if running = false; err != nil {
					return 0, err
				}
			default:
			}
		}
	}
	return most, nil
}
