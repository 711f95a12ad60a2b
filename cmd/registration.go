package cmd

import (
	"bytes"
	"io"

	"attestd/cmd/cli"
	"attestd/internal/printable"
	"attestd/server"
)

const (
	minToken = 16
	maxToken = 4096
)

// parseRegistration parses who may register a company, and reads the token if the mode requires
// one.
func parseRegistration(mode, tokenFile string) (r server.Registration, err error) {
	if r.Mode, err = server.ParseRegistration(mode); err != nil {
		return r, cli.Usagef("--registration: %v", err)
	}
	if needs := r.Mode == server.RegistrationToken; needs != (tokenFile != "") {
		return r, cli.Usagef("--registration token and --registration-token-file require each other")
	} else if needs {
		r.Token, err = readToken(tokenFile)
	}
	return r, err
}

// readToken reads a token from a file that only its owner may read. Errors do not contain the
// token.
func readToken(path string) (string, error) {
	f, info, err := cli.OpenRights(path, false)
	if err != nil {
		return "", cli.Usagef("--registration-token-file: %v", err)
	}
	defer f.Close()
	if cli.IsExposed(path, info) {
		return "", cli.Usagef("--registration-token-file: others may read %s; chmod 600 %s", path, printable.ShellWord(path))
	}
	text, err := io.ReadAll(io.LimitReader(f, maxToken+1))
	if err != nil {
		return "", cli.Usagef("--registration-token-file: %v", err)
	}
	token := bytes.TrimSpace(text)
	hidden := func(c rune) bool { return c <= ' ' || c >= 0x7f }
	if len(token) < minToken || len(text) > maxToken || bytes.ContainsFunc(token, hidden) {
		return "", cli.Usagef("--registration-token-file: %s must hold %d to %d visible ASCII characters on one line", path,
			minToken, maxToken)
	}
	return string(token), nil
}

// registrationHeader returns the curl argument that registering a company needs, if any.
func (f serveFlags) registrationHeader() string {
	if f.registrationTokenFile == "" {
		return ""
	}
	return ` -H "Authorization: Bearer $(cat ` + printable.ShellWord(f.registrationTokenFile) + `)"`
}
