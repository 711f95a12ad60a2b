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
		return "", fmt.Errorf("the agent %s is not registered, and this credential cannot register it: set ATTESTD_KEY or ATTESTD_KEY_FILE to one with the role admin; a lost admin key is replaced on the server's machine: attestd recover-key --company ID", s.Agent)
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

// FirstRecord attests that the agent was set up, and reads the record back, which shows that the
// service accepts records of the agent and that they can be found there. Every kind of init ends
// with it, and fails with its error. writer is what the agent will record with, signer signs if it
// is not nil, and reader is what the user reads records with. With once, an earlier run's record of
// the last 30 days is read back, unless it is signed.
func (s Steps) FirstRecord(ctx context.Context, writer, reader *attestd.Client, signer *attestd.Identity, source string, once bool) error {
	key := attestd.NewIdempotencyKey()
	if once && signer == nil { // a statement says when it was made, and so is another one each time
		key = "init:" + s.Agent
	}
	made, err := s.attest(ctx, writer, signer, source, key)
	switch {
	case errors.Is(err, errRole):
		return fmt.Errorf("the agent %s has no key on this machine, and the API key here may not record: run attestd init for the agent, "+
			"name one that has a key with --agent, or set ATTESTD_KEY to a writer's (%w)", s.Agent, err)
	case err != nil:
		return fmt.Errorf("nothing can be recorded for the agent %s: %w", s.Agent, err)
	}
	for r, err := range reader.Records(ctx, attestd.Range{Log: attestd.Actions, From: made.Index}) {
		if err != nil {
			return fmt.Errorf("the record cannot be read back: %w", err)
		}
		if r.Index == made.Index && r.Hash == made.Hash {
			s.Print("record", fmt.Sprintf("%d at %s by %s, read back: %s", r.Index, r.Timestamp, s.Agent, r.Hash))
			return nil
		}
		break
	}
	return fmt.Errorf("%s has no record %d with the hash %s: it reports to another server or company than it reads from", reader.URL(), made.Index, made.Hash)
}

// attest attests that the agent was set up.
func (s Steps) attest(ctx context.Context, writer *attestd.Client, signer *attestd.Identity, source, key string) (_ attestd.Record, err error) {
	a := attestd.Attestation{
		AgentID: s.Agent, ActionType: "agent.watched", Payload: map[string]string{"source": source}, IdempotencyKey: key,
	}
	if signer != nil {
		if a, err = signer.Sign(ctx, a, attestd.Place{}); err != nil {
			return attestd.Record{}, err
		}
	}
	return writer.Attest(ctx, a)
}
