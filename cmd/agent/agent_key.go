package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"attestd/agent/agentkey"
	"attestd/chain"
	"attestd/cmd/cli"
	"attestd/crypto/cred"
	"attestd/internal/printable"
	"attestd/sdk/attestd"
)

func agentKeyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "agent-key",
		Short: "Make, enrol, list and revoke the keys with which agents sign",
		Long: `Make, enrol, list and revoke the keys with which agents sign what they do.

A key is made on the machine where the agent runs, and never leaves it. It is a JSON Web Key in
attestd/agents/AGENT.jwk of the user's configuration folder (mode 0600), or in the file that
ATTESTD_AGENT_KEY_FILE names. Once it is enrolled, attestd attest, hook, mcp and run sign with it.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(agentKeyNewCommand(), agentKeyEnrolCommand(), agentKeyListCommand(), agentKeyRevokeCommand())
	return cmd
}

// keyFlags are the flags of the commands about the keys of an agent.
type keyFlags struct {
	agent, algorithm string
	asJSON           bool
}

func (f *keyFlags) add(cmd *cobra.Command) {
	cli.AgentFlag(cmd, &f.agent, "")
	cmd.Flag("agent").Usage = "`ID` of the agent"
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "print one JSON object per line")
}

func (f *keyFlags) addAlgorithm(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.algorithm, "alg", attestd.EdDSA, "`algorithm` of a new key: EdDSA (Ed25519) or ES256 (P-256)")
}

// path returns the file of the agent's key.
func (f *keyFlags) path() (string, error) {
	if f.agent == "" {
		return "", cli.Usagef("--agent is required")
	}
	if err := cred.CheckSegment(f.agent); err != nil {
		return "", cli.Usagef("--agent: %v", err)
	}
	if f.algorithm != "" && f.algorithm != attestd.EdDSA && f.algorithm != attestd.ES256 {
		return "", cli.Usagef("--alg must be EdDSA or ES256, got %q", f.algorithm)
	}
	if path := os.Getenv("ATTESTD_AGENT_KEY_FILE"); path != "" {
		return path, nil
	}
	return agentKeyFile(f.agent)
}

func agentKeyNewCommand() *cobra.Command {
	var f keyFlags
	cmd := &cobra.Command{
		Use:   "new --agent ID",
		Short: "Make a key without enrolling it",
		Long: `Make a key and print its thumbprint, so that somebody can note it before the server sees the key.
"attestd agent-key enrol" then enrols this key. Without a noted thumbprint, enrol alone suffices:
it makes a key by itself.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path, err := f.path()
			if err != nil {
				return err
			}
			key, err := agentkey.New(path, f.algorithm)
			if err != nil {
				return err
			}
			if f.asJSON {
				return printable.JSON(cmd.OutOrStdout(), map[string]any{"thumbprint": key.Thumbprint(), "alg": key.Algorithm(), "jwk": key.JWK(), "file": path})
			}
			printable.Fprintf(cmd.OutOrStdout(), "%s: a new key of %s, not enrolled; its thumbprint is %s\n", path, f.agent, key.Thumbprint())
			return nil
		},
	}
	f.add(cmd)
	f.addAlgorithm(cmd)
	return cmd
}

func agentKeyEnrolCommand() *cobra.Command {
	var f keyFlags
	var token, label string
	var next bool
	cmd := &cobra.Command{
		Use:   "enrol --token TOKEN",
		Short: "Enrol a key of an agent, with which it signs from now on",
		Long: `Make a key of an agent on this machine, and enrol it. From now on attestd attest, hook, mcp and
run sign what this agent does.

An admin makes the token: POST /v1/agents/{agentId}/enrolments, or the console. It names the agent,
is good for one key, and ends after ten minutes unless the admin says otherwise. Without --token,
the key is enrolled with an admin's credential, and --agent names the agent.

With --next, enrols the key after the present one, which signs for it: a verifier that knows the
present key can check that the next one is the agent's. The former key stays enrolled, because what
it has signed may be unsent. Revoke it later: attestd agent-key revoke.

The server's address comes from --url or ATTESTD_URL. An admin's credential comes from ATTESTD_KEY
or ATTESTD_KEY_FILE.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if next {
				if token != "" {
					return cli.Usagef("--next needs no --token: the present key signs for the next one")
				}
				return f.enrolNext(cmd, label)
			}
			return f.enrol(cmd, token, label)
		},
	}
	cli.URLFlag(cmd)
	f.add(cmd)
	f.addAlgorithm(cmd)
	cmd.Flags().StringVar(&token, "token", "", "enrolment `token` (enr_…), which is good for one key")
	cmd.Flags().StringVar(&label, "label", "", "`text` about the key, for people")
	cmd.Flags().BoolVar(&next, "next", false, "enrol the key after the present one")
	_ = cmd.Flags().SetAnnotation("next", cli.TypedOnly, []string{"true"}) // the flag is there
	return cmd
}

// enrol enrols the first key of an agent on this machine.
func (f *keyFlags) enrol(cmd *cobra.Command, token, label string) error {
	var config attestd.Config
	var err error
	if token == "" {
		if f.agent == "" {
			return cli.Usagef("--token is required, or --agent and an admin's credential")
		}
		config, err = cli.Connection(cmd)
	} else {
		if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return cli.Usagef("--token contains characters that no token contains")
		}
		config, err = address(cmd)
		config.Credential = attestd.Key(token)
	}
	if err != nil {
		return err
	}
	c, err := cli.NewClient(config)
	if err != nil {
		return err
	}
	defer c.Close()
	spiffeID, err := f.identify(cmd, c, token)
	if token != "" && errors.Is(err, &attestd.Error{Status: http.StatusUnauthorized}) {
		return f.resume(cmd, c.URL())
	}
	if err != nil {
		return err
	}
	path, err := f.path()
	if err != nil {
		return err
	}
	e := agentkey.Enrolment{Path: path, Algorithm: f.algorithm, URL: c.URL(), SPIFFEID: spiffeID, AgentID: f.agent, Client: c, Label: label, Alarm: warnOf}
	thumbprint, err := e.Enrol(cmd.Context())
	if errors.Is(err, agentkey.ErrEnrolled) {
		return cli.ExitError{Status: cli.ExitRefused, Err: joinedHint(err, "attestd agent-key enrol --next enrols the one after it")}
	}
	if err != nil {
		return err
	}
	return f.report(cmd, path, thumbprint, spiffeID)
}

// report says that a key is enrolled.
func (f *keyFlags) report(cmd *cobra.Command, path, thumbprint, spiffeID string) error {
	if f.asJSON {
		return printable.JSON(cmd.OutOrStdout(), map[string]string{"thumbprint": thumbprint, "agent": spiffeID, "file": path})
	}
	printable.Fprintf(cmd.OutOrStdout(), "%s: the key %s of %s is enrolled, and signs from now on\n", path, thumbprint, f.agent)
	return nil
}

// resume is for a token that the server does not accept. An earlier attempt may have spent it,
// whose answer never came: then its key is on this machine, and enrolled.
func (f *keyFlags) resume(cmd *cobra.Command, url string) error {
	paths := []string{os.Getenv("ATTESTD_AGENT_KEY_FILE")}
	if paths[0] == "" {
		folder, err := agentKeyFolder()
		if err != nil {
			return err
		}
		paths = agentkey.Unfinished(folder)
	}
	for _, path := range paths {
		thumbprint, spiffeID, done, err := agentkey.Resume(cmd.Context(), path, url)
		if err != nil {
			return err
		}
		if done {
			f.agent = spiffeID[strings.LastIndex(spiffeID, "/")+1:]
			return f.report(cmd, path, thumbprint, spiffeID)
		}
	}
	return errors.New("401 Unauthorized: the enrolment token is spent, has ended, or is of another server; ask an admin for a new one")
}

// identify finds the SPIFFE ID of the agent, and the agent of a token.
func (f *keyFlags) identify(cmd *cobra.Command, c *attestd.Client, token string) (string, error) {
	if token == "" {
		found, err := c.Agent(cmd.Context(), f.agent)
		return found.SPIFFEID, err
	}
	found, err := c.Enrolment(cmd.Context())
	if err != nil {
		return "", err
	}
	if f.agent != "" && f.agent != found.AgentID && cmd.Flag("agent").Changed {
		return "", cli.Usagef("the token is of the agent %s, not of %s", found.AgentID, f.agent)
	}
	f.agent = found.AgentID
	return found.SPIFFEID, nil
}

func (f *keyFlags) enrolNext(cmd *cobra.Command, label string) error {
	path, err := f.path()
	if err != nil {
		return err
	}
	former, next, err := agentkey.Enrolment{Path: path, Algorithm: f.algorithm, Label: label, Alarm: warnOf}.Next(cmd.Context())
	if errors.Is(err, fs.ErrNotExist) {
		return cli.ExitError{Status: cli.ExitNotFound, Err: joinedHint(err, "this machine has no key of the agent: attestd agent-key enrol --token …")}
	}
	if err != nil {
		return err
	}
	if f.asJSON {
		return printable.JSON(cmd.OutOrStdout(), map[string]string{"thumbprint": next, "former": former, "file": path})
	}
	printable.Fprintf(cmd.OutOrStdout(), "%s: the key %s of %s is enrolled, and signs from now on. The key %s signed for it and stays enrolled; "+
		"when all that it signed is sent: attestd agent-key revoke --agent %s -- %s\n", path, next, f.agent, former, f.agent, former)
	return nil
}

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
that it knows, or unknown. The holder of an unknown key can sign as the agent: revoke it and find
out who enrolled it, or accept it with --accept if it is of another machine of the agent. At each
sign-in, the other commands report every key that is not known.

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

--since says from when on the key was in other hands, as when it was stolen. It is in the control
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
