package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"attestd/agent/agentkey"
	"attestd/agent/setup"
	"attestd/cmd/cli"
	"attestd/examples/policies"
	"attestd/internal/printable"
	"attestd/sdk/attestd"
)

// connect registers the agent and stores a key for it in the connection file, unless that has been
// done. It returns a client with that key.
func (f *initFlags) connect(cmd *cobra.Command, s setup.Steps) (c *attestd.Client, path string, err error) {
	f.trusted = cli.CaFileSetting(cmd)
	path, file, err := cli.ReadConnectionFile()
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
		at = cli.DefaultURL
	}
	anyone, err := attestd.New(attestd.Config{URL: at})
	if err != nil {
		return nil, "", cli.UsageError{Err: err}
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
		if admin, err = cli.Connect(cmd); err != nil {
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
	spiffeID, err := s.Register(cmd.Context(), admin)
	if err != nil {
		return nil, "", err
	}
	if f.guard {
		if err := putStarter(cmd.Context(), s, admin, f.ask); err != nil {
			return nil, "", err
		}
	}
	c, err = f.storeKey(cmd.Context(), s, path, admin, stored, given)
	if f.reader = c; err != nil || f.unsigned {
		return c, path, err
	}
	if err := f.enrol(cmd, s, admin, spiffeID); err != nil {
		return nil, "", err
	}
	c, err = attestd.New(attestd.Config{URL: at, Credential: f.identity})
	return c, path, err
}

// storeKey creates an API key of the role that the hooks need, and stores it, unless one is stored.
// It returns a client with the key.
func (f *initFlags) storeKey(ctx context.Context, s setup.Steps, path string, admin *attestd.Client, stored *storedClient, given bool) (*attestd.Client, error) {
	role := attestd.Reader
	if f.unsigned {
		role = attestd.Writer
	}
	comments := ""
	if stored != nil {
		before, err := cli.ReadPrivate(path)
		if err != nil {
			return nil, err
		}
		have := role
		if given {
			have = stored.role(ctx, admin)
		}
		needed := role == attestd.Reader && setup.HasUnsigned(before)
		if have == role || have == "" || needed {
			s.Print("stored key", path+" has one")
			if have != role && needed {
				s.Print("note", "that key can write as any agent, which hooks that do not sign need")
			}
			return stored.client, nil
		}
		comments = setup.Comments(before)
	}
	key, err := s.CreateKey(ctx, admin, role)
	if err != nil {
		return nil, err
	}
	settings := append([][2]string{{"ATTESTD_URL", admin.URL()}, {"ATTESTD_KEY", key}}, f.trusted...)
	text := setup.Environment(settings...) + comments
	if err := setup.WritePrivate(path, text); err != nil {
		return nil, err
	}
	s.Print("stored key", path+" has a new one, with the role "+string(role))
	if stored != nil {
		if err := admin.DeleteKey(ctx, stored.key); err != nil {
			return nil, fmt.Errorf("the former key is still valid: %w", err)
		}
	}
	return attestd.New(attestd.Config{URL: admin.URL(), Credential: attestd.Key(key)})
}

// enrol enrols a key of the agent on this machine, unless it has one.
func (f *initFlags) enrol(cmd *cobra.Command, s setup.Steps, admin *attestd.Client, spiffeID string) error {
	path, err := agentKeyFile(f.hooks.Agent)
	if err != nil {
		return err
	}
	e := agentkey.Enrolment{
		Path: path, Algorithm: attestd.EdDSA, URL: admin.URL(), SPIFFEID: spiffeID, AgentID: f.hooks.Agent, Client: admin, Label: "attestd init", Alarm: warnOf,
	}
	thumbprint, err := e.Enrol(cmd.Context())
	if errors.Is(err, agentkey.ErrEnrolled) {
		list, unread := admin.AgentKeys(cmd.Context(), f.hooks.Agent)
		live := slices.ContainsFunc(list, func(k attestd.EnrolledKey) bool { return k.Thumbprint == thumbprint && k.RevokedAt == "" })
		if unread == nil && !live {
			s.Print("agent key", path+" has a key that the server does not know, or that was revoked: "+thumbprint)
			if err := os.Rename(path, path+".former"); err != nil {
				return err
			}
			thumbprint, err = e.Enrol(cmd.Context())
		}
	}
	enrolled := errors.Is(err, agentkey.ErrEnrolled)
	switch {
	case errors.Is(err, &attestd.Error{Code: "FORBIDDEN_ROLE"}):
		return fmt.Errorf("the agent %s has no key on this machine, and this credential cannot enrol one: set ATTESTD_KEY or ATTESTD_KEY_FILE to one with the role admin, "+
			"or ask an admin for a token and run attestd agent-key enrol --token …", f.hooks.Agent)
	case err != nil && !enrolled:
		return err
	}
	file, err := attestd.ReadAgentFile(path)
	if err != nil {
		return err
	}
	if file.SPIFFEID != spiffeID || !cli.SameServer(file.URL, admin.URL()) {
		return fmt.Errorf("%s has a key of %s on %s; move the file away first", path, file.SPIFFEID, file.URL)
	}
	who := file.Identity()
	who.Alarm = warnOf
	f.identity, err = attestd.NewIdentity(who)
	if err != nil {
		return err
	}
	how := "a new key of the agent, enrolled"
	if enrolled {
		how = "the agent's key"
	}
	s.Print("agent key", path+" has "+how+": "+thumbprint)
	return nil
}

// storedClient is a client with the key in the connection file, and the company of the key.
type storedClient struct {
	client       *attestd.Client
	key, company string
}

// role is the role of the key, as an admin sees it; "" where that cannot be found out.
func (s *storedClient) role(ctx context.Context, admin *attestd.Client) attestd.Role {
	list, err := admin.Credentials(ctx)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256([]byte(s.key))
	for _, c := range list {
		if c.Fingerprint == hex.EncodeToString(sum[:8]) {
			return c.Role
		}
	}
	return ""
}

// storedKey returns a client with the key in the connection file. It is nil when there is no key,
// or the server rejects it.
func storedKey(ctx context.Context, path string, file map[string]string, at string) (*storedClient, error) {
	key, named := file["ATTESTD_KEY"], file["ATTESTD_URL"]
	if key == "" {
		return nil, nil
	}
	if named == "" {
		named = cli.DefaultURL
	}
	if !cli.SameServer(named, at) {
		return nil, fmt.Errorf("%s has a key for %s; move the file away first, or use that address", path, named)
	}
	c, err := attestd.New(attestd.Config{URL: at, Credential: attestd.Key(key)})
	if err != nil {
		return nil, cli.UsageError{Err: err}
	}
	company, err := c.Company(ctx)
	if errors.Is(err, &attestd.Error{Status: http.StatusUnauthorized}) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &storedClient{c, key, company.CompanyID}, nil
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
		return nil, cli.UsageError{Err: err}
	}
	key, err := s.CreateCompany(ctx, anyone, f.company)
	if err != nil {
		return nil, err
	}
	f.showsAdmin = true
	trustNew(ctx, s, anyone, f.company)
	return attestd.New(attestd.Config{URL: at, Credential: attestd.Key(key)})
}

func isLoopbackName(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// trustNew stores the key of a company that this command has just registered as trusted: no one
// could name another one in between. A key that is trusted already stays.
func trustNew(ctx context.Context, s setup.Steps, c *attestd.Client, company string) {
	key, err := c.PublicKey(ctx, company)
	if err == nil {
		_, err = cli.TrustKey(cli.TrustedKey{Company: company, Fingerprint: key.Fingerprint})
	}
	if err != nil {
		s.Print("note", "the company's key was not stored for attestd check: "+err.Error())
		return
	}
	s.Print("trusted", key.Fingerprint+" is the company's key for checks on this machine")
}

// signIn says how to see the records in the console.
func (f *initFlags) signIn(s setup.Steps, at, path string) {
	how := "the stored key, which can only read"
	if f.unsigned {
		how = "the stored key"
	}
	if f.showsAdmin {
		how = "the admin key above, or with " + how
	}
	s.Print("console", "sign in at "+at+"/ with "+how+": "+showsKey(path))
}

// showsKey is the line for a shell that prints the key of a connection file.
func showsKey(path string) string { return "sed -n 's/^ATTESTD_KEY=//p' " + printable.ShellWord(path) }

// ownKey says where the credential is that commands on this machine use.
func ownKey() string {
	switch path, err := cli.ConnectionFile(); {
	case os.Getenv("ATTESTD_KEY") != "":
		return "the key in ATTESTD_KEY"
	case os.Getenv("ATTESTD_KEY_FILE") != "":
		return "the key in " + os.Getenv("ATTESTD_KEY_FILE")
	case err == nil:
		return "the stored key: " + showsKey(path)
	}
	return "an API key of the company"
}

// putStarter puts the starter policies in force in a company that has none, and with ask also those
// that have people approve calls, which it adds to the starter set.
func putStarter(ctx context.Context, s setup.Steps, admin *attestd.Client, ask bool) error {
	set, err := admin.Policies(ctx)
	if err != nil {
		return err
	}
	starter := policies.Starter()
	all := append(slices.Clone(starter), policies.Ask()...)
	if ask {
		starter = all
	}
	inForce := map[string]bool{} // of a run before, or of one that was interrupted
	for _, p := range set.Policies {
		inForce[p.ID] = slices.ContainsFunc(all, func(own policies.Policy) bool { return own.ID == p.ID && own.Text == p.Cedar })
		if !inForce[p.ID] {
			inForce = nil
			break
		}
	}
	isMissing := func(p policies.Policy) bool { return !inForce[p.ID] }
	if inForce == nil || !slices.ContainsFunc(starter, isMissing) {
		s.Print("policies", fmt.Sprintf("the company has %d, which decide; the starter set is not put", len(set.Policies)))
		return nil
	}
	// What permits comes last: before it, nothing is allowed that a rule would have forbidden.
	for i := len(starter) - 1; i >= 0; i-- {
		if inForce[starter[i].ID] {
			continue
		}
		_, err := admin.PutPolicy(ctx, starter[i].ID, attestd.NewPolicy{Cedar: starter[i].Text, Description: "starter set"})
		if errors.Is(err, &attestd.Error{Code: "FORBIDDEN_ROLE"}) {
			return fmt.Errorf("--guard needs the company's admin key in ATTESTD_KEY or ATTESTD_KEY_FILE: %w", err)
		}
		if err != nil {
			return err
		}
	}
	s.Print("policies", fmt.Sprintf("%d of the starter set are in force; attestd policy list shows them", len(starter)))
	return nil
}
