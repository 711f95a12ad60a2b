package cmd

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

// defaultURL is the default address of `attestd serve`.
const defaultURL = "http://127.0.0.1:8080"

// connectionHelp stands in the help of every command that connects to a server.
const connectionHelp = `The server's address comes from --url or ATTESTD_URL. The credential comes from ATTESTD_KEY, or
from ATTESTD_KEY_FILE (a file with the key alone). Otherwise both come from the file that
"attestd init" wrote: attestd/env in the user's configuration folder. No flag contains a
credential, because the list of processes shows flags to all users.`

func urlFlag(cmd *cobra.Command) {
	cmd.Flags().String("url", "", "`address` of the server (default "+defaultURL+")")
	_ = caFileFlag(cmd) // which trustCA reads
}

func agentFlag(cmd *cobra.Command, agent *string, def string) {
	cmd.Flags().StringVar(agent, "agent", def, "`ID` of the agent to attest for")
}

// connect returns a client of the server that the command line or the environment names.
func connect(cmd *cobra.Command) (*attestd.Client, error) {
	config, err := connection(cmd)
	if err != nil {
		return nil, err
	}
	return newClient(config)
}

// newClient returns a client. What is wrong with its configuration is a usage error.
func newClient(config attestd.Config) (*attestd.Client, error) {
	c, err := attestd.New(config)
	if err != nil {
		return nil, usageError{err}
	}
	return c, nil
}

// connection finds the server's address and the credential. A key in the file that init wrote is
// sent only to the server named in that file.
func connection(cmd *cobra.Command) (attestd.Config, error) {
	config := attestd.Config{URL: cmd.Flag("url").Value.String()} // the flag, or ATTESTD_URL
	key := os.Getenv("ATTESTD_KEY")
	if path := os.Getenv("ATTESTD_KEY_FILE"); key == "" && path != "" {
		text, err := readPrivate(path)
		if err != nil {
			return config, err
		}
		if key = strings.TrimSpace(text); key == "" {
			return config, fmt.Errorf("%s is empty", path)
		}
	}
	if config.URL == "" || key == "" {
		path, file, err := readConnectionFile()
		if err != nil {
			return config, err
		}
		named := file["ATTESTD_URL"]
		if named == "" {
			named = defaultURL
		}
		if config.URL == "" {
			config.URL = named
		}
		if key == "" && file["ATTESTD_KEY"] != "" {
			if !sameServer(config.URL, named) {
				return config, fmt.Errorf("the key in %s is for %s; set ATTESTD_KEY or ATTESTD_KEY_FILE for another server", path,
					named)
			}
			key = file["ATTESTD_KEY"]
		}
	}
	if key == "" {
		return config, errors.New("no credential: set ATTESTD_KEY or ATTESTD_KEY_FILE, or run attestd init")
	}
	if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return config, errors.New("the credential contains characters that no key contains")
	}
	config.Credential = attestd.Key(key)
	return config, nil
}

// connectionFile returns the path of the file in which `attestd init` stores address and key. Its
// lines have the form NAME=value, so that a shell can read them too.
func connectionFile() (string, error) {
	folder, err := os.UserConfigDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(folder, "attestd", "env"), nil
}

// readConnectionFile returns the settings in the connection file, nil when the file does not exist.
func readConnectionFile() (path string, settings map[string]string, err error) {
	path, err = connectionFile()
	if err != nil {
		return "", nil, nil // a process without a home folder has no such file
	}
	text, err := readPrivate(path)
	if errors.Is(err, fs.ErrNotExist) {
		return path, nil, nil
	}
	if err != nil {
		return path, nil, err
	}
	return path, setup.ParseEnvironment(text), nil
}

// sameServer reports whether two URLs have the same normal form.
func sameServer(a, b string) bool {
	normal := func(address string) string {
		if c, err := attestd.New(attestd.Config{URL: address}); err == nil {
			return c.URL()
		}
		return address
	}
	return normal(a) == normal(b)
}

// maxPrivateFile is the largest number of bytes read from a file with a key.
const maxPrivateFile = 64 << 10

// readPrivate reads a file with a credential. It refuses a file that others can read, because they
// may know the credential. It refuses a file that others can replace, because they could choose the
// credential and the server.
func readPrivate(path string) (string, error) {
	text, err := readSecret(path, maxPrivateFile, func(info fs.FileInfo) error {
		return fmt.Errorf("%s: group or others may read it (mode %o); create another key, delete this one, and make the new "+
			"file private: chmod 600", path, info.Mode().Perm())
	})
	return string(text), err
}
