package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"attestd/chain"
	"attestd/crypto/dpop"
	"attestd/crypto/jose"
	"attestd/crypto/statement"
	"attestd/internal/sleep"
	"attestd/store"
	"attestd/store/names"
)

// AgentKeys are the public keys of agents.
type AgentKeys struct {
	Store  *store.Store
	Nonces *Nonces

	sequences sequences
}

// AgentKey is a public key of an agent.
type AgentKey struct {
	Thumbprint string          `json:"thumbprint"` // RFC 7638
	AgentID    string          `json:"agentId"`
	Algorithm  string          `json:"alg"` // EdDSA or ES256
	Label      *string         `json:"label"`
	CreatedAt  string          `json:"createdAt"`
	ExpiresAt  *string         `json:"expiresAt"` // null for never
	RevokedAt  *string         `json:"revokedAt"` // null while it is not
	JWK        json.RawMessage `json:"jwk"`
}

func newAgentKey(k store.AgentKey) AgentKey {
	shown := AgentKey{Thumbprint: k.Thumbprint, AgentID: k.AgentID, Label: k.Label, CreatedAt: k.CreatedAt, JWK: k.JWK}
	if key, err := jose.ParseKey(k.JWK); err == nil {
		shown.Algorithm = key.Algorithm
	}
	if !k.ExpiresAt.IsZero() {
		at := chain.FormatTime(k.ExpiresAt)
		shown.ExpiresAt = &at
	}
	if k.RevokedAt != "" {
		shown.RevokedAt = &k.RevokedAt
	}
	return shown
}

// Enrolling is a key that is to become an agent's.
type Enrolling struct {
	AgentID   string
	JWK       json.RawMessage
	Label     *string
	ExpiresAt time.Time // zero for never
	Proof     string    // DPoP, of possession of the key
	URL       string    // to which it was sent
	// what the key before it has signed of it, a compact JWS; "" for nothing. An agent that has
	// signed in must have it.
	Endorsement string
	// hash of the enrolment token that was presented; nil where the caller is an admin
	Enrolment *chain.Hash
}

const invalidProof = "INVALID_DPOP_PROOF"

// Enrol adds a key of an agent, of which the caller proves possession (RFC 9449 §4.2). The proof is
// used up, whatever becomes of the key. The error may be a *NonceError.
func (a *AgentKeys) Enrol(ctx context.Context, by store.Caller, e Enrolling) (AgentKey, error) {
	key, err := jose.ParseKey(e.JWK)
	if err != nil {
		return AgentKey{}, &Error{Kind: Invalid, Message: "Invalid field: jwk " + err.Error(), Pointer: "/jwk"}
	}
	if e.Proof == "" {
		return AgentKey{}, &Error{Kind: Invalid, Code: invalidProof, Message: "The header DPoP is missing: it proves possession of the key (RFC 9449)"}
	}
	if err := a.useProof(ctx, e, key.Thumbprint, by.At); errors.Is(err, ErrInvalidProof) {
		return AgentKey{}, &Error{Kind: Invalid, Code: invalidProof, Message: "Invalid header DPoP: " + Reason(err, ErrInvalidProof)}
	} else if err != nil {
		return AgentKey{}, err
	}
	endorsement, err := a.checkEndorsement(ctx, by, e, key.Thumbprint)
	if err != nil {
		return AgentKey{}, err
	}
	k, err := a.Store.AgentKeys.Enrol(ctx, by, store.AgentKey{
		Thumbprint: key.Thumbprint, AgentID: e.AgentID, JWK: json.RawMessage(key.JWK()), Label: e.Label, ExpiresAt: e.ExpiresAt,
	}, e.Enrolment, endorsement)
	switch {
	case errors.Is(err, store.ErrEndorsementOld):
		return AgentKey{}, &Error{Kind: Invalid, Code: statement.CodeEndorsementInvalid, Pointer: "/endorsement",
			Message: "Invalid field: endorsement iat was 5 minutes ago when the key would have been recorded: sign another one"}
	case errors.Is(err, store.ErrExists):
		return AgentKey{}, &Error{Kind: Conflict, Code: "KEY_EXISTS", Message: "The company has had this key already; make another one"}
	case errors.Is(err, store.ErrBadEnrolment):
		return AgentKey{}, enrolmentOfAnother
	case errors.Is(err, store.ErrTooMany):
		return AgentKey{}, &Error{Kind: Conflict, Code: "TOO_MANY", Message: fmt.Sprintf("The agent has %d live keys, the most that there may be: revoke one first", store.MaxAgentKeys)}
	case err != nil:
		return AgentKey{}, agentError(e.AgentID, err)
	}
	return newAgentKey(k), nil
}

// useProof checks the proof of possession of a key and uses it up: it counts once, for one company.
// The error joins ErrInvalidProof, or is a *NonceError.
func (a *AgentKeys) useProof(ctx context.Context, e Enrolling, thumbprint string, now time.Time) error {
	proof, err := a.Nonces.checkProof(ctx, e.Proof, dpop.Request{Method: "POST", URL: e.URL}, thumbprint, now)
	if err != nil {
		return err
	}
	err = a.Store.Credentials.Use(ctx, UsedProof(&proof), now)
	if errors.Is(err, store.ErrUsed) {
		err = errProofUsed
	}
	return err
}

// MayEnrol says whether the holder of an enrolment token may use it: its agent is enabled.
func (a *AgentKeys) MayEnrol(ctx context.Context, by store.Caller) error {
	return agentError(by.Agent, a.Store.Agents.Check(ctx, by, by.Agent))
}

// checkEndorsement requires that an endorsement is by a live key of the agent, of the key that is
// enrolled. It returns nil where there is none, and none is needed.
func (a *AgentKeys) checkEndorsement(ctx context.Context, by store.Caller, e Enrolling, thumbprint string) (*store.Endorsement, error) {
	if e.Endorsement == "" {
		if by.Role == store.ActsAsAgent {
			return nil, &Error{Kind: Invalid, Code: "ENDORSEMENT_REQUIRED", Pointer: "/endorsement",
				Message: "Missing field: endorsement is required of an agent that enrols its next key: it signs for it with the present one"}
		}
		return nil, nil
	}
	invalid := func(why string) error {
		return &Error{Kind: Invalid, Code: statement.CodeEndorsementInvalid, Message: "Invalid field: " + why, Pointer: "/endorsement"}
	}
	stmt, err := statement.ParseEndorsement(e.Endorsement)
	if err != nil {
		return nil, invalid(err.Error())
	}
	key, err := a.live(ctx, by, e.AgentID, stmt.KeyID)
	if errors.Is(err, store.ErrNotFound) || err == nil && by.Key != "" && stmt.KeyID != by.Key {
		return nil, invalid("endorsement is not by the live key of the agent that it has signed in with")
	}
	if err != nil {
		return nil, err
	}
	issuer := by.Company.Issuer
	want := statement.EndorsementClaims{Issuer: issuer.AgentID(e.AgentID), Audience: issuer.CompanyID(), Next: thumbprint}
	if err := stmt.Check(key.Public, want, by.At); err != nil {
		return nil, invalid(err.Error())
	}
	if err := stmt.CheckLife(key.Since, key.ExpiresAt); err != nil {
		return nil, invalid(err.Error())
	}
	return &store.Endorsement{Compact: e.Endorsement, Until: time.Unix(stmt.IssuedAt, 0).Add(statement.MaxEndorsementAge)}, nil
}

var enrolmentOfAnother = &Error{Kind: Forbidden, Code: "ENROLMENT_INVALID", Message: "The enrolment token is another agent's, was spent or has ended; ask for a new one"}

// List yields the keys of an agent in the order of their enrolment, revoked ones too.
func (a *AgentKeys) List(ctx context.Context, by store.Caller, agentID string) (iter.Seq2[AgentKey, error], error) {
	if _, err := a.Store.Agents.Get(ctx, by, agentID); err != nil {
		return nil, agentError(agentID, err)
	}
	return Map(a.Store.AgentKeys.List(ctx, by, agentID), newAgentKey), nil
}

// Revoke revokes a key of an agent for good. What r says is in the control record, and every
// checker repeats it of what the key has signed.
func (a *AgentKeys) Revoke(ctx context.Context, by store.Caller, agentID, thumbprint string, r store.Revocation) (AgentKey, error) {
	invalid := func(why string) error {
		return &Error{Kind: Invalid, Message: "Invalid field: since " + why, Pointer: "/since"}
	}
	if r.Since.After(by.At) {
		return AgentKey{}, invalid("must not be in the future: from then on the key was in other hands")
	}
	k, err := a.Store.AgentKeys.Revoke(ctx, by, agentID, thumbprint, r)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return AgentKey{}, refuse(NotFound, "Key not found: the agent has none with that thumbprint")
	case errors.Is(err, store.ErrSinceBefore):
		return AgentKey{}, invalid("must not be before the key was enrolled: without since, the revocation does not say when it was in other hands")
	case errors.Is(err, store.ErrSinceLater):
		return AgentKey{}, &Error{Kind: Conflict, Code: "SINCE_RECORDED", Pointer: "/since",
			Message: "The revocation of the key says an earlier since already, and what is recorded is not taken back"}
	}
	return newAgentKey(k), err
}

// NewEnrolment is a token with which an agent enrols one key. It is shown once.
type NewEnrolment struct {
	Token     string `json:"token"`
	ExpiresAt string `json:"expiresAt"`
}

// CreateEnrolment makes a token with which an agent enrols one key.
func (a *AgentKeys) CreateEnrolment(ctx context.Context, by store.Caller, agentID string, label *string, lifetime time.Duration) (NewEnrolment, error) {
	expires := by.At.Add(lifetime)
	token, err := a.Store.AgentKeys.CreateEnrolment(ctx, by, agentID, label, expires)
	return NewEnrolment{token, chain.FormatTime(expires)}, agentError(agentID, err)
}

// maxClockGap is how far the clocks of two servers may be apart for a key that one has just
// enrolled to be used at the other.
const maxClockGap = 10 * time.Second

// live returns a key of an agent that counts now; store.ErrNotFound. Where the clock of the server
// that has enrolled it is ahead, live waits: a checker refuses a record that is older than its key.
func (a *AgentKeys) live(ctx context.Context, by store.Caller, agentID, thumbprint string) (k store.AgentKey, err error) {
	if k, err = a.Store.AgentKeys.Live(ctx, by, agentID, thumbprint); err != nil {
		return k, err
	}
	gap := time.Until(k.Since)
	if gap > maxClockGap {
		return k, fmt.Errorf("key %s was enrolled by a server whose clock is %s ahead: %w", thumbprint, gap, store.ErrUnavailable)
	}
	return k, sleep.For(ctx, gap)
}

// mayDoWithout refuses what no key of the agent has signed, where the policy demands that one has.
func (a *AgentKeys) mayDoWithout(ctx context.Context, by store.Caller, agentID string) error {
	demanded, err := a.Store.Policies.DemandsKey(ctx, by, agentID)
	if err == nil && demanded {
		err = &Error{Kind: Forbidden, Code: "AGENT_KEY_REQUIRED", Message: "In the name of this agent is recorded only what one of its keys has signed: send a statement"}
	}
	return err
}

// recordSession makes sure that the session of a statement is listed, and is of this key alone.
func (a *AgentKeys) recordSession(ctx context.Context, by store.Caller, agentID string, s *statement.Statement) error {
	return sessionError(a.Store.Sessions.Note(ctx, by, names.Session{AgentID: agentID, Key: s.KeyID, ID: s.Session}))
}

// sessionError is the refusal of a sid that another key of the agent has used.
func sessionError(err error) error {
	if errors.Is(err, store.ErrOtherKey) {
		return &Error{Kind: Conflict, Code: statement.CodeReused, Pointer: "/statement",
			Message: "Another key of the agent has used this sid: a run that goes on under the next key is a new session, whose first statement has continues"}
	}
	return err
}
