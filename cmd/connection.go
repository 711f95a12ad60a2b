package cmd

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"attestd/agent/setup"
	"attestd/sdk/attestd"
	"attestd/sdk/attestd/private"
)

// defaultURL is where `attestd serve` listens unless it is told otherwise.
const defaultURL = "http://127.0.0.1:8080"

// connectionHelp is what the help of every command says that connects.
const connectionHelp = `The server is found by --url or ATTESTD_URL, and the credential by ATTESTD_KEY, by ATTESTD_KEY_FILE (a file with the key alone), or both by the
file that "attestd init" wrote (attestd/env in the user's configuration folder). No flag takes a credential, for everybody sees those in a list of processes.`

func urlFlag(cmd *cobra.Command) {
	cmd.Flags().String("url", "", "`address` of the server (default "+defaultURL+")")
}

func agentFlag(cmd *cobra.Command, agent *string, def string) {
	cmd.Flags().StringVar(agent, "agent", def, "`ID` of the agent in whose name it is attested")
}

// connect returns a client of the server that the command line or the environment names.
func connect(cmd *cobra.Command) (*attestd.Client, error) {
	config, err := connection(cmd)
	if err != nil {
		return nil, err
	}
	c, err := attestd.New(config)
	if err != nil {
		return nil, usageError{err}
	}
	return c, nil
}

// connection finds the server and the credential. The key of the file that init wrote is for the
// server that this file names, and goes to no other.
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
				return config, fmt.Errorf("the key in %s is for %s; set ATTESTD_KEY or ATTESTD_KEY_FILE for another server", path, named)
			}
			key = file["ATTESTD_KEY"]
		}
	}
	if key == "" {
		return config, errors.New("no credential: set ATTESTD_KEY or ATTESTD_KEY_FILE, or run attestd init")
	}
	if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return config, errors.New("the credential has characters that no key has")
	}
	config.Credential = attestd.Key(key)
	return config, nil
}

// connectionFile is where `attestd init` keeps address and key: lines NAME=value, so that a shell
// can read it too.
func connectionFile() (string, error) {
	folder, err := os.UserConfigDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(folder, "attestd", "env"), nil
}

// readConnectionFile returns the settings of the connection file, none where there is no such file.
func readConnectionFile() (path string, settings map[string]string, err error) {
	path, err = connectionFile()
	if err != nil {
		return "", nil, nil // a process without a home folder has none
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

// sameServer says whether two addresses are one, in whatever spelling.
func sameServer(a, b string) bool {
	normal := func(address string) string {
		if c, err := attestd.New(attestd.Config{URL: address}); err == nil {
			return c.URL()
		}
		return address
	}
	return normal(a) == normal(b)
}

// maxPrivateFile bounds what is read of a file with a key, in bytes.
const maxPrivateFile = 64 << 10

// readPrivate reads a file with a credential. One that others may read has given it away already,
// and is refused; so is one that others may replace, for they would choose whose credential is used
// and where it goes.
func readPrivate(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if mode := info.Mode(); runtime.GOOS != "windows" && mode.Perm()&0o077 != 0 {
		return "", fmt.Errorf("%s: group or others may read it (mode %o); make another key, delete the old one, and keep the file to yourself: chmod 600", path, mode.Perm())
	}
	if err := private.Check(path); err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxPrivateFile))
	return string(text), err
}
