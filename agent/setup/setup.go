package setup

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"attestd/sdk/attestd"
)

// Steps are what the server must know of an agent before its hooks can report anything. Each is
// done only where it is not done yet.
type Steps struct {
	Agent string
	Say   func(what, how string) // one line for each step, what being a word
}

// errRole is what the server answers to a good credential of too low a role.
var errRole = &attestd.Error{Code: "FORBIDDEN_ROLE"}

// Register registers the agent.
func (s Steps) Register(ctx context.Context, c *attestd.Client) error {
	found, err := c.Agent(ctx, s.Agent)
	if err == nil {
		how := "is registered"
		if found.DisabledAt != "" {
			how = "is registered, and disabled: nothing can be recorded in its name"
		}
		s.Say("agent", s.Agent+" "+how)
		return nil
	}
	if !errors.Is(err, &attestd.Error{Status: http.StatusNotFound}) {
		return err
	}
	if _, err = c.RegisterAgent(ctx, attestd.NewAgent{AgentID: s.Agent}); errors.Is(err, errRole) {
		return fmt.Errorf("the agent %s is not registered, and the credential may not do that: set ATTESTD_KEY or ATTESTD_KEY_FILE to one of the role admin", s.Agent)
	}
	if err == nil {
		s.Say("agent", s.Agent+" registered")
	}
	return err
}

// Found registers a company on a server that has none of that name, and returns its first key.
func (s Steps) Found(ctx context.Context, c *attestd.Client, company string) (string, error) {
	made, err := c.CreateCompany(ctx, attestd.NewCompany{CompanyID: company})
	switch {
	case errors.Is(err, &attestd.Error{Status: http.StatusConflict}):
		return "", fmt.Errorf("the company %s is there already: set ATTESTD_KEY or ATTESTD_KEY_FILE to its admin key, or name another with --company", company)
	case errors.Is(err, &attestd.Error{Code: "REGISTRATION_CLOSED"}), errors.Is(err, &attestd.Error{Status: http.StatusUnauthorized}):
		return "", errors.New("the server registers no company for this caller: set ATTESTD_KEY or ATTESTD_KEY_FILE to an admin key")
	case err != nil:
		return "", err
	}
	if err := checkKey(made.APIKey); err != nil {
		return "", err
	}
	s.Say("company", company+" registered")
	s.Say("admin key", made.APIKey+"  (keep it: it is shown this once)")
	return made.APIKey, nil
}

// WriterKey makes a key that may record and read, and nothing else.
func (s Steps) WriterKey(ctx context.Context, c *attestd.Client) (string, error) {
	key, err := c.CreateKey(ctx, attestd.NewCredential{Label: s.Agent + " hooks", Role: attestd.Writer})
	if errors.Is(err, errRole) {
		return "", errors.New("the credential may not make another: set ATTESTD_KEY or ATTESTD_KEY_FILE to one of the role admin")
	}
	if err != nil {
		return "", err
	}
	return key.Key, checkKey(key.Key)
}

// FirstRecord shows that the hooks will get through: it attests that the agent was set up, once in
// 30 days.
func (s Steps) FirstRecord(ctx context.Context, c *attestd.Client) error {
	r, err := c.Attest(ctx, attestd.Attestation{
		AgentID: s.Agent, ActionType: "agent.watched", Payload: map[string]string{"source": "attestd init"}, IdempotencyKey: "init:" + s.Agent,
	})
	if err == nil {
		s.Say("record", fmt.Sprintf("%d of %s, signed: %s", r.Index, r.Timestamp, r.Hash))
	}
	return err
}
