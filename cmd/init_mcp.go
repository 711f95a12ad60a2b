package cmd

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"attestd/agent/setup"
	"attestd/internal/printable"
)

// initMCPFlags are the flags of `attestd init mcp`.
type initMCPFlags struct {
	agent, settings, fail string
	write, remove         bool
}

func initMCPCommand() *cobra.Command {
	var f initMCPFlags
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Record the calls of MCP servers that a client reaches over HTTP",
		Long: `Rewrite the MCP servers in a client's settings that are reached over streamable HTTP (mcpServers or
servers, with url), so that the client runs "attestd mcp --upstream URL" in their place, which
records each call. Their headers move into the environment of that command, and servers without a
header Authorization get --sign-in. Without --write the
command prints the settings. Everything else in the file stays as it is, and a second run
changes nothing.

The command records with what "attestd init claude-code" and the like have set up, or with
ATTESTD_KEY of the client's environment.

With --remove, the entries of before come back, byte for byte. They are kept in
attestd/mcp-servers.json of the user's configuration folder (mode 0600).`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	agentFlag(cmd, &f.agent, "mcp")
	cmd.Flags().StringVar(&f.settings, "settings", ".mcp.json", "settings `file` of the client")
	cmd.Flags().StringVar(&f.fail, "fail", "open", "for calls that cannot be recorded: `open` allows them, closed refuses them")
	cmd.Flags().BoolVar(&f.write, "write", false, "write the settings instead of printing them")
	cmd.Flags().BoolVar(&f.remove, "remove", false, "restore the entries of before")
	_ = cmd.Flags().SetAnnotation("remove", typedOnly, []string{"true"}) // the flag is there
	return cmd
}

func (f *initMCPFlags) run(cmd *cobra.Command) error {
	if f.write && f.remove {
		return usagef("--write and --remove exclude each other")
	}
	closed, err := parseFail(f.fail)
	if err != nil {
		return err
	}
	name, err := userName(f.settings)
	if err != nil {
		return err
	}
	settings, err := os.ReadFile(f.settings)
	if err != nil {
		return err
	}
	env, err := connectionFile()
	if err != nil {
		return err
	}
	store := filepath.Join(filepath.Dir(env), "mcp-servers.json")
	text, err := readPrivate(store)
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
	program, err := ownProgram(false)
	if err != nil {
		return err
	}
	rewritten, changes, skipped, err := setup.Servers{Program: program, Agent: f.agent, FailClosed: closed}.Rewrite(settings)
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
	switch {
	case len(changes) == 0:
		say("settings", f.settings+" has no server over HTTP to rewrite")
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
	return nil
}

// restore takes the changes of one settings file back.
func (f *initMCPFlags) restore(say func(what, how string), settings []byte, name, store string, stored []setup.Server) error {
	var mine, others []setup.Server
	for _, s := range stored {
		if s.Settings == name {
			mine = append(mine, s)
		} else {
			others = append(others, s)
		}
	}
	restored, left, err := setup.Restore(settings, mine)
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
	say("settings", printable.Sprintf("%s: %d servers restored", f.settings, len(mine)-len(left)))
	return setup.WriteServers(store, others)
}
