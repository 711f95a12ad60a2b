package cmd

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"attestd/agent/hookevent"
	"attestd/agent/setup"
	"attestd/agent/toolcall"
	"attestd/crypto/cred"
	"attestd/printable"
)

func initCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "init AGENT",
		Short: "Put a coding agent on this machine under watch",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(initClaudeCodeCommand())
	return cmd
}

// initFlags are those of `attestd init claude-code`.
type initFlags struct {
	hooks             setup.Hooks
	require, fail     string
	company, settings string
	write, command    bool
}

func initClaudeCodeCommand() *cobra.Command {
	var f initFlags
	cmd := &cobra.Command{
		Use:   "claude-code",
		Short: "Have every tool call of Claude Code recorded",
		Long: `Have every tool call of Claude Code recorded: register the agent, make a key that may record and read, keep that for this user alone in attestd/env of the
configuration folder, attest a first record, and print the settings, or with --write put them into .claude/settings.json. What is there already stays; to
run it again changes nothing.

The admin key of the company is taken from ATTESTD_KEY or ATTESTD_KEY_FILE. Without one, and without a key from an earlier time, a company is registered where
the server is on this machine and lets anyone do that; its admin key is shown once.

Claude Code asks the server itself and needs nothing installed; with --command it runs "attestd hook", which keeps on disk what the server cannot be given.
With --fail closed a call that cannot be recorded is refused.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	urlFlag(cmd)
	agentFlag(cmd, &f.hooks.Agent, string(hookevent.ClaudeCode))
	cmd.Flags().BoolVar(&f.write, "write", false, "write the settings instead of printing them")
	cmd.Flags().StringVar(&f.settings, "settings", filepath.Join(".claude", "settings.json"), "settings `file` for --write")
	cmd.Flags().BoolVar(&f.command, "command", false, "hooks that run this program, for older versions and for a server that is not always there")
	cmd.Flags().StringVar(&f.require, "require", "", "`passport`: refuse tools that no valid passport of the agent covers")
	cmd.Flags().StringVar(&f.hooks.Redact, "redact", "", "record only the hash of `input,output` or one of them")
	cmd.Flags().StringVar(&f.fail, "fail", "open", "`open` lets calls go on that cannot be recorded, closed refuses them")
	cmd.Flags().StringVar(&f.company, "company", "local", "`ID` of the company to register where there is no key")
	return cmd
}

func (f *initFlags) run(cmd *cobra.Command) error {
	if err := f.check(); err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	steps := setup.Steps{Agent: f.hooks.Agent, Say: func(what, how string) { printable.Fprintf(out, "%-10s %s\n", what, how) }}
	c, path, err := f.connect(cmd, steps)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := steps.FirstRecord(cmd.Context(), c); err != nil {
		return err
	}
	f.hooks.URL = c.URL()
	if f.command {
		if f.hooks.Command, err = ownProgram(); err != nil {
			return err
		}
	}
	start := "claude"
	if !f.command {
		start = "set -a; . " + printable.ShellWord(path) + "; set +a; claude"
	}
	if f.write {
		changed, err := f.hooks.Write(f.settings)
		if err != nil {
			return err
		}
		how := "has the hooks already"
		if changed {
			how = "written"
		}
		steps.Say("settings", f.settings+" "+how)
	} else {
		printable.Fprintf(out, "\nThe settings, for %s (--write puts them there):\n\n", f.settings)
		_, _ = out.Write(append(f.hooks.Settings(), '\n'))
	}
	steps.Say("start", start)
	return nil
}

// check refuses what was mistyped before anything is done.
func (f *initFlags) check() error {
	if err := cred.CheckSegment(f.hooks.Agent); err != nil {
		return usagef("--agent: %v", err)
	}
	if err := cred.CheckSegment(f.company); err != nil {
		return usagef("--company: %v", err)
	}
	if _, err := toolcall.ParseRedaction(f.hooks.Redact); err != nil {
		return usagef("--redact: %v", err)
	}
	var err error
	if f.hooks.Passport, err = parseRequire(f.require); err != nil {
		return err
	}
	f.hooks.Closed, err = parseFail(f.fail)
	return err
}

// ownProgram is this program: its name where a shell finds it by that, else its path.
func ownProgram() (string, error) {
	own, err := os.Executable()
	if err != nil {
		return "", err
	}
	if strings.Contains(own, "go-build") {
		return "", usagef("--command needs a program that stays: this one is of \"go run\", so build it first: go build -o attestd .")
	}
	if found, err := exec.LookPath("attestd"); err == nil {
		there, err := os.Stat(found)
		here, err2 := os.Stat(own)
		if err == nil && err2 == nil && os.SameFile(there, here) {
			return "attestd", nil
		}
	}
	return own, nil
}
