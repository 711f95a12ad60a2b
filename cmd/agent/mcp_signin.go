package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"net/url"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"attestd/agent/mcpproxy"
	"attestd/agent/setup"
	"attestd/cmd/cli"
)

// signInOf returns a sign-in for an MCP server, whose tokens are stored in a file of its own.
func signInOf(server *url.URL) (*mcpproxy.SignIn, error) {
	tokens, err := cli.ConfigFile("tokens")
	if err != nil {
		return nil, errors.New("no configuration folder for --sign-in: set HOME")
	}
	sum := sha256.Sum256([]byte(server.String()))
	path := filepath.Join(tokens, strings.ReplaceAll(server.Hostname(), ":", "_")+"-"+hex.EncodeToString(sum[:8])+".json")
	load := func() (string, error) {
		text, err := cli.ReadPrivate(path)
		if errors.Is(err, fs.ErrNotExist) {
			return "", nil
		}
		return text, err
	}
	save := func(text string) error { return setup.WritePrivate(path, text) }
	return mcpproxy.NewSignIn(load, save, func(address string) {
		cli.PrintError("attestd: sign in to %s with your browser: %s\n", server.Host, address)
		_ = browse(address) // whoever has no browser here opens the address elsewhere
	}), nil
}

// browse opens the user's browser.
func browse(address string) error {
	name, args := "xdg-open", []string{address}
	switch runtime.GOOS {
	case "darwin":
		name = "open"
	case "windows":
		name, args = "rundll32", []string{"url.dll,FileProtocolHandler", address}
	}
	cmd := exec.Command(name, args...)
	cmd.Env = withoutCredential(cmd.Environ())
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() { _ = cmd.Wait() }()
	return nil
}
