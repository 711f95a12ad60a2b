package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"

	"attestd/agent/setup"
	"attestd/chain/action"
	"attestd/cmd/cli"
	"attestd/crypto/cred"
	"attestd/internal/printable"
	"attestd/sdk/attestd"
)

func initCommand() *cobra.Command {
	var install bool
	cmd := &cobra.Command{
		Use:   "init AGENT",
		Short: "Record the tool calls of a coding agent on this machine",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !install {
				return cmd.Help()
			}
			how, err := installPrograms()
			for _, line := range how {
				printable.Fprintf(cmd.OutOrStdout(), "%-10s %s\n", "program", line)
			}
			return err
		},
	}
	installFlag(cmd, &install)
	_ = cmd.Flags().SetAnnotation("install", cli.TypedOnly, []string{"true"}) // the flag is there
	for _, kind := range setup.Kinds {
		cmd.AddCommand(initAgentCommand(kind))
	}
	cmd.AddCommand(initMCPCommand())
	return cmd
}

const guardHelp = "put the starter policies in force, unless the company has policies, and refuse calls that none allows (--require policy)"

const askHelp = "with --guard, have people approve pushes, deletions, deployments and payments"

// checkGuard checks --guard and --ask. other is whether nothing is set up.
func checkGuard(guard, ask, other bool) error {
	switch {
	case guard && other:
		return cli.Usagef("--guard is not for --check and --remove")
	case ask && !guard:
		return cli.Usagef("--ask needs --guard: its rules go beside the starter policies")
	}
	return nil
}

// initFlags are the flags of `attestd init AGENT`.
type initFlags struct {
	kind              setup.Kind
	hooks             setup.Hooks
	require, fail     string
	company, settings string
	write, command    bool
	check, remove     bool
	unsigned, install bool
	guard, ask        bool
	showsAdmin        bool              // whether the admin key was printed
	identity          *attestd.Identity // with which the hooks sign; nil for none
	reader            *attestd.Client   // with the API key of the connection file
	trusted           [][2]string       // setting of the connection file for private CAs
}

func initAgentCommand(kind setup.Kind) *cobra.Command {
	f := initFlags{kind: kind, hooks: setup.Hooks{Source: kind.Source, System: runtime.GOOS}, command: !kind.HTTP}
	how := kind.Title + ` runs "attestd hook" for each call, which signs with the agent's key. While the
server is unreachable, that command stores records on disk and sends them later.`
	if kind.HTTP {
		how += `

With --unsigned, ` + kind.Title + ` sends its events to the server itself, which needs no program.
With --command too, it runs "attestd hook", which then does not sign.
Versions before ` + string(setup.HTTPRefuses) + ` continue with a call when an HTTP hook gets no response. For
them, and for unknown versions, --fail closed and --require passport install command hooks.`
	}
	if kind.Trust != "" {
		how += "\n" + kind.Trust + "."
	}
	cmd := &cobra.Command{
		Use:   string(kind.Source),
		Short: "Record every tool call of " + kind.Title,
		Long: `Record every tool call of ` + kind.Title + `. The command registers the agent, makes a key with which
the agent signs and enrols it (attestd/agents/AGENT.jwk of the user's configuration folder),
creates an API key that can only read (attestd/env there), attests a first record, and reads it
back from the server; if it cannot, it fails and changes no settings. Then it prints the settings, or with --write merges them into
` + kind.Settings() + `. Other settings are not changed. A second run changes nothing.

What is left on this machine can write as this agent alone. With --unsigned no key of the agent
is made, and the API key can write as any agent.

The company's admin key comes from ATTESTD_KEY or ATTESTD_KEY_FILE. Without it, and without a
stored key, the command registers a company if the server is on this machine and allows that.
It shows the new admin key once and does not store it.

` + how + `
With --install, first copies this program to ~/.local/bin, and attestd-agent from the same folder.
The hooks run attestd-agent if it is in the folder of this program, and else this program.
With --fail closed, a call that cannot be recorded is refused.

With --guard, the company's calls are decided by the starter policies (examples/policies): no writes
outside the project, no reading of key files, no forced pushes and so on. A company that has
policies keeps them. "attestd policy" changes them. With --ask too, a person approves pushes,
deletions, deployments and payments: such a call waits for it in the hook.

With --check, runs the installed hooks with a test call as ` + kind.Title + ` would, then reads the
records of the call from the server and prints them. It runs their command once more, as if its
program were missing, and says what becomes of the call. It fails where settings of ` + kind.Title + `
switch hooks off; --write warns of that.

With --remove, removes the hooks from the settings. If no other written settings use the keys,
the command deletes them; it revokes the agent's key on the server, and deletes the API key there
if ATTESTD_KEY or ATTESTD_KEY_FILE has an admin key.
Records and the registered agent remain.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	cli.URLFlag(cmd)
	cli.AgentFlag(cmd, &f.hooks.Agent, string(kind.Source))
	cmd.Flags().BoolVar(&f.write, "write", false, "write the settings instead of printing them")
	cmd.Flags().StringVar(&f.settings, "settings", "", "settings `file` (default "+kind.Settings()+")")
	if kind.HTTP {
		cmd.Flags().BoolVar(&f.command, "command", false, "install hooks that run this program, for older versions and for a server that is not always reachable")
	}
	cmd.Flags().BoolVar(&f.unsigned, "unsigned", false, "record with an API key of the role writer, in place of a key of the agent")
	cmd.Flags().StringVar(&f.require, "require", "", "`what` a tool requires: passport, a valid passport of the agent for it; policy, a decision that allows it; or passport,policy")
	cmd.Flags().BoolVar(&f.guard, "guard", false, guardHelp)
	cmd.Flags().BoolVar(&f.ask, "ask", false, askHelp)
	cmd.Flags().StringVar(&f.hooks.Redact, "redact", "", "record only the hash of `input,output` or one of them")
	cmd.Flags().StringVar(&f.fail, "fail", "open", "for calls that cannot be recorded: `open` allows them, closed refuses them")
	cmd.Flags().StringVar(&f.company, "company", "local", "`ID` of the company to register when there is no key")
	installFlag(cmd, &f.install)
	cmd.Flags().BoolVar(&f.check, "check", false, "run the installed hooks with a test call and show its records")
	cmd.Flags().BoolVar(&f.remove, "remove", false, "remove what init has written")
	for _, name := range []string{"check", "remove", "install"} {
		_ = cmd.Flags().SetAnnotation(name, cli.TypedOnly, []string{"true"}) // the flag is there
	}
	return cmd
}

func (f *initFlags) run(cmd *cobra.Command) error {
	if err := f.validate(cmd); err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	steps := setup.Steps{Agent: f.hooks.Agent, Print: func(what, how string) { printable.Fprintf(out, "%-10s %s\n", what, how) }}
	switch {
	case f.check:
		return f.runCheck(cmd, steps)
	case f.remove:
		return f.runRemove(cmd, steps)
	}
	if f.install {
		how, err := installPrograms()
		for _, line := range how {
			steps.Print("program", line)
		}
		if err != nil {
			return err
		}
	}
	version := f.kind.Version(cmd.Context())
	how, err := f.chooseHooks(cmd, version)
	if err != nil {
		return err
	}
	c, path, err := f.connect(cmd, steps)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := steps.FirstRecord(cmd.Context(), c, f.reader, f.identity, "attestd init", true); err != nil {
		return err
	}
	f.hooks.URL = c.URL()
	steps.Print("hooks", how)
	if lacks := f.hooks.Lacks(version); lacks != "" {
		steps.Print("lacks", lacks)
	}
	for _, why := range f.warnings() {
		steps.Print("warning", why)
	}
	if f.write {
		if err := f.recordSettings(path, f.settings); err != nil {
			return err
		}
		changed, err := f.hooks.Write(f.settings)
		if err != nil {
			return err
		}
		how := "already has the hooks"
		if changed {
			how = "written"
		}
		steps.Print("settings", f.settings+" "+how)
		for _, why := range f.kind.HooksOff(f.settings) {
			steps.Print("warning", why)
		}
	} else {
		if err := f.recordSettings(path, printedSettings); err != nil {
			return err
		}
		printable.Fprintf(out, "\nSettings for %s (--write merges them into the file):\n\n", f.settings)
		_, _ = out.Write(append(f.hooks.Settings(), '\n'))
	}
	if f.kind.Trust != "" {
		steps.Print("trust", f.kind.Trust)
	}
	start := f.kind.Program
	if !f.command {
		start = "set -a; . " + printable.ShellWord(path) + "; set +a; " + start
	}
	steps.Print("start", start)
	f.signIn(steps, c.URL(), path)
	return nil
}

// chooseHooks chooses HTTP or command hooks by the version of the agent, and returns a sentence
// with the reason.
func (f *initFlags) chooseHooks(cmd *cobra.Command, version setup.Version) (how string, err error) {
	agent := f.kind.Title + " " + string(version)
	if version == "" {
		agent = f.kind.Title + " of an unknown version (" + f.kind.Program + " --version prints none)"
	}
	flag := cmd.Flag("command")
	if !f.unsigned {
		f.hooks.Command, err = programName(f.install)
		return "command hooks that sign, for " + agent, err
	}
	strict := f.kind.HTTP && f.hooks.Refuses() && !version.AtLeast(setup.HTTPRefuses)
	why := ""
	switch {
	case strict && flag.Changed && !f.command:
		return "", cli.Usagef("%s may continue with a call when its HTTP hook gets no response; omit --command=false, or install %s %s or later in PATH", agent, f.kind.Title, setup.HTTPRefuses)
	case strict && !f.command:
		f.command = true
		why = ": only " + string(setup.HTTPRefuses) + " and later refuse a call when an HTTP hook gets no response"
	}
	if !f.command {
		return "HTTP hooks, for " + agent, nil
	}
	f.hooks.Command, err = programName(f.install)
	return "command hooks, for " + agent + why, err
}

// validate returns usage errors, before the command has any effect.
func (f *initFlags) validate(cmd *cobra.Command) error {
	if f.check && f.remove || (f.write || f.install) && (f.check || f.remove) {
		return cli.Usagef("--write, --check and --remove exclude each other, and --install is not for the last two")
	}
	if flag := cmd.Flag("command"); !f.unsigned && flag != nil && flag.Changed && !f.command {
		return cli.Usagef("HTTP hooks cannot sign: --command=false needs --unsigned")
	}
	f.command = f.command || !f.unsigned
	if err := cred.CheckSegment(f.hooks.Agent); err != nil {
		return cli.Usagef("--agent: %v", err)
	}
	if err := cred.CheckSegment(f.company); err != nil {
		return cli.Usagef("--company: %v", err)
	}
	if _, err := action.ParseRedaction(f.hooks.Redact); err != nil {
		return cli.Usagef("--redact: %v", err)
	}
	var err error
	if f.hooks.Passport, f.hooks.Decided, err = parseRequire(f.require); err != nil {
		return err
	}
	f.hooks.Decided = f.hooks.Decided || f.guard
	if err := checkGuard(f.guard, f.ask, f.check || f.remove); err != nil {
		return err
	}
	if f.hooks.FailClosed, err = parseFail(f.fail); err != nil {
		return err
	}
	if f.settings != "" {
		return nil
	}
	f.settings, err = f.kind.SettingsFile()
	if former := f.kind.SharedFile(); (f.check || f.remove) && former != "" && !setup.HasHooks(f.settings) && setup.HasHooks(former) {
		f.settings = former // where an earlier version has put them
	}
	return err
}

// warnings says what is wrong with where the hooks are, and with where their program is.
func (f *initFlags) warnings() (list []string) {
	if f.hooks.Command != "" {
		list = append(list, programWarnings(f.install)...)
	}
	if f.kind.IsShared(f.settings) && filepath.IsAbs(f.hooks.Command) {
		list = append(list, f.settings+" is shared by the users of the project, and the hooks have the path of a program of yours: "+
			"leave --settings out, or put attestd into PATH")
	}
	if former := f.kind.SharedFile(); former != "" && filepath.Clean(f.settings) != former && setup.HasHooks(former) {
		list = append(list, former+" has hooks of attestd too, which every user of the project gets; remove them with: attestd init "+
			string(f.kind.Source)+" --remove --settings "+former)
	}
	return list
}

// runCheck runs the installed hooks with a test call and prints the records that the server has of
// it.
func (f *initFlags) runCheck(cmd *cobra.Command, s setup.Steps) error {
	ctx := cmd.Context()
	settings, err := os.ReadFile(f.settings)
	if err != nil {
		return fmt.Errorf("%w; attestd init %s --write creates the settings", err, f.kind.Source)
	}
	c, err := cli.Connect(cmd)
	if err != nil {
		return err
	}
	defer c.Close()
	s.Print("server", c.URL())
	s.Print("settings", f.settings)
	version := f.kind.Version(ctx)
	if version == "" {
		version = "unknown: " + setup.Version(f.kind.Program) + " --version prints none"
	}
	s.Print("version", f.kind.Title+" "+string(version))
	since, err := RecordCount(ctx, c, attestd.Actions)
	if err != nil {
		return err
	}
	_, file, err := cli.ReadConnectionFile()
	if err != nil {
		return err
	}
	check := setup.Check{Kind: f.kind, URL: c.URL(), Session: "attestd-check-" + attestd.NewIdempotencyKey(), Env: file, Programs: ownPrograms(), System: runtime.GOOS}
	answers, err := check.Run(ctx, settings)
	want := 1
	for _, a := range answers {
		if want = 2; a.Denied == "" {
			s.Print("hook", a.Event+": the call is allowed")
		} else {
			s.Print("hook", a.Event+": the call is refused: "+a.Denied)
		}
	}
	records, unread := check.Records(ctx, c, since)
	for _, r := range records {
		s.Print("record", fmt.Sprintf("%d at %s, %s by %s: %s", r.Index, r.Timestamp, r.Payload.ActionType, r.Payload.AgentID,
			r.Hash))
	}
	if err = errors.Join(err, unread); err != nil {
		return err
	}
	if len(records) < want {
		return fmt.Errorf("%s has %d records of the call, want %d: the hooks in %s report to another server or company, or cannot reach it", c.URL(), len(records), want, f.settings)
	}
	guard, err := check.WithoutProgram(ctx, settings, version)
	if err != nil {
		return err
	}
	s.Print("missing", without(guard))
	off := f.kind.HooksOff(f.settings)
	for _, why := range off {
		s.Print("off", why)
	}
	s.Print("shown", "the hooks in these settings reach this server, and it has signed their records")
	s.Print("not shown", "that "+f.kind.Title+
		" runs them. Make it call a tool, then look for the records: attestd records --order newest --limit 3")
	if f.kind.Trust != "" {
		s.Print("trust", f.kind.Trust)
	}
	if f.kind.HTTP && os.Getenv("ATTESTD_KEY") == "" && setup.NeedsKey(settings) {
		s.Print("stored key", "HTTP hooks read ATTESTD_KEY from the environment of "+f.kind.Title+
			", and this shell has none: start it with the last line that init prints")
	}
	switch {
	case len(off) > 0:
		return fmt.Errorf("%s may run no hooks: %s", f.kind.Title, off[0])
	case guard.Asked && !guard.Refused:
		return fmt.Errorf("%s goes on with calls when the program of its hooks is missing, and the hooks are to refuse what is not recorded: attestd init %s --write installs the present ones", f.kind.Title, f.kind.Source)
	}
	return nil
}

// without says what becomes of a call when the program of its hook is missing.
func without(g setup.Guard) string {
	how := "the call goes on"
	if g.Refused {
		how = "the call is refused"
	}
	if !g.Asked && !g.Refused {
		how += ", unrecorded (--fail closed refuses it)"
	}
	return "without a program of the hooks " + how + ": " + g.How
}
