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

// connect registers the agent and stores a key for it in the connection file, unless that has been
// done. It returns a client with that key.
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
	s.Print("server", at)
	stored, err := storedKey(cmd.Context(), path, file, at)
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
	case stored != nil:
		admin = stored.client // which suffices when the agent is registered
	default:
		if admin, err = f.createCompany(cmd.Context(), s, at); err != nil {
			return nil, "", err
		}
	}
	company, err := admin.Company(cmd.Context())
	if err != nil {
		return nil, "", err
	}
	if stored != nil && stored.company != company.CompanyID {
		return nil, "", fmt.Errorf("%s has a key of the company %s, but the credential belongs to %s; move the file away first", path, stored.company, company.CompanyID)
	}
	if err := s.Register(cmd.Context(), admin); err != nil {
		return nil, "", err
	}
	if stored != nil {
		s.Print("key", path+" has one")
		return stored.client, path, nil
	}
	key, err := s.WriterKey(cmd.Context(), admin)
	if err != nil {
		return nil, "", err
	}
	if err := setup.WritePrivate(path, setup.Environment([2]string{"ATTESTD_URL", at}, [2]string{"ATTESTD_KEY", key})); err != nil {
		return nil, "", err
	}
	s.Print("key", path+" has a new one, with the role writer")
	c, err = attestd.New(attestd.Config{URL: at, Credential: attestd.Key(key)})
	return c, path, err
}

// storedClient is a client with the key in the connection file, and the company of the key.
type storedClient struct {
	client  *attestd.Client
	company string
}

// storedKey returns a client with the key in the connection file. It is nil when there is no key,
// or the server rejects it.
func storedKey(ctx context.Context, path string, file map[string]string, at string) (*storedClient, error) {
	key, named := file["ATTESTD_KEY"], file["ATTESTD_URL"]
	if key == "" {
		return nil, nil
	}
	if named == "" {
		named = defaultURL
	}
	if !sameServer(named, at) {
		return nil, fmt.Errorf("%s has a key for %s; move the file away first, or use that address", path, named)
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
	return &storedClient{c, company.CompanyID}, nil
}

// createCompany registers a company, but only if the server is on this machine: init sends nothing
// to other servers without a credential.
func (f *initFlags) createCompany(ctx context.Context, s setup.Steps, at string) (*attestd.Client, error) {
	address, err := url.Parse(at)
	if err != nil || !isLoopbackName(address.Hostname()) {
		return nil, errors.New("no credential: set ATTESTD_KEY or ATTESTD_KEY_FILE to an admin key of the company")
	}
	anyone, err := attestd.New(attestd.Config{URL: at})
	if err != nil {
		return nil, usageError{err}
	}
	key, err := s.CreateCompany(ctx, anyone, f.company)
	if err != nil {
		return nil, err
	}
	return attestd.New(attestd.Config{URL: at, Credential: attestd.Key(key)})
}

func isLoopbackName(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
