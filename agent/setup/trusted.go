package setup

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"

	"attestd/sdk/attestd"
)

// trusted refuses hooks that init has not written. Settings are part of a project, so anyone may
// have written them. A check runs only this program, and sends the credential only to its own
// server.
func (c Check) trusted(h hook) error {
	server := h.URL
	if h.Type != "http" {
		run, ok := parseCommand(h.Command, c.Kind.shellOf(c.System))
		if !ok || h.CommandWindows != "" && h.CommandWindows != h.Command {
			return fmt.Errorf("init does not write such a command, so it was not run: %s", shownCommand(h.Command))
		}
		words := run.words
		if err := c.isOurProgram(words[0]); err != nil {
			return err
		}
		at := slices.Index(words, "--url")
		if len(words) < 2 || words[1] != "hook" || at < 0 || at == len(words)-1 {
			return fmt.Errorf("init does not write such a command, so it was not run: %s", shownCommand(h.Command))
		}
		server = words[at+1]
	} else if address, err := url.Parse(server); err == nil {
		address.RawQuery = ""
		server = strings.TrimSuffix(address.String(), hookPath)
	}
	there, err := attestd.New(attestd.Config{URL: server})
	if err != nil || there.URL() != c.URL {
		return fmt.Errorf("it reports to %s, but this check uses %s: set the server with --url", server, c.URL)
	}
	return nil
}

// isOurProgram returns an error unless a name refers to one of the programs that the hooks may run.
func (c Check) isOurProgram(name string) error {
	found, err := exec.LookPath(name)
	if err != nil {
		return fmt.Errorf("its program was not found: %w", err)
	}
	there, err := os.Stat(found)
	if err != nil {
		return err
	}
	for _, own := range c.Programs {
		if here, err := os.Stat(own); err == nil && os.SameFile(there, here) {
			return nil
		}
	}
	return fmt.Errorf("it runs %s, which is not this program (%s), so it was not run; use that program to check its own hooks", found, strings.Join(c.Programs, ", "))
}
