package cmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"attestd/agent/hookevent"
	"attestd/agent/setup"
	"attestd/agent/toolcall"
	"attestd/client"
	"attestd/crypto/cred"
)

func initCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "init AGENT",
		Short: "Put a coding agent on this machine under watch",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(initClaudeCodeCommand())
	return cmd
}

// initFlags are those of `attestd init claude-code`.
type initFlags struct {
	hooks             setup.Hooks
	require, fail     string
	company, settings string
	write, command    bool
}

func initClaudeCodeCommand() *cobra.Command {
	var f initFlags
	cmd := &cobra.Command{
		Use:   "claude-code",
		Short: "Have every tool call of Claude Code recorded",
		Long: `Have every tool call of Claude Code recorded: register the agent, make a key that may record and read, keep that for this user alone in attestd/env of the
configuration folder, attest a first record, and print the settings, or with --write put them into .claude/settings.json. What is there already stays; to
run it again changes nothing.

The admin key of the company is taken from ATTESTD_KEY or ATTESTD_KEY_FILE. Without one, and without a key from an earlier time, a company is registered where
the server is on this machine and lets anyone do that; its admin key is shown once.

Claude Code asks the server itself and needs nothing installed; with --command it runs "attestd hook", which keeps on disk what the server cannot be given.
With --fail closed a call that cannot be recorded is refused.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	urlFlag(cmd)
	agentFlag(cmd, &f.hooks.Agent, string(hookevent.ClaudeCode))
	cmd.Flags().BoolVar(&f.write, "write", false, "write the settings instead of printing them")
	cmd.Flags().StringVar(&f.settings, "settings", filepath.Join(".claude", "settings.json"), "settings `file` for --write")
	cmd.Flags().BoolVar(&f.command, "command", false, "hooks that run this program, for older versions and for a server that is not always there")
	cmd.Flags().StringVar(&f.require, "require", "", "`passport`: refuse tools that no valid passport of the agent covers")
	cmd.Flags().StringVar(&f.hooks.Redact, "redact", "", "record only the hash of `input,output` or one of them")
	cmd.Flags().StringVar(&f.fail, "fail", "open", "`open` lets calls go on that cannot be recorded, closed refuses them")
	cmd.Flags().StringVar(&f.company, "company", "local", "`ID` of the company to register where there is no key")
	return cmd
}

func (f *initFlags) run(cmd *cobra.Command) error {
	if err := f.check(); err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	steps := setup.Steps{Agent: f.hooks.Agent, Say: func(what, how string) { fmt.Fprintf(out, "%-10s %s\n", what, how) }}
	c, path, err := f.connect(cmd, steps)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := steps.FirstRecord(cmd.Context(), c); err != nil {
		return err
	}
	f.hooks.URL = c.URL()
	if f.command {
		if f.hooks.Command, err = ownProgram(); err != nil {
			return err
		}
	}
	start := "claude"
	if !f.command {
		start = "set -a; . " + shellQuote(path) + "; set +a; claude"
	}
	if f.write {
		how, err := f.writeSettings()
		if err != nil {
			return err
		}
		steps.Say("settings", f.settings+" "+how)
	} else {
		fmt.Fprintf(out, "\nThe settings, for %s (--write puts them there):\n\n%s\n", f.settings, f.hooks.Settings())
	}
	steps.Say("start", start)
	return nil
}

// check refuses what was mistyped before anything is done.
func (f *initFlags) check() error {
	if err := cred.CheckSegment(f.hooks.Agent); err != nil {
		return usagef("--agent: %v", err)
	}
	if err := cred.CheckSegment(f.company); err != nil {
		return usagef("--company: %v", err)
	}
	if _, err := toolcall.ParseRedaction(f.hooks.Redact); err != nil {
		return usagef("--redact: %v", err)
	}
	if f.hooks.Passport = f.require == "passport"; !f.hooks.Passport && f.require != "" {
		return usagef("--require: want passport, not %q", f.require)
	}
	if f.hooks.Closed = f.fail == "closed"; !f.hooks.Closed && f.fail != "open" {
		return usagef("--fail: want open or closed, not %q", f.fail)
	}
	return nil
}

// connect sees to it that the agent is registered and the connection file has a key for it, and returns a client with that key.
func (f *initFlags) connect(cmd *cobra.Command, s setup.Steps) (c *client.Client, path string, err error) {
	path, file, err := readConnectionFile()
	if err != nil {
		return nil, "", err
	}
	if path == "" {
		return nil, "", errors.New("no configuration folder: set HOME")
	}
	at := cmd.Flag("url").Value.String()
	if at == "" {
		at = file["ATTESTD_URL"]
	}
	if at == "" {
		at = defaultURL
	}
	s.Say("server", at)
	kept, err := keptKey(cmd.Context(), path, file, at)
	if err != nil {
		return nil, "", err
	}
	given := os.Getenv("ATTESTD_KEY") != "" || os.Getenv("ATTESTD_KEY_FILE") != ""
	var admin *client.Client
	switch {
	case given:
		if admin, err = connect(cmd); err != nil {
			return nil, "", err
		}
	case kept != nil:
		admin = kept.client // which suffices where everything is there
	default:
		if admin, err = f.found(cmd.Context(), s, at); err != nil {
			return nil, "", err
		}
	}
	company, err := admin.Company(cmd.Context())
	if err != nil {
		return nil, "", err
	}
	if kept != nil && kept.company != company.CompanyID {
		return nil, "", fmt.Errorf("%s has a key of the company %s, and the credential is one of %s; move the file away first", path, kept.company, company.CompanyID)
	}
	if err := s.Register(cmd.Context(), admin); err != nil {
		return nil, "", err
	}
	if kept != nil {
		s.Say("key", path+" has one")
		return kept.client, path, nil
	}
	key, err := s.WriterKey(cmd.Context(), admin)
	if err != nil {
		return nil, "", err
	}
	if err := writePrivate(path, "ATTESTD_URL="+at+"\nATTESTD_KEY="+key+"\n"); err != nil {
		return nil, "", err
	}
	s.Say("key", path+" has a new one, of the role writer")
	c, err = client.New(client.Config{URL: at, Credential: client.Key(key)})
	return c, path, err
}

// keptClient is what the key in the connection file opens.
type keptClient struct {
	client  *client.Client
	company string
}

// keptKey returns what the key in the connection file opens, nil where there is none or the server knows it no more.
func keptKey(ctx context.Context, path string, file map[string]string, at string) (*keptClient, error) {
	key, named := file["ATTESTD_KEY"], file["ATTESTD_URL"]
	if key == "" {
		return nil, nil
	}
	if named == "" {
		named = defaultURL
	}
	if strings.TrimRight(named, "/") != strings.TrimRight(at, "/") {
		return nil, fmt.Errorf("%s has a key for %s; move the file away first, or give that address", path, named)
	}
	c, err := client.New(client.Config{URL: at, Credential: client.Key(key)})
	if err != nil {
		return nil, usageError{err}
	}
	company, err := c.Company(ctx)
	if errors.Is(err, &client.Error{Status: http.StatusUnauthorized}) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &keptClient{c, company.CompanyID}, nil
}

// found registers a company on a server of this machine. Another's server is asked for nothing without a credential.
func (f *initFlags) found(ctx context.Context, s setup.Steps, at string) (*client.Client, error) {
	address, err := url.Parse(at)
	if err != nil || !isLoopbackName(address.Hostname()) {
		return nil, errors.New("no credential: set ATTESTD_KEY or ATTESTD_KEY_FILE to an admin key of the company")
	}
	anyone, err := client.New(client.Config{URL: at})
	if err != nil {
		return nil, usageError{err}
	}
	key, err := s.Found(ctx, anyone, f.company)
	if err != nil {
		return nil, err
	}
	return client.New(client.Config{URL: at, Credential: client.Key(key)})
}

func isLoopbackName(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// writeSettings puts the hooks into the settings file, which stays as it is where they are there already, or where it cannot be understood.
func (f *initFlags) writeSettings() (how string, err error) {
	path := f.settings
	if real, err := filepath.EvalSymlinks(path); err == nil { // a link stays one
		path = real
	}
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	mode := fs.FileMode(0o644)
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	merged, err := f.hooks.Merge(old)
	switch {
	case err != nil:
		return "", fmt.Errorf("%s was left as it is: %w", f.settings, err)
	case string(merged) == string(old):
		return "has the hooks already", nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	return "written", replaceFile(path, merged, mode)
}

// writePrivate writes a file that is for its owner alone, in a folder that is, too.
func writePrivate(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return replaceFile(path, []byte(text), 0o600)
}

// replaceFile puts a whole file in the place of another.
func replaceFile(path string, text []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // when it was not renamed
	_, err = f.Write(text)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// ownProgram is this program as a shell finds it.
func ownProgram() (string, error) {
	own, err := os.Executable()
	if err != nil {
		return "", err
	}
	if strings.Contains(own, "go-build") {
		return "", usagef("--command needs a program that stays: this one is of \"go run\", so build it first: go build -o attestd .")
	}
	if found, err := exec.LookPath("attestd"); err == nil {
		there, err := os.Stat(found)
		here, err2 := os.Stat(own)
		if err == nil && err2 == nil && os.SameFile(there, here) {
			return "attestd", nil
		}
	}
	return shellQuote(own), nil
}

// shellQuote writes a word for a shell.
func shellQuote(word string) string {
	if !strings.ContainsFunc(word, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("/._-+:", r)
	}) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
