package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"attestd/agent/setup"
	"attestd/sdk/attestd"
)

// DefaultURL is the default address of `attestd serve`.
const DefaultURL = "http://127.0.0.1:8080"

// ConnectionHelp is in the help of every command that connects to a server.
const ConnectionHelp = `The server's address comes from --url or ATTESTD_URL. The credential comes from ATTESTD_KEY, or
from ATTESTD_KEY_FILE (a file with the key alone). Otherwise both come from the file that
"attestd init" wrote: attestd/env in the user's configuration folder. No flag contains a
credential, because the list of processes shows flags to all users.`

// URLFlag adds the flag of the server's address, and how its certificate is checked.
func URLFlag(cmd *cobra.Command) {
	cmd.Flags().String("url", "", "`address` of the server (default "+DefaultURL+")")
	_ = CaFileFlag(cmd) // which trustCA reads
}

// AgentFlag adds the flag of the agent for which a command records. def is its default.
func AgentFlag(cmd *cobra.Command, agent *string, def string) {
	cmd.Flags().StringVar(agent, "agent", def, "`ID` of the agent to attest for")
}

// Connect returns a client of the server that the command line or the environment names.
func Connect(cmd *cobra.Command) (*attestd.Client, error) {
	config, err := Connection(cmd)
	if err != nil {
		return nil, err
	}
	return NewClient(config)
}

// NewClient returns a client. What is wrong with its configuration is a usage error.
func NewClient(config attestd.Config) (*attestd.Client, error) {
	c, err := attestd.New(config)
	if err != nil {
		return nil, UsageError{Err: err}
	}
	return c, nil
}

// ErrNoCredential says that the machine has no credential for a server. The address is known.
var ErrNoCredential = errors.New("no credential: set ATTESTD_KEY or ATTESTD_KEY_FILE, or run attestd init; a lost admin key is replaced on the server's machine: attestd recover-key --company ID")

// Connection finds the server's address and the credential. A key in the file that init wrote is
// sent only to the server named in that file.
func Connection(cmd *cobra.Command) (attestd.Config, error) {
	config := attestd.Config{URL: cmd.Flag("url").Value.String()} // the flag, or ATTESTD_URL
	key := os.Getenv("ATTESTD_KEY")
	if path := os.Getenv("ATTESTD_KEY_FILE"); key == "" && path != "" {
		text, err := ReadPrivate(path)
		if err != nil {
			return config, err
		}
		if key = strings.TrimSpace(text); key == "" {
			return config, fmt.Errorf("%s is empty", path)
		}
	}
	if config.URL == "" || key == "" {
		path, file, err := ReadConnectionFile()
		if err != nil {
			return config, err
		}
		named := file["ATTESTD_URL"]
		if named == "" {
			named = DefaultURL
		}
		if config.URL == "" {
			config.URL = named
		}
		if key == "" && file["ATTESTD_KEY"] != "" {
			if !SameServer(config.URL, named) {
				return config, fmt.Errorf("the key in %s is for %s; set ATTESTD_KEY or ATTESTD_KEY_FILE for another server", path,
					named)
			}
			key = file["ATTESTD_KEY"]
		}
	}
	if key == "" {
		return config, ErrNoCredential
	}
	if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return config, errors.New("the credential contains characters that no key contains")
	}
	config.Credential = attestd.Key(key)
	return config, nil
}

// ConnectionFile returns the path of the file in which `attestd init` stores address and key. Its
// lines have the form NAME=value, so that a shell can read them too.
func ConnectionFile() (string, error) { return ConfigFile("env") }

// ConfigFile returns the path of an attestd file or folder in the user's configuration folder. A
// process without a home folder has none.
func ConfigFile(name string) (string, error) {
	folder, err := os.UserConfigDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(folder, "attestd", name), nil
}

// ReadConnectionFile returns the settings in the connection file, nil when the file does not exist.
func ReadConnectionFile() (path string, settings map[string]string, err error) {
	path, err = ConnectionFile()
	if err != nil {
		return "", nil, nil // a process without a home folder has no such file
	}
	text, err := ReadPrivate(path)
	if errors.Is(err, fs.ErrNotExist) {
		return path, nil, nil
	}
	if err != nil {
		return path, nil, err
	}
	return path, setup.ParseEnvironment(text), nil
}

// SameServer reports whether two URLs have the same normal form.
func SameServer(a, b string) bool {
	normal := func(address string) string {
		if c, err := attestd.New(attestd.Config{URL: address}); err == nil {
			return c.URL()
		}
		return address
	}
	return normal(a) == normal(b)
}

// MaxPrivateFile is the largest number of bytes read from a file with a key.
const MaxPrivateFile = 64 << 10

// ReadPrivate reads a file with a credential. It refuses a file that others can read, because they
// may know the credential. It refuses a file that others can replace, because they could choose the
// credential and the server.
func ReadPrivate(path string) (string, error) {
	text, err := ReadSecret(path, MaxPrivateFile, func(info fs.FileInfo) error {
		return fmt.Errorf("%s: group or others may read it (mode %o); create another key, delete this one, and make the new "+
			"file private: chmod 600", path, info.Mode().Perm())
	})
	return string(text), err
}
