package cmd

import (
	"os"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"

	"attestd/agent/setup"
	"attestd/agent/toolcall"
	"attestd/crypto/cred"
	"attestd/internal/printable"
)

func initCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "init AGENT",
		Short: "Put a coding agent on this machine under watch",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	for _, kind := range setup.Kinds {
		cmd.AddCommand(initAgentCommand(kind))
	}
	return cmd
}

// initFlags are those of `attestd init AGENT`.
type initFlags struct {
	kind              setup.Kind
	hooks             setup.Hooks
	require, fail     string
	company, settings string
	write, command    bool
	check, remove     bool
}

func initAgentCommand(kind setup.Kind) *cobra.Command {
	f := initFlags{kind: kind, hooks: setup.Hooks{Source: kind.Source}, command: !kind.HTTP}
	how := kind.Title + ` runs "attestd hook" for each call, which keeps on disk what the server cannot be given.`
	if kind.HTTP {
		how = kind.Title + ` asks the server itself and needs nothing installed; with --command it runs "attestd hook", which keeps on disk what the server cannot be given.
Versions of it make a call although its HTTP hook had no answer: for --fail closed and --require passport it gets command hooks, unless its program
says that it is ` + string(setup.HTTPRefuses) + ` or later.`
	}
	if kind.Trust != "" {
		how += "\n" + kind.Trust + "."
	}
	cmd := &cobra.Command{
		Use:   string(kind.Source),
		Short: "Have every tool call of " + kind.Title + " recorded",
		Long: `Have every tool call of ` + kind.Title + ` recorded: register the agent, make a key that may record and read, keep that for this user alone in attestd/env of the
configuration folder, attest a first record, and print the settings, or with --write put them into ` + kind.Settings() + `. What is there already stays; to
run it again changes nothing.

The admin key of the company is taken from ATTESTD_KEY or ATTESTD_KEY_FILE. Without one, and without a key from an earlier time, a company is registered where
the server is on this machine and lets anyone do that; its admin key is shown once.

` + how + `
With --fail closed a call that cannot be recorded is refused.

With --check the hooks in the settings are given a call as ` + kind.Title + ` would, and the records of it are read back from the server and shown.
With --remove the hooks are taken out of the settings again. When no other settings that were written need it, the key is deleted, on the server
too where ATTESTD_KEY or ATTESTD_KEY_FILE has an admin key. Records and the registered agent stay.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	urlFlag(cmd)
	agentFlag(cmd, &f.hooks.Agent, string(kind.Source))
	cmd.Flags().BoolVar(&f.write, "write", false, "write the settings instead of printing them")
	cmd.Flags().StringVar(&f.settings, "settings", "", "settings `file` (default "+kind.Settings()+")")
	if kind.HTTP {
		cmd.Flags().BoolVar(&f.command, "command", false, "hooks that run this program, for older versions and for a server that is not always there")
	}
	cmd.Flags().StringVar(&f.require, "require", "", "`passport`: refuse tools that no valid passport of the agent covers")
	cmd.Flags().StringVar(&f.hooks.Redact, "redact", "", "record only the hash of `input,output` or one of them")
	cmd.Flags().StringVar(&f.fail, "fail", "open", "`open` lets calls go on that cannot be recorded, closed refuses them")
	cmd.Flags().StringVar(&f.company, "company", "local", "`ID` of the company to register where there is no key")
	cmd.Flags().BoolVar(&f.check, "check", false, "have the hooks in the settings report a call, and show its records")
	cmd.Flags().BoolVar(&f.remove, "remove", false, "take back what init has written")
	for _, name := range []string{"check", "remove"} {
		_ = cmd.Flags().SetAnnotation(name, typedOnly, []string{"true"}) // the flag is there
	}
	return cmd
}

func (f *initFlags) run(cmd *cobra.Command) error {
	if err := f.validate(); err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	steps := setup.Steps{Agent: f.hooks.Agent, Say: func(what, how string) { printable.Fprintf(out, "%-10s %s\n", what, how) }}
	switch {
	case f.check:
		return f.runCheck(cmd, steps)
	case f.remove:
		return f.runRemove(cmd, steps)
	}
	how, err := f.chooseHooks(cmd)
	if err != nil {
		return err
	}
	c, path, err := f.connect(cmd, steps)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := steps.FirstRecord(cmd.Context(), c); err != nil {
		return err
	}
	f.hooks.URL = c.URL()
	steps.Say("hooks", how)
	if f.write {
		if err := noteUser(path, f.settings); err != nil {
			return err
		}
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
		if err := noteUser(path, printedSettings); err != nil {
			return err
		}
		printable.Fprintf(out, "\nThe settings, for %s (--write puts them there):\n\n", f.settings)
		_, _ = out.Write(append(f.hooks.Settings(), '\n'))
	}
	if f.kind.Trust != "" {
		steps.Say("trust", f.kind.Trust)
	}
	start := f.kind.Program
	if !f.command {
		start = "set -a; . " + printable.ShellWord(path) + "; set +a; " + start
	}
	steps.Say("start", start)
	return nil
}

// chooseHooks decides between HTTP and command hooks by the version of the agent, and says why.
func (f *initFlags) chooseHooks(cmd *cobra.Command) (how string, err error) {
	version := f.kind.Version(cmd.Context())
	agent := f.kind.Title + " " + string(version)
	if version == "" {
		agent = f.kind.Title + ", whose version is unknown (" + f.kind.Program + " --version gives none)"
	}
	flag := cmd.Flag("command")
	strict := f.kind.HTTP && (f.hooks.Closed || f.hooks.Passport) && !version.AtLeast(setup.HTTPRefuses)
	why := ""
	switch {
	case strict && flag.Changed && !f.command:
		return "", usagef("%s may make a call although its HTTP hook had no answer; leave out --command=false, or have %s %s or later in PATH", agent, f.kind.Title, setup.HTTPRefuses)
	case strict && !f.command:
		f.command = true
		why = ": HTTP hooks without an answer are sure to refuse a call from " + string(setup.HTTPRefuses) + " on alone"
	}
	if !f.command {
		return "HTTP hooks, for " + agent, nil
	}
	f.hooks.Command, err = ownProgram()
	return "command hooks, for " + agent + why, err
}

// validate refuses what was mistyped before anything is done.
func (f *initFlags) validate() error {
	if f.check && f.remove || f.write && (f.check || f.remove) {
		return usagef("--write, --check and --remove exclude each other")
	}
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
	if f.hooks.Closed, err = parseFail(f.fail); err != nil {
		return err
	}
	if f.settings == "" {
		f.settings, err = f.kind.SettingsFile()
	}
	return err
}

// ownProgram is this program: its name where a shell finds it by that, else its path.
func ownProgram() (string, error) {
	own, err := os.Executable()
	if err != nil {
		return "", err
	}
	if strings.Contains(own, "go-build") {
		return "", usagef("command hooks need a program that stays: this one is of \"go run\", so build it first: go build -o attestd .")
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
