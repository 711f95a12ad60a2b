package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"attestd/cmd/cli"
	"attestd/crypto/cred"
	"attestd/sdk/attestd"
	"attestd/sdk/attestd/private"
	"attestd/sdk/attestd/spool"
)

// agentHelp is in the help of every command that attests for an agent.
const agentHelp = `If the agent has a key on this machine ("attestd agent-key enrol" makes one), the command signs
what it attests with it, and signs in as the agent. The key is in the file that
ATTESTD_AGENT_KEY_FILE names, or else in attestd/agents/AGENT.jwk of the user's configuration
folder. Otherwise the credential is as follows, and nothing is signed by the agent.

` + cli.ConnectionHelp

// agentConnection is how a command reaches the server for an agent.
type agentConnection struct {
	attestd.Config
	folder   string            // of unsent records
	identity *attestd.Identity // nil where the agent has no key on this machine
	unusable error             // why the folder cannot be written; nil if it can
}

// connectionOf finds the server and the credential for an agent: its own key, or else as connection
// does. alarm reports keys of the agent that are not its own.
func connectionOf(cmd *cobra.Command, agent, state string, alarm func(error)) (c agentConnection, err error) {
	if c, err = findConnection(cmd, agent, state, alarm); err == nil {
		err = c.unusable
	}
	return c, err
}

// findConnection is connectionOf for a command that does without the folder where that cannot be
// used.
func findConnection(cmd *cobra.Command, agent, state string, alarm func(error)) (c agentConnection, err error) {
	path, file, err := findAgentKey(cmd, agent)
	if err != nil {
		return c, err
	}
	if path == "" {
		if c.Config, err = cli.Connection(cmd); err != nil {
			return c, err
		}
		c.folder, c.unusable = stateFolderOf(c.Config, state)
		return c, nil
	}
	c.URL = file.URL
	c.folder, c.unusable = stateFolderOf(attestd.Config{URL: file.URL, Credential: attestd.Key(file.SPIFFEID)}, state)
	if c.unusable == nil {
		c.unusable = privateFolder(c.folder)
	}
	who := file.Identity()
	if who.Alarm = alarm; c.unusable == nil {
		who.TokenFile = filepath.Join(c.folder, "token")
	}
	c.identity, err = attestd.NewIdentity(who)
	if err != nil {
		return c, fmt.Errorf("%s: %w", path, err)
	}
	if c.identity.AgentID() != agent {
		return c, fmt.Errorf("%s has a key of the agent %s, not of %s", path, c.identity.AgentID(), agent)
	}
	c.Credential = c.identity
	return c, nil
}

// connectAs returns a client for an agent, as connectionOf finds it.
func connectAs(cmd *cobra.Command, agent, state string) (at agentConnection, c *attestd.Client, err error) {
	if at, err = connectionOf(cmd, agent, state, warnOf); err != nil {
		return at, nil, err
	}
	c, err = cli.NewClient(at.Config)
	return at, c, err
}

// warnOf prints what a sign-in reports.
func warnOf(err error) { cli.PrintError("attestd: %v\n", err) }

// openSpool opens the spool of unsent records. Its client does not retry, because the spool does.
func (c agentConnection) openSpool() (*spool.Spool, error) {
	config := c.Config
	config.Retry = &attestd.Retry{}
	client, err := cli.NewClient(config)
	if err != nil {
		return nil, err
	}
	queue, err := spool.Open(filepath.Join(c.folder, "spool"), client)
	if err == nil {
		queue.FreshKeys = true
	}
	return queue, err
}

// maskKey returns the key of the digests in masks. It stays in the folder of unsent records, with
// the user who runs the agent. Without it records are made all the same, and their masks have no
// digest.
func (c agentConnection) maskKey(warn func(error)) []byte {
	key, err := private.Secret(filepath.Join(c.folder, "mask-key"))
	if err != nil {
		warn(fmt.Errorf("masked values have no digest: %w", err))
	}
	return key
}

// agentKeyFile returns the path of the default file for an agent's key; "" where an agent of that
// ID has none.
func agentKeyFile(agent string) (string, error) {
	if cred.CheckSegment(agent) != nil {
		return "", nil // it cannot be registered
	}
	folder, err := agentKeyFolder()
	return filepath.Join(folder, agent+".jwk"), err
}

func agentKeyFolder() (string, error) { return cli.ConfigFile("agents") }

// findAgentKey reads the agent's key. path is "" where this machine has none, or one for another
// server than the command line names.
func findAgentKey(cmd *cobra.Command, agent string) (path string, file attestd.AgentFile, err error) {
	path = os.Getenv("ATTESTD_AGENT_KEY_FILE")
	named := path != ""
	if !named {
		if path, err = agentKeyFile(agent); err != nil || path == "" {
			return "", file, nil // a process without a home folder has no such file
		}
	}
	file, err = attestd.ReadAgentFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !named:
		return "", file, nil
	case err != nil:
		return path, file, err
	}
	at := cmd.Flag("url").Value.String()
	if file.URL == "" {
		file.URL = at
	}
	switch {
	case file.SPIFFEID == "" || file.URL == "":
		return path, file, fmt.Errorf("the key in %s is not enrolled: attestd agent-key enrol", path)
	case at != "" && !cli.SameServer(at, file.URL) && named:
		return path, file, fmt.Errorf("the key in %s is for %s", path, file.URL)
	case at != "" && !cli.SameServer(at, file.URL):
		return "", file, nil
	}
	return path, file, nil
}

// privateFolder creates a folder for state of this user alone.
func privateFolder(path string) error {
	if err := private.Check(path); err != nil {
		return err
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	return private.Check(path)
}
