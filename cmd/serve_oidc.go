package cmd

import (
	"errors"

	"github.com/spf13/cobra"

	"attestd/cmd/cli"
	"attestd/service"
	"attestd/service/federation"
)

// oidcFlags name the identity provider with whose accounts people sign in.
type oidcFlags struct{ issuer, clientID, secretFile, rules string }

func (f *oidcFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.issuer, "oidc-issuer", "", "`URL` of the identity provider (OpenID Connect) with whose accounts people sign in (default: none)")
	flags.StringVar(&f.clientID, "oidc-client-id", "", "`ID` of this service at the identity provider")
	flags.StringVar(&f.secretFile, "oidc-client-secret-file", "", "`file` with the secret of this service at the identity provider")
	flags.StringVar(&f.rules, "oidc-rules", "",
		"`file` with the rules that say which accounts are of which company, and their roles (default: accounts that a person of the only company has)")
}

// maxRules bounds a file of rules, in bytes.
const maxRules = 64 << 10

// config returns the identity provider; nil for none.
func (f oidcFlags) config(allowPrivate bool) (*service.OIDCConfig, error) {
	if f == (oidcFlags{}) {
		return nil, nil
	}
	if f.issuer == "" || f.clientID == "" || f.secretFile == "" {
		return nil, cli.Usagef("--oidc-issuer, --oidc-client-id and --oidc-client-secret-file require each other, and --oidc-rules requires them")
	}
	if err := service.CheckOIDCIssuer(f.issuer, allowPrivate); err != nil {
		return nil, cli.Usagef("--oidc-issuer %v", err)
	}
	c := &service.OIDCConfig{Issuer: f.issuer, ClientID: f.clientID}
	var err error
	if c.Secret, err = readToken("oidc-client-secret-file", f.secretFile, 1); err != nil || f.rules == "" {
		return c, err
	}
	text, err := cli.ReadRights(f.rules, maxRules)
	if err != nil {
		return nil, cli.Usagef("--oidc-rules: %v", err)
	}
	c.Rules, err = federation.ParsePeople(text)
	var wrong *federation.Error
	if errors.As(err, &wrong) {
		return nil, cli.Usagef("--oidc-rules: %s: %s %s", f.rules, orRules(wrong.Pointer), wrong.Message)
	}
	return c, err
}

func orRules(pointer string) string {
	if pointer == "" {
		return "the rules"
	}
	return pointer
}
