package agent

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"attestd/chain"
	"attestd/cmd/cli"
	"attestd/internal/printable"
	"attestd/sdk/attestd"
)

func joinedHint(err error, hint string) error { return fmt.Errorf("%w; %s", err, hint) }

// connectForKeys connects as the agent if it has a key here, or else with another credential.
func (f *keyFlags) connectForKeys(cmd *cobra.Command) (c *attestd.Client, path string, file attestd.AgentFile, err error) {
	if _, err := f.path(); err != nil {
		return nil, "", file, err
	}
	if path, file, err = findAgentKey(cmd, f.agent); err != nil {
		return nil, "", file, err
	}
	if os.Getenv("ATTESTD_KEY") != "" || os.Getenv("ATTESTD_KEY_FILE") != "" {
		c, err = cli.Connect(cmd) // who gives a credential means it
		return c, path, file, err
	}
	at, err := connectionOf(cmd, f.agent, "", func(error) {}) // the list shows them
	if err != nil {
		return nil, "", file, err
	}
	if c, err = cli.NewClient(at.Config); err != nil {
		return nil, "", file, err
	}
	return c, path, file, nil
}

func agentKeyListCommand() *cobra.Command {
	var f keyFlags
	var accepted []string
	cmd := &cobra.Command{
		Use:   "list --agent ID",
		Short: "List the keys of an agent",
		Long: `List the keys of an agent, revoked ones too. Each line says whether it is this machine's key, one
that it knows, or unknown. Whoever holds an unknown key can sign as the agent: revoke it and find out
who enrolled it, or accept it with --accept if it is of another machine of the agent. At each sign-in,
the other commands report every key that is not known.

The agent lists its own keys with the key on this machine. Otherwise a credential of the role reader
is needed, from ATTESTD_KEY or ATTESTD_KEY_FILE.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, path, file, err := f.connectForKeys(cmd)
			if err != nil {
				return err
			}
			defer c.Close()
			list, err := c.AgentKeys(cmd.Context(), f.agent)
			if err != nil {
				return notFound(err)
			}
			if len(accepted) > 0 {
				if err := accept(path, &file, list, accepted); err != nil {
					return err
				}
			}
			for _, k := range list {
				state := "unknown"
				switch {
				case file.Key == nil:
					state = "" // this machine has no key to compare with
				case k.Thumbprint == file.Key.Thumbprint():
					state = "own"
				case slices.Contains(file.Known, k.Thumbprint):
					state = "known"
				}
				if err := f.printKey(cmd, k, state); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cli.URLFlag(cmd)
	f.add(cmd)
	cmd.Flags().StringSliceVar(&accepted, "accept", nil, "`thumbprint` of a key of the agent that this machine is to know")
	_ = cmd.Flags().SetAnnotation("accept", cli.TypedOnly, []string{"true"}) // the flag is there
	return cmd
}

// accept adds thumbprints of enrolled keys to those that this machine knows.
func accept(path string, file *attestd.AgentFile, list []attestd.EnrolledKey, accepted []string) error {
	if path == "" {
		return cli.Usagef("--accept needs a key of the agent on this machine")
	}
	for _, thumbprint := range accepted {
		if !slices.ContainsFunc(list, func(k attestd.EnrolledKey) bool { return k.Thumbprint == thumbprint }) {
			return cli.ExitError{Status: cli.ExitNotFound, Err: fmt.Errorf("the agent has no key %s", thumbprint)}
		}
		if thumbprint != file.Key.Thumbprint() && !slices.Contains(file.Known, thumbprint) {
			file.Known = append(file.Known, thumbprint)
		}
	}
	return file.Write(path)
}

// printKey prints a key. state says what this machine knows of it; "" for nothing.
func (f *keyFlags) printKey(cmd *cobra.Command, k attestd.EnrolledKey, state string) error {
	if f.asJSON {
		return printable.JSON(cmd.OutOrStdout(), struct {
			attestd.EnrolledKey
			State string `json:"state,omitempty"`
		}{k, state})
	}
	line := k.Thumbprint + "  " + k.Algorithm + "  enrolled " + k.CreatedAt
	if k.ExpiresAt != "" {
		line += ", expires " + k.ExpiresAt
	}
	if k.RevokedAt != "" {
		line += ", revoked " + k.RevokedAt
	}
	if state != "" {
		line += "  " + state
	}
	if k.Label != "" {
		line += "  " + k.Label
	}
	printable.Fprintf(cmd.OutOrStdout(), "%s\n", line)
	return nil
}

func agentKeyRevokeCommand() *cobra.Command {
	var f keyFlags
	var why attestd.KeyRevocation
	var since string
	cmd := &cobra.Command{
		Use:   "revoke --agent ID THUMBPRINT",
		Short: "Revoke a key of an agent for good",
		Long: `Revoke a key of an agent for good. It counts on the next request, on every server. What the key has
signed and is recorded stays good; what it has signed and is not yet sent is refused.

--since says from when on the key was in other hands, as when it was stolen. It stands in the control
log for good, with --reason, and every verdict on what the key signed and was recorded since then
says so.

The agent revokes its own keys with the key on this machine. Otherwise an admin's credential is
needed, from ATTESTD_KEY or ATTESTD_KEY_FILE. The file of this machine's own key is deleted with it.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flag("since").Changed {
				at, ok := cli.ParseInstant(since, time.Now())
				if !ok {
					return cli.Usagef("--since must be a time, such as 2026-03-02T09:00:00Z, or how long ago: 90m, 7d; got %q", since)
				}
				why.Since = chain.FormatTime(at)
			}
			c, path, file, err := f.connectForKeys(cmd)
			if err != nil {
				return err
			}
			defer c.Close()
			k, err := c.RevokeAgentKey(cmd.Context(), f.agent, args[0], why)
			if err != nil {
				return notFound(err)
			}
			if path != "" && file.Key.Thumbprint() == k.Thumbprint {
				if err := os.Remove(path); err != nil {
					return err
				}
			}
			return f.printKey(cmd, k, "")
		},
	}
	cli.URLFlag(cmd)
	f.add(cmd)
	cmd.Flags().StringVar(&why.Reason, "reason", "", "`text` about the revocation, for people")
	cmd.Flags().StringVar(&since, "since", "", "`time` from which on the key was in other hands, or how long ago that is")
	for _, name := range []string{"reason", "since"} {
		_ = cmd.Flags().SetAnnotation(name, cli.TypedOnly, []string{"true"}) // the flag is there
	}
	return cmd
}

// notFound gives the answer 404 its exit status.
func notFound(err error) error {
	if errors.Is(err, &attestd.Error{Status: http.StatusNotFound}) {
		return cli.ExitError{Status: cli.ExitNotFound, Err: err}
	}
	return err
}
