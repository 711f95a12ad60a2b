package service

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"attestd/crypto/cred"
	"attestd/store"
)

// Agents are those of companies.
type Agents struct {
	Store *store.Store
	Most  func() int // how many a company may have
}

// Agent is one that is registered.
type Agent struct {
	AgentID      string          `json:"agentId"`
	SPIFFEID     string          `json:"spiffeId"`
	CompanyID    string          `json:"companyId"`
	RegisteredAt string          `json:"registeredAt"`
	DisabledAt   string          `json:"disabledAt,omitempty"`
	Metadata     json.RawMessage `json:"metadata,omitempty"`
	// "" where Metadata is what was sent
	MetadataAsSent string `json:"metadataAsSent,omitempty"`
}

func newAgent(by store.Caller, a store.Agent) Agent {
	return Agent{
		a.ID, by.Company.Issuer.AgentID(a.ID), by.Company.ID, a.RegisteredAt, a.DisabledAt, a.Metadata, MetadataAsSent(a.Metadata),
	}
}

// MetadataAsSent returns metadata as a text where an answer spells them in another way: an encoder
// leaves out the space between tokens, and the control log has the hash of the text that was sent.
// Elsewhere it returns "".
func MetadataAsSent(metadata json.RawMessage) string {
	var compact bytes.Buffer
	if json.Compact(&compact, metadata) != nil || bytes.Equal(compact.Bytes(), metadata) {
		return ""
	}
	return string(metadata)
}

// RegisteredAgent is one that was just registered, with an SVID.
type RegisteredAgent struct {
	AgentID      string `json:"agentId"`
	SPIFFEID     string `json:"spiffeId"`
	SVID         string `json:"svid"`
	RegisteredAt string `json:"registeredAt"`
}

// Register registers an agent, which must be new where that is demanded, or replaces the metadata
// and time of one that is registered.
func (a *Agents) Register(ctx context.Context, by store.Caller, id string, metadata json.RawMessage, mustBeNew bool) (RegisteredAgent, error) {
	if _, err := issuerFor(by); err != nil {
		return RegisteredAgent{}, err
	}
	most := a.Most()
	agent, err := a.Store.Agents.Register(ctx, by, id, metadata, store.AgentBounds{New: mustBeNew, Most: most})
	switch {
	case errors.Is(err, store.ErrExists):
		return RegisteredAgent{}, refuse(Exists, "Agent is registered already: "+id)
	case errors.Is(err, store.ErrTooMany):
		return RegisteredAgent{}, TooMany("agents", most)
	case err != nil:
		return RegisteredAgent{}, agentError(id, err)
	}
	svid, err := newSVID(by, id)
	return RegisteredAgent{svid.AgentID, svid.SPIFFEID, svid.SVID, agent.RegisteredAt}, err
}

// TooMany refuses another one of something of which the company has as many as it may.
func TooMany(what string, most int) error {
	return &Error{Kind: Conflict, Code: "TOO_MANY", Message: fmt.Sprintf("The company has %d %s, the most that this server allows", most, what)}
}

// Get returns an agent.
func (a *Agents) Get(ctx context.Context, by store.Caller, id string) (Agent, error) {
	agent, err := a.Store.Agents.Get(ctx, by, id)
	return newAgent(by, agent), agentError(id, err)
}

// AgentSVID is a fresh SVID of an agent.
type AgentSVID struct {
	AgentID  string `json:"agentId"`
	SPIFFEID string `json:"spiffeId"`
	SVID     string `json:"svid"`
	// of one that is for an audience of the caller's alone
	ExpiresAt string `json:"expiresAt,omitempty"`
}

func newSVID(by store.Caller, id string) (AgentSVID, error) {
	issuer, err := issuerFor(by)
	if err != nil {
		return AgentSVID{}, err
	}
	spiffeID := issuer.AgentID(id)
	return AgentSVID{AgentID: id, SPIFFEID: spiffeID, SVID: issuer.SVID(spiffeID, by.At)}, nil
}

// SVID issues an SVID to an agent.
func (a *Agents) SVID(ctx context.Context, by store.Caller, id string) (AgentSVID, error) {
	if err := a.Store.Tables.Changeable(ctx, by); err != nil {
		return AgentSVID{}, err
	}
	if err := a.Check(ctx, by, id); err != nil {
		return AgentSVID{}, err
	}
	return newSVID(by, id)
}

// DisabledAgent is one that was disabled, with the number of passports that were revoked with it.
type DisabledAgent struct {
	AgentID          string `json:"agentId"`
	DisabledAt       string `json:"disabledAt"`
	RevokedPassports int64  `json:"revokedPassports"`
}

// Disable disables an agent: from its answer on, nothing is issued to the agent and nothing
// recorded in its name.
func (a *Agents) Disable(ctx context.Context, by store.Caller, id string) (DisabledAgent, error) {
	agent, revoked, err := a.Store.Agents.Disable(ctx, by, id)
	return DisabledAgent{agent.ID, agent.DisabledAt, revoked}, agentError(id, err)
}

// Enable enables an agent; what was revoked stays revoked.
func (a *Agents) Enable(ctx context.Context, by store.Caller, id string) (Agent, error) {
	agent, err := a.Store.Agents.Enable(ctx, by, id)
	return newAgent(by, agent), agentError(id, err)
}

// List yields the agents that a filter means, after the given ID, ordered by ID; total is how many
// the filter means.
func (a *Agents) List(ctx context.Context, by store.Caller, f store.AgentFilter, after string) (found iter.Seq2[Agent, error], total int64, err error) {
	if total, err = a.Store.Agents.Count(ctx, by, f); err != nil {
		return nil, 0, err
	}
	return Map(a.Store.Agents.List(ctx, by, f, after), func(a store.Agent) Agent { return newAgent(by, a) }), total, nil
}

// Check refuses what is asked of an agent that is not registered, or disabled.
func (a *Agents) Check(ctx context.Context, by store.Caller, id string) error {
	return agentError(id, a.Store.Agents.Check(ctx, by, id))
}

// MayAct refuses what is done in the name of an agent that is disabled. The agent need not be
// registered.
func (a *Agents) MayAct(ctx context.Context, by store.Caller, id string) error {
	err := a.Store.Agents.Check(ctx, by, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return agentError(id, err)
}

// MayDelegate refuses a chain of principals in which any agent of the company is disabled: what it
// has passed on ends with it.
func (a *Agents) MayDelegate(ctx context.Context, by store.Caller, principals []string) error {
	for _, id := range principals {
		if agent, ok := by.Company.Issuer.OwnAgent(id); ok {
			if err := a.MayAct(ctx, by, agent); err != nil {
				return err
			}
		}
	}
	return nil
}

// agentError refuses what is asked of an agent that is not registered, or disabled; any other error
// stays what it is.
func agentError(id string, err error) error {
	switch {
	case errors.Is(err, store.ErrNotFound):
		return refuse(NotFound, "Agent not found: "+id)
	case errors.Is(err, store.ErrDisabled):
		return &Error{Kind: Forbidden, Code: "AGENT_DISABLED", Message: "Agent is disabled: " + id}
	}
	return err
}

// Whatever is issued to a caller ends with the caller. Two ends count: that of the credential that
// was presented, for tokens that only additions to the specification issue; and that of its holder
// (see [store.Caller]), for the kinds whose hour the specification fixes. An access token of an
// OAuth client is worth what the client is.

// endOf returns when a token ends that is issued to a caller for a lifetime at most, in whole
// seconds: with the caller's credential, if that is earlier.
func endOf(by store.Caller, lifetime time.Duration) (time.Time, error) {
	end := by.At.Truncate(time.Second).Add(lifetime)
	if !by.Expires.IsZero() && by.Expires.Before(end) {
		end = by.Expires.Truncate(time.Second)
	}
	if !end.After(by.At) {
		return end, ErrCredentialEnds
	}
	return end, nil
}

// issuerFor returns the issuer of what the specification has issued to a caller: SVIDs, delegations
// and passports. They end with the holder of the caller's credential, if that is earlier.
func issuerFor(by store.Caller) (*cred.Issuer, error) {
	if !by.HolderExpires.IsZero() && by.HolderExpires.Unix() <= by.At.Unix() {
		return nil, ErrCredentialEnds
	}
	return by.Company.Issuer.Until(by.HolderExpires).Limited(by.Details), nil
}

// ErrCredentialEnds reports a credential that ends within the second. What it asks for would have
// ended as soon as it is there, since the times of tokens are whole seconds.
var ErrCredentialEnds = errors.New("the credential ends within a second, and so would what it asks for")

// CompanySVID issues an SVID to the caller's company.
func (a *Agents) CompanySVID(by store.Caller) (string, error) {
	issuer, err := issuerFor(by)
	if err != nil {
		return "", err
	}
	return issuer.SVID(issuer.CompanyID(), by.At), nil
}

// Certified returns the caller that is the agent of a SPIFFE ID, which a certificate has shown. It
// returns store.ErrNotFound for an ID of another trust domain, or of no agent, and
// store.ErrDisabled.
func (a *Agents) Certified(ctx context.Context, id string, expires, now time.Time) (store.Caller, error) {
	companyID, agentID, ok := a.Store.Domain().SplitAgentID(id)
	if !ok {
		return store.Caller{}, store.ErrNotFound
	}
	company, err := a.Store.Companies.Get(ctx, companyID)
	if err != nil {
		return store.Caller{}, err
	}
	by := store.Caller{
		Company: company, Credential: "x509-svid:" + agentID, Role: store.ActsAsAgent, Agent: agentID, Expires: expires, HolderExpires: expires, At: now,
	}
	if err := a.Store.Agents.Check(ctx, by, agentID); err != nil {
		return store.Caller{}, err
	}
	return by, nil
}
