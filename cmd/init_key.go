package cmd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"

	"github.com/spf13/cobra"

	"attestd/agent/setup"
	"attestd/sdk/attestd"
)

// connect sees to it that the agent is registered and the connection file has a key for it, and
// returns a client with that key.
func (f *initFlags) connect(cmd *cobra.Command, s setup.Steps) (c *attestd.Client, path string, err error) {
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
	anyone, err := attestd.New(attestd.Config{URL: at})
	if err != nil {
		return nil, "", usageError{err}
	}
	at = anyone.URL()
	s.Say("server", at)
	kept, err := keptKey(cmd.Context(), path, file, at)
	if err != nil {
		return nil, "", err
	}
	given := os.Getenv("ATTESTD_KEY") != "" || os.Getenv("ATTESTD_KEY_FILE") != ""
	var admin *attestd.Client
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
	if err := setup.WritePrivate(path, setup.Environment([2]string{"ATTESTD_URL", at}, [2]string{"ATTESTD_KEY", key})); err != nil {
		return nil, "", err
	}
	s.Say("key", path+" has a new one, of the role writer")
	c, err = attestd.New(attestd.Config{URL: at, Credential: attestd.Key(key)})
	return c, path, err
}

// keptClient is what the key in the connection file opens.
type keptClient struct {
	client  *attestd.Client
	company string
}

// keptKey returns what the key in the connection file opens, nil where there is none or the server
// knows it no more.
func keptKey(ctx context.Context, path string, file map[string]string, at string) (*keptClient, error) {
	key, named := file["ATTESTD_KEY"], file["ATTESTD_URL"]
	if key == "" {
		return nil, nil
	}
	if named == "" {
		named = defaultURL
	}
	if !sameServer(named, at) {
		return nil, fmt.Errorf("%s has a key for %s; move the file away first, or give that address", path, named)
	}
	c, err := attestd.New(attestd.Config{URL: at, Credential: attestd.Key(key)})
	if err != nil {
		return nil, usageError{err}
	}
	company, err := c.Company(ctx)
	if errors.Is(err, &attestd.Error{Status: http.StatusUnauthorized}) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &keptClient{c, company.CompanyID}, nil
}

// found registers a company on a server of this machine. Another's server is asked for nothing
// without a credential.
func (f *initFlags) found(ctx context.Context, s setup.Steps, at string) (*attestd.Client, error) {
	address, err := url.Parse(at)
	if err != nil || !isLoopbackName(address.Hostname()) {
		return nil, errors.New("no credential: set ATTESTD_KEY or ATTESTD_KEY_FILE to an admin key of the company")
	}
	anyone, err := attestd.New(attestd.Config{URL: at})
	if err != nil {
		return nil, usageError{err}
	}
	key, err := s.Found(ctx, anyone, f.company)
	if err != nil {
		return nil, err
	}
	return attestd.New(attestd.Config{URL: at, Credential: attestd.Key(key)})
}

func isLoopbackName(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
