package setup

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"

	"attestd/sdk/attestd"
)

var (
	wordForm    = `(?:[A-Za-z0-9/._+:,=-]+|'(?:[^']|'\\'')*')`
	commandForm = regexp.MustCompile(`^` + wordForm + `(?: ` + wordForm + `)*$`)
	eachWord    = regexp.MustCompile(wordForm)
)

// trusted refuses to drive a hook that init has not written. Settings come with a project, so they
// may be anybody's: a check runs no program but this one, and gives the credential to no server but
// its own.
func (c Check) trusted(h hook) error {
	server := h.URL
	if h.Type != "http" {
		if !commandForm.MatchString(h.Command) {
			return fmt.Errorf("its command is none that init writes, and was not run: %s", h.Command)
		}
		words := eachWord.FindAllString(h.Command, -1)
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
			return fmt.Errorf("its command is none that init writes, and was not run: %s", h.Command)
		}
		server = words[at+1]
	} else if address, err := url.Parse(server); err == nil {
		address.RawQuery = ""
		server = strings.TrimSuffix(address.String(), hookPath)
	}
	there, err := attestd.New(attestd.Config{URL: server})
	if err != nil || there.URL() != c.URL {
		return fmt.Errorf("it reports to %s, and this check asks %s: name the server with --url", server, c.URL)
	}
	return nil
}

// isThisProgram refuses a program that is another than the one that runs.
func isThisProgram(name string) error {
	own, err := os.Executable()
	if err != nil {
		return err
	}
	found, err := exec.LookPath(name)
	if err != nil {
		return fmt.Errorf("its program is not to be had: %w", err)
	}
	there, err := os.Stat(found)
	here, err2 := os.Stat(own)
	if err = errors.Join(err, err2); err != nil {
		return err
	}
	if !os.SameFile(there, here) {
		return fmt.Errorf("it runs %s, which is another program than this one (%s), and was not run; that one can check its own hooks", found, own)
	}
	return nil
}
