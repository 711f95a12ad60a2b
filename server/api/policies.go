package api

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"

	"attestd/server/httpapi"
	"attestd/service"
	"attestd/store"
)

// Policies decide what agents may do.
type Policies struct{ Decisions *service.Decisions }

type putPolicyRequest struct {
	PolicyID    string  `path:"policyId"`
	Force       string  `query:"force" must:"oneof true false"`
	Cedar       string  `json:"cedar" must:"string"`
	Description *string `json:"description" must:"text"`
}

// Put puts a policy in the place of one with its ID.
func (s *Policies) Put(ctx context.Context, by store.Caller, r putPolicyRequest) (service.CedarPolicy, error) {
	return s.Decisions.PutPolicy(ctx, by, r.PolicyID, r.Cedar, r.Description, r.Force == "true")
}

// List returns the policies in force.
func (s *Policies) List(ctx context.Context, by store.Caller, _ struct{}) (service.CedarPolicies, error) {
	return s.Decisions.Policies(ctx, by)
}

type policyRequest struct {
	PolicyID string `path:"policyId"`
}

// Get returns one policy.
func (s *Policies) Get(ctx context.Context, by store.Caller, r policyRequest) (service.CedarPolicy, error) {
	return s.Decisions.Policy(ctx, by, r.PolicyID)
}

// Delete deletes a policy.
func (s *Policies) Delete(ctx context.Context, by store.Caller, r policyRequest) (deletion, error) {
	err := s.Decisions.DeletePolicy(ctx, by, r.PolicyID)
	return deletion{err == nil}, err
}

type tryPoliciesRequest struct {
	Policies json.RawMessage `json:"policies"` // an array of {policyId, cedar}
	Draft    json.RawMessage `json:"draft"`    // one of these
	Remove   []string        `json:"remove" must:"texts"`
	From     int             `json:"from" must:"number 0..1099511627775" default:"0"`
	To       int             `json:"to" must:"number 0..1099511627775" default:"1099511627775"`
	AgentID  string          `json:"agentId" must:"given"`
	Limit    int             `json:"limit" must:"number 1..10000" default:"1000"`
}

// Try decides what is on record again, by other policies, and changes nothing.
func (s *Policies) Try(ctx context.Context, by store.Caller, r tryPoliciesRequest) (service.Tried, error) {
	trial := service.Trial{Remove: r.Remove, From: int64(r.From), To: int64(r.To), AgentID: r.AgentID, Limit: r.Limit}
	if err := readPolicies("policies", r.Policies, &trial.Policies); err != nil {
		return service.Tried{}, err
	}
	if err := readPolicies("draft", r.Draft, &trial.Draft); err != nil {
		return service.Tried{}, err
	}
	return s.Decisions.Try(ctx, by, trial)
}

// readPolicies reads policies of a request, and refuses members that they do not have.
func readPolicies(name string, text json.RawMessage, into any) error {
	if len(text) == 0 {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return httpapi.Invalid(name, "must have policies of the form {\"policyId\":…,\"cedar\":…}: "+strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}
