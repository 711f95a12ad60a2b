package setup

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"

	"attestd/internal/lazyregexp"
	"attestd/sdk/attestd"
)

var (
	wordForm    = `(?:[A-Za-z0-9/._+:,=-]+|'(?:[^']|'\\'')*')`
	commandForm = lazyregexp.New(`^` + wordForm + `(?: ` + wordForm + `)*$`)
	eachWord    = lazyregexp.New(wordForm)
)

// trusted refuses hooks that init has not written. Settings are part of a project, so anyone may
// have written them. A check runs only this program, and sends the credential only to its own
// server.
func (c Check) trusted(h hook) error {
	server := h.URL
	if h.Type != "http" {
		command := strings.TrimSuffix(h.Command, orBlock)
		if !commandForm().MatchString(command) {
			return fmt.Errorf("init does not write such a command, so it was not run: %s", h.Command)
		}
		words := eachWord().FindAllString(command, -1)
		for i, word := range words {
			if strings.HasPrefix(word, "'") {
				words[i] = strings.ReplaceAll(word[1:len(word)-1], `'\''`, "'")
			}
		}
		if err := isThisProgram(words[0]); err != nil {
			return err
		}
		at := slices.Index(words, "--url")
		if len(words) < 2 || words[1] != "hook" || at < 0 || at == len(words)-1 {
			return fmt.Errorf("init does not write such a command, so it was not run: %s", h.Command)
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

// isThisProgram returns an error unless a name refers to the running program.
func isThisProgram(name string) error {
	own, err := os.Executable()
	if err != nil {
		return err
	}
	found, err := exec.LookPath(name)
	if err != nil {
		return fmt.Errorf("its program was not found: %w", err)
	}
	there, err := os.Stat(found)
	here, err2 := os.Stat(own)
	if err = errors.Join(err, err2); err != nil {
		return err
	}
	if !os.SameFile(there, here) {
		return fmt.Errorf("it runs %s, which is not this program (%s), so it was not run; use that program to check its own hooks", found, own)
	}
	return nil
}
