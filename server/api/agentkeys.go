package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"attestd/chain"
	"attestd/server/httpapi"
	"attestd/service"
	"attestd/store"
)

// AgentKeys are the keys of agents, the enrolment tokens for them, and what must be signed.
type AgentKeys struct {
	Keys      *service.AgentKeys
	Decisions *service.Decisions
}

// Enrolling is the route that enrols a key.
func (s *AgentKeys) Enrolling() httpapi.Handler {
	return httpapi.Handler{Serve: s.enrolKey, Form: enrolForm}
}

type enrolKeyRequest struct {
	_         struct{}        `missing:"Missing or invalid field: jwk is required"`
	AgentID   string          `path:"agentId"`
	JWK       json.RawMessage `json:"jwk" must:"present"`
	Label     *string         `json:"label" must:"name"`
	ExpiresAt time.Time       `json:"expiresAt" must:"time"`
	// what the key before it has signed of it
	Endorsement string `json:"endorsement" must:"signed"`
	// in place of the header DPoP, where that has the proof of an access token
	Proof  string `json:"proof" must:"signed"`
	Header string `header:"DPoP"`
	*http.Request
}

// enrolKey is an addition to the specification: a public key of an agent, of which the caller
// proves possession.
func (s *AgentKeys) enrolKey(c *httpapi.Call) error {
	var r enrolKeyRequest
	if err := enrolForm.Read(c, &r); err != nil {
		return err
	}
	by, err := c.By(httpapi.Anybody)
	if err != nil {
		return err
	}
	if !r.ExpiresAt.IsZero() && !r.ExpiresAt.After(by.At) {
		return httpapi.Invalid("expiresAt", "must be in the future")
	}
	if r.Proof == "" && by.JKT == "" {
		r.Proof = r.Header
	}
	e := service.Enrolling{
		AgentID: r.AgentID, JWK: r.JWK, Label: r.Label, ExpiresAt: r.ExpiresAt,
		Proof: r.Proof, URL: c.OwnURL(), Endorsement: r.Endorsement,
	}
	if by.Role == store.Enrolling {
		hash := chain.Hash(c.Hash)
		e.Enrolment = &hash
	}
	k, err := s.Keys.Enrol(c.Context(), by, e)
	var nonce *service.NonceError
	if errors.As(err, &nonce) { // RFC 9449 §8: this proof accompanies no access token
		refused := &httpapi.Error{Status: http.StatusBadRequest, Code: "USE_DPOP_NONCE", Message: "Invalid header DPoP: " + nonce.Error()}
		err = refused.With("DPoP-Nonce", nonce.Nonce)
	}
	if err != nil {
		return err
	}
	return c.JSON(http.StatusCreated, enrolledKey{k, by.Company.Actions.Origin})
}

// enrolledKey is a key, and for which log it makes statements.
type enrolledKey struct {
	service.AgentKey
	Log string `json:"log"` // origin of the company's log of actions
}

var enrolForm = httpapi.FormOf[enrolKeyRequest]()

func (s *AgentKeys) List(ctx context.Context, by store.Caller, r agentRequest) (httpapi.List[service.AgentKey], error) {
	found, err := s.Keys.List(ctx, by, r.AgentID)
	return httpapi.List[service.AgentKey]{Name: "keys", Items: found, Log: by.Company.Actions.Origin}, err
}

type revokeAgentKeyRequest struct {
	AgentID    string    `path:"agentId"`
	Thumbprint string    `path:"thumbprint"`
	Reason     *string   `json:"reason" must:"text"`
	Since      time.Time `json:"since" must:"time"`
}

func (s *AgentKeys) Revoke(ctx context.Context, by store.Caller, r revokeAgentKeyRequest) (service.AgentKey, error) {
	return s.Keys.Revoke(ctx, by, r.AgentID, r.Thumbprint, store.Revocation{Reason: r.Reason, Since: r.Since})
}

type enrolmentRequest struct {
	AgentID   string  `path:"agentId"`
	ExpiresIn int     `json:"expiresIn" must:"number 1..86400" default:"600"`
	Label     *string `json:"label" must:"name"`
}

func (s *AgentKeys) CreateEnrolment(ctx context.Context, by store.Caller, r enrolmentRequest) (service.NewEnrolment, error) {
	return s.Keys.CreateEnrolment(ctx, by, r.AgentID, r.Label, time.Duration(r.ExpiresIn)*time.Second)
}

type agentPolicyRequest struct {
	AgentID string   `path:"agentId"`
	Attest  string   `json:"attest" must:"oneof any key"`
	Groups  []string `json:"groups" must:"texts"`
	DryRun  bool     `json:"dryRun" must:"flag"`
}

func (s *AgentKeys) SetAgentPolicy(ctx context.Context, by store.Caller, r agentPolicyRequest) (service.Policy, error) {
	switch {
	case r.Attest == "" && r.Groups == nil:
		return service.Policy{}, httpapi.Fail(http.StatusBadRequest, "Missing field: attest or groups is required")
	case r.DryRun && (r.Attest == "" || r.Groups != nil):
		return service.Policy{}, httpapi.Invalid("dryRun", "goes with attest alone")
	case r.DryRun:
		return s.Keys.TryPolicy(ctx, by, r.AgentID, r.Attest)
	}
	return s.Keys.SetPolicy(ctx, by, r.AgentID, store.AgentChange{Attest: r.Attest, Groups: r.Groups})
}

type companyPolicyRequest struct {
	Attest            string   `json:"attest" must:"oneof any key"`
	ExchangeAudiences []string `json:"exchangeAudiences" must:"texts"`
	Decisions         string   `json:"decisions" must:"oneof denied all"`
	Changes           string   `json:"changes" must:"oneof any people"`
	DryRun            bool     `json:"dryRun" must:"flag"`
}

// SetCompanyPolicy changes the members that the request names.
func (s *AgentKeys) SetCompanyPolicy(ctx context.Context, by store.Caller, r companyPolicyRequest) (service.Policy, error) {
	switch {
	case r.Attest == "" && r.ExchangeAudiences == nil && r.Decisions == "" && r.Changes == "":
		return service.Policy{}, httpapi.Fail(http.StatusBadRequest, "Missing field: attest, exchangeAudiences, decisions or changes is required")
	case r.DryRun && (r.Attest == "" || r.ExchangeAudiences != nil || r.Decisions != "" || r.Changes != ""):
		return service.Policy{}, httpapi.Invalid("dryRun", "goes with attest alone")
	case r.DryRun:
		return s.Keys.TryPolicy(ctx, by, "", r.Attest)
	}
	return s.Keys.SetCompanyPolicy(ctx, by, store.CompanyChange{Attest: r.Attest, ExchangeAudiences: r.ExchangeAudiences, Decisions: r.Decisions, Changes: r.Changes})
}
