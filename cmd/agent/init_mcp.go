package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"attestd/agent/setup"
	"attestd/cmd/cli"
	"attestd/internal/printable"
	"attestd/sdk/attestd"
)

const maxSettings = 1 << 20 // bytes of a client's settings

// initMCPFlags are the flags of `attestd init mcp`.
type initMCPFlags struct {
	agent, settings, fail string
	write, remove, check  bool
	guard, ask            bool
}

func initMCPCommand() *cobra.Command {
	var f initMCPFlags
	cmd := &cobra.Command{
		Use:        "mcp",
		SuggestFor: []string{"cursor", "vscode", "windsurf", "zed", "claude-desktop", "cline"},
		Short:      "Record the calls of MCP servers that a client reaches over HTTP",
		Long: `Rewrite the MCP servers in a client's settings that are reached over streamable HTTP (mcpServers or
servers, with url), so that the client runs "attestd mcp --upstream URL" in their place, which
records each call. Their headers move into the environment of that command, and servers without a
header Authorization get --sign-in. Without --write the
command prints the settings. Everything else in the file stays as it is, and a second run
changes nothing. A server whose entry has a member that attestd mcp does not carry over, such as
headersHelper, or with which it would not start, stays as it is and is named.

The command records with what "attestd init claude-code" and the like have set up, or with
ATTESTD_KEY of the client's environment. The agent is the one that has a key on this machine; where
several have one, name it with --agent. Before anything is written, the command attests a record of
this agent and reads it back from the server; if it cannot, it fails.

With --guard, the company's calls are decided by the starter policies (examples/policies), and the
servers are called only after a decision that allows it. A company that has policies keeps them;
in another one, ATTESTD_KEY or ATTESTD_KEY_FILE has its admin key. With --ask too, a person approves
pushes, deletions, deployments and payments: such a call waits in the proxy.

With --check, starts each server in the settings that runs attestd mcp, as the client would, with a
call that the proxy refuses and that reaches no server, then reads the records of the call from the
server and prints them.

With --remove, the original entries come back, byte for byte. They are stored in
attestd/mcp-servers.json of the user's configuration folder (mode 0600).`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	cli.URLFlag(cmd)
	cli.AgentFlag(cmd, &f.agent, "")
	cmd.Flags().StringVar(&f.settings, "settings", ".mcp.json", "settings `file` of the client")
	cmd.Flags().StringVar(&f.fail, "fail", "open", "for calls that cannot be recorded: `open` allows them, closed refuses them")
	cmd.Flags().BoolVar(&f.guard, "guard", false, guardHelp)
	cmd.Flags().BoolVar(&f.ask, "ask", false, askHelp)
	cmd.Flags().BoolVar(&f.write, "write", false, "write the settings instead of printing them")
	cmd.Flags().BoolVar(&f.remove, "remove", false, "restore the original entries")
	cmd.Flags().BoolVar(&f.check, "check", false, "start the servers with a refused call and show its records")
	for _, name := range []string{"check", "remove"} {
		_ = cmd.Flags().SetAnnotation(name, cli.TypedOnly, []string{"true"}) // the flag is there
	}
	return cmd
}

// findAgent sets the agent to the one that has a key on this machine.
func (f *initMCPFlags) findAgent() error {
	if f.agent != "" {
		return nil
	}
	if path := os.Getenv("ATTESTD_AGENT_KEY_FILE"); path != "" {
		file, err := attestd.ReadAgentFile(path)
		if err == nil {
			_, f.agent, _ = strings.Cut(file.SPIFFEID, "/agent/")
		}
		return err
	}
	folder, err := agentKeyFolder()
	if err != nil {
		return nil // a process without a home folder has none
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.jwk"))
	if err != nil {
		return err
	}
	var agents []string
	for _, path := range files {
		agents = append(agents, strings.TrimSuffix(filepath.Base(path), ".jwk"))
	}
	switch len(agents) {
	case 0:
		f.agent = "mcp"
	case 1:
		f.agent = agents[0]
	default:
		return cli.Usagef("several agents have a key on this machine (%s): name one with --agent", strings.Join(agents, ", "))
	}
	return nil
}

// record attests a record as `attestd mcp` would, and reads it back. With --guard it then puts the
// starter policies in force. It returns the address of the console.
func (f *initMCPFlags) record(cmd *cobra.Command, say func(what, how string)) (console string, err error) {
	ctx := cmd.Context()
	at, c, err := connectAs(cmd, f.agent, "")
	if err != nil {
		return "", err
	}
	defer c.Close()
	reader, err := cli.Connect(cmd)
	if err != nil {
		return "", fmt.Errorf("a record could not be read back: %w", err)
	}
	defer reader.Close()
	steps := setup.Steps{Agent: f.agent, Print: say}
	err = steps.FirstRecord(ctx, c, reader, at.identity, "attestd init mcp", false)
	if err == nil && f.guard {
		err = putStarter(ctx, steps, reader, f.ask)
	}
	return reader.URL() + "/", err
}

// runCheck starts the servers in the settings and prints the records of their refused calls.
func (f *initMCPFlags) runCheck(cmd *cobra.Command, settings []byte, say func(what, how string)) error {
	ctx := cmd.Context()
	list, err := setup.Runs(settings)
	if err != nil {
		return fmt.Errorf("%s: %w", f.settings, err)
	}
	if len(list) == 0 {
		return fmt.Errorf("%s has no server that runs attestd mcp: attestd init mcp --write", f.settings)
	}
	c, err := cli.Connect(cmd)
	if err != nil {
		return err
	}
	defer c.Close()
	say("server", c.URL())
	since, err := RecordCount(ctx, c, attestd.Actions)
	if err != nil {
		return err
	}
	var failed error
	calls := map[string]string{} // server by call
	for _, r := range list {
		call := "attestd-check-" + attestd.NewIdempotencyKey()
		if err := r.Probe(ctx, call); err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		calls[call] = r.Name
	}
	found := map[string]int{}
	for r, err := range c.Records(ctx, attestd.Range{Log: attestd.Actions, From: since}) {
		if err != nil {
			return errors.Join(failed, err)
		}
		var of struct{ CallID string }
		_ = json.Unmarshal(r.Payload.Payload, &of) // the payloads of others have any form
		if name := calls[of.CallID]; of.CallID != "" && name != "" {
			found[name]++
			say("record", fmt.Sprintf("%s: %d at %s, %s by %s: %s", name, r.Index, r.Timestamp, r.Payload.ActionType, r.Payload.AgentID, r.Hash))
		}
	}
	for _, name := range calls {
		if found[name] < 2 {
			failed = errors.Join(failed, fmt.Errorf("%s: %s has %d records of its refused call, want 2: it reports to another server or company, or its agent may not record",
				name, c.URL(), found[name]))
		}
	}
	return failed
}

func (f *initMCPFlags) run(cmd *cobra.Command) error {
	if f.check && f.remove || f.write && (f.check || f.remove) {
		return cli.Usagef("--write, --check and --remove exclude each other")
	}
	if err := checkGuard(f.guard, f.ask, f.check || f.remove); err != nil {
		return err
	}
	closed, err := parseFail(f.fail)
	if err != nil {
		return err
	}
	name, err := userName(f.settings)
	if err != nil {
		return err
	}
	settings, err := cli.ReadBounded(f.settings, maxSettings)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w; name the settings in which the client lists its MCP servers: --settings FILE", err)
	case err != nil:
		return err
	case len(settings) > maxSettings:
		return fmt.Errorf("%s has more than %d bytes, which are no settings of a client", f.settings, maxSettings)
	}
	store, err := cli.ConfigFile("mcp-servers.json")
	if err != nil {
		return err
	}
	text, err := cli.ReadPrivate(store)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	stored, err := setup.ReadServers(text)
	if err != nil {
		return errors.New(store + " is malformed: " + err.Error())
	}
	out := cmd.OutOrStdout()
	say := func(what, how string) { printable.Fprintf(out, "%-10s %s\n", what, how) }
	if f.remove {
		return f.restore(say, settings, name, store, stored)
	}
	if f.check {
		return f.runCheck(cmd, settings, say)
	}
	program, err := programName(false)
	if err != nil {
		return err
	}
	if err := f.findAgent(); err != nil {
		return err
	}
	at := cmd.Flag("url").Value.String()
	rewritten, changes, skipped, err := setup.Servers{Program: program, Agent: f.agent, URL: at, FailClosed: closed, Decided: f.guard, Accepts: acceptsMCP}.Rewrite(settings)
	if err != nil {
		return errors.New(f.settings + " was not changed: " + err.Error())
	}
	for _, why := range programWarnings(false) {
		say("warning", why)
	}
	for _, why := range skipped {
		say("left", why)
	}
	for i, c := range changes {
		changes[i].Settings = name
		say("server", c.Name+" runs through attestd mcp")
	}
	running, err := setup.Runs(rewritten)
	switch {
	case err != nil:
		return err
	case len(running) == 0:
		return fmt.Errorf("%s has no server that attestd mcp can stand in front of: nothing is recorded", f.settings)
	}
	console, err := f.record(cmd, say)
	if err != nil {
		return fmt.Errorf("%s was not changed: %w", f.settings, err)
	}
	switch {
	case len(changes) == 0:
		say("settings", f.settings+" has no server over HTTP to rewrite")
		say("console", "sign in at "+console+" with "+ownKey())
		return nil
	case !f.write:
		printable.Fprintf(out, "\nSettings for %s (--write replaces the file):\n\n", f.settings)
		_, err := out.Write(rewritten)
		return err
	}
	// stored first, so that nothing is rewritten that cannot be restored
	stored = slices.DeleteFunc(stored, func(s setup.Server) bool {
		return s.Settings == name && slices.ContainsFunc(changes, func(c setup.Server) bool { return c.Name == s.Name })
	})
	if err := setup.WriteServers(store, append(stored, changes...)); err != nil {
		return err
	}
	if err := setup.WriteSettings(f.settings, rewritten); err != nil {
		return err
	}
	say("settings", f.settings+" written")
	say("console", "sign in at "+console+" with "+ownKey())
	return nil
}

// restore takes the changes of one settings file back.
func (f *initMCPFlags) restore(say func(what, how string), settings []byte, name, store string, stored []setup.Server) error {
	var own, other []setup.Server
	for _, s := range stored {
		if s.Settings == name {
			own = append(own, s)
		} else {
			other = append(other, s)
		}
	}
	restored, left, err := setup.Restore(settings, own)
	if err != nil {
		return errors.New(f.settings + " was not changed: " + err.Error())
	}
	for _, s := range left {
		say("left", s.Name+": its entry was changed or removed since, and stays so")
	}
	if string(restored) != string(settings) {
		if err := setup.WriteSettings(f.settings, restored); err != nil {
			return err
		}
	}
	say("settings", printable.Sprintf("%s: %d servers restored", f.settings, len(own)-len(left)))
	return setup.WriteServers(store, other)
}
