package setup

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"attestd/sdk/attestd"
)

// Steps set up an agent on the server so that its hooks can report. Each step is idempotent.
type Steps struct {
	Agent string
	Print func(what, how string) // prints one line for a step; what is one word
}

// errRole is the server's error for a valid credential whose role is too low.
var errRole = &attestd.Error{Code: "FORBIDDEN_ROLE"}

// Register registers the agent and returns its SPIFFE ID.
func (s Steps) Register(ctx context.Context, c *attestd.Client) (string, error) {
	found, err := c.Agent(ctx, s.Agent)
	if err == nil {
		how := "is registered"
		if found.DisabledAt != "" {
			how = "is registered but disabled: nothing can be recorded for it"
		}
		s.Print("agent", s.Agent+" "+how)
		return found.SPIFFEID, nil
	}
	if !errors.Is(err, &attestd.Error{Status: http.StatusNotFound}) {
		return "", err
	}
	made, err := c.RegisterAgent(ctx, attestd.NewAgent{AgentID: s.Agent})
	if errors.Is(err, errRole) {
		return "", fmt.Errorf("the agent %s is not registered, and this credential cannot register it: set ATTESTD_KEY or ATTESTD_KEY_FILE to one with the role admin", s.Agent)
	}
	if err == nil {
		s.Print("agent", s.Agent+" registered")
	}
	return made.SPIFFEID, err
}

// CreateCompany registers a company and returns its first API key.
func (s Steps) CreateCompany(ctx context.Context, c *attestd.Client, company string) (string, error) {
	made, err := c.CreateCompany(ctx, attestd.NewCompany{CompanyID: company})
	switch {
	case errors.Is(err, &attestd.Error{Status: http.StatusConflict}):
		return "", fmt.Errorf("the company %s already exists: set ATTESTD_KEY or ATTESTD_KEY_FILE to its admin key, or choose another ID with --company", company)
	case errors.Is(err, &attestd.Error{Code: "REGISTRATION_CLOSED"}), errors.Is(err, &attestd.Error{Status: http.StatusUnauthorized}):
		return "", errors.New("the server does not allow this caller to register a company: set ATTESTD_KEY or ATTESTD_KEY_FILE to an admin key")
	case err != nil:
		return "", err
	}
	if err := checkKey(made.APIKey); err != nil {
		return "", err
	}
	s.Print("company", company+" registered")
	s.Print("admin key", made.APIKey+"  (store it: it is shown only once)")
	return made.APIKey, nil
}

// CreateKey creates an API key: a reader, or a writer, which can also record as any agent.
func (s Steps) CreateKey(ctx context.Context, c *attestd.Client, role attestd.Role) (string, error) {
	key, err := c.CreateKey(ctx, attestd.NewCredential{Label: s.Agent + " hooks", Role: role})
	if errors.Is(err, errRole) {
		return "", errors.New("this credential cannot create an API key: set ATTESTD_KEY or ATTESTD_KEY_FILE to one with the role admin")
	}
	if err != nil {
		return "", err
	}
	return key.Key, checkKey(key.Key)
}

// FirstRecord attests that the agent was set up, which shows that the server accepts records. Its
// idempotency key makes one record in 30 days, and with an identity, which signs it, one for each
// key.
func (s Steps) FirstRecord(ctx context.Context, c *attestd.Client, signer *attestd.Identity) (err error) {
	a := attestd.Attestation{
		AgentID: s.Agent, ActionType: "agent.watched", Payload: map[string]string{"source": "attestd init"}, IdempotencyKey: "init:" + s.Agent,
	}
	if signer != nil {
		if a, err = signer.Sign(ctx, a, attestd.Place{}); err != nil {
			return err
		}
	}
	r, err := c.Attest(ctx, a)
	if signer != nil && errors.Is(err, &attestd.Error{Code: attestd.StatementReused}) {
		s.Print("record", "is there from an earlier run, signed by this key")
		return nil
	}
	if err == nil {
		s.Print("record", fmt.Sprintf("%d at %s, signed: %s", r.Index, r.Timestamp, r.Hash))
	}
	return err
}
