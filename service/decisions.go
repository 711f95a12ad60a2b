package service

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"

	"attestd/chain"
	"attestd/chain/decision"
	"attestd/crypto/cred"
	"attestd/crypto/cred/details"
	"attestd/internal/bounded"
	"attestd/service/decide"
	"attestd/store"
)

// Decisions decides what agents ask for. Every door asks it, and none decides by itself.
type Decisions struct {
	Store *store.Store

	mu       sync.Mutex
	compiled *bounded.Map[string, *decide.Set] // by the hash of the set, whosever it is
}

// maxCompiled bounds the sets that are remembered compiled.
const maxCompiled = 1024

// set returns the policies of a company that are in force, ready to decide.
func (d *Decisions) set(ctx context.Context, by store.Caller) (*store.CedarSet, *decide.Set, error) {
	stored, err := d.Store.Cedar.Set(ctx, by)
	if err != nil {
		return nil, nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.compiled == nil {
		d.compiled = bounded.NewMap[string, *decide.Set](maxCompiled)
	}
	if set, is := d.compiled.Get(stored.SHA256); is {
		return stored, set, nil
	}
	set, err := decide.Compile(policiesOf(stored.Policies))
	if err != nil {
		return stored, nil, err
	}
	d.compiled.Put(stored.SHA256, set)
	return stored, set, nil
}

func policiesOf(stored []store.CedarPolicy) []decide.Policy {
	all := make([]decide.Policy, len(stored))
	for i := range stored {
		all[i] = decide.Policy{ID: stored[i].ID, Text: stored[i].Cedar}
	}
	return all
}

// Decide decides what a record of actions will be about, at the time of the caller. The context has
// what the door knows; groups and time are set here.
//
// What cannot be decided is denied. An error is one of the storage, without which nothing can be
// recorded either. ask says who may approve what is decided ask; nil of any other.
func (d *Decisions) Decide(ctx context.Context, by store.Caller, agentID, actionType string, payload []byte, c decision.Context) (_ decision.Decision, ask *decide.Ask, err error) {
	stored, set, err := d.set(ctx, by)
	if stored == nil {
		return decision.Decision{}, nil, err
	}
	if c.Groups, err = d.Store.Cedar.Groups(ctx, by, agentID); err != nil {
		return decision.Decision{}, nil, err
	}
	c.Time = chain.FormatTime(by.At)
	req := decide.Recorded(by.Company.ID, agentID, actionType, payload, c)
	made := set.Decide(req) // without a set it denies
	return decision.Decision{
		Verdict: made.Verdict, By: made.By, Errors: made.Errors, Code: made.Code, Context: c,
		Policies: stored.SHA256, Revision: stored.Revision,
	}, made.Ask, nil
}

// Any reports whether a company has a policy.
func (d *Decisions) Any(ctx context.Context, by store.Caller) (bool, error) {
	set, err := d.Store.Cedar.Set(ctx, by)
	return err == nil && len(set.Policies) > 0, err
}

// CedarPolicy is a policy of a company, as the API has it.
type CedarPolicy struct {
	PolicyID    string  `json:"policyId"`
	Cedar       string  `json:"cedar"`
	SHA256      string  `json:"sha256"`
	Description *string `json:"description,omitempty"`
	PutAt       string  `json:"putAt"`
	PutBy       string  `json:"putBy,omitempty"` // fingerprint of the credential
}

// CedarPolicies is the policies that are in force.
type CedarPolicies struct {
	Policies []CedarPolicy `json:"policies"`
	SHA256   string        `json:"sha256"` // of the set
	Revision int64         `json:"revision"`
}

func cedarPolicy(p *store.CedarPolicy) CedarPolicy {
	return CedarPolicy{p.ID, p.Cedar, p.SHA256(), p.Description, p.PutAt, p.MadeBy}
}

// PutPolicy puts a policy in the place of one with its ID. With force it may name what does not
// exist.
func (d *Decisions) PutPolicy(ctx context.Context, by store.Caller, id, cedar string, description *string, force bool) (CedarPolicy, error) {
	if err := decide.Check(decide.Policy{ID: id, Text: cedar}, force); err != nil {
		return CedarPolicy{}, policyError(err)
	}
	stored, err := d.Store.Cedar.Put(ctx, by, store.CedarPolicy{ID: id, Cedar: cedar, Description: description}, func(all []store.CedarPolicy) error {
		_, err := decide.Compile(policiesOf(all))
		return err
	})
	if err != nil {
		return CedarPolicy{}, policyError(err)
	}
	return cedarPolicy(&stored), nil
}

// policyError is the refusal of a policy.
func policyError(err error) error {
	var wrong *decide.PolicyError
	switch {
	case errors.As(err, &wrong) && wrong.OfID:
		return &Error{Kind: Invalid, Code: wrong.Code, Message: "Invalid field: policyId: " + wrong.Message, Pointer: "/policyId"}
	case errors.As(err, &wrong):
		return &Error{Kind: Invalid, Code: wrong.Code, Message: "Invalid field: cedar " + wrong.Message, Pointer: "/cedar", Line: wrong.Line, Column: wrong.Column}
	case errors.Is(err, decide.ErrLimit):
		return &Error{Kind: Conflict, Code: "POLICY_LIMIT", Message: decide.ErrLimit.Error()}
	}
	return err
}

// Policies returns the policies in force.
func (d *Decisions) Policies(ctx context.Context, by store.Caller) (CedarPolicies, error) {
	set, err := d.Store.Cedar.Set(ctx, by)
	if err != nil {
		return CedarPolicies{}, err
	}
	all := CedarPolicies{Policies: make([]CedarPolicy, len(set.Policies)), SHA256: set.SHA256, Revision: set.Revision}
	for i := range set.Policies {
		all.Policies[i] = cedarPolicy(&set.Policies[i])
	}
	return all, nil
}

// Policy returns one policy.
func (d *Decisions) Policy(ctx context.Context, by store.Caller, id string) (CedarPolicy, error) {
	all, err := d.Policies(ctx, by)
	if err != nil {
		return CedarPolicy{}, err
	}
	at := slices.IndexFunc(all.Policies, func(p CedarPolicy) bool { return p.PolicyID == id })
	if at < 0 {
		return CedarPolicy{}, noPolicy(id)
	}
	return all.Policies[at], nil
}

// DeletePolicy deletes a policy.
func (d *Decisions) DeletePolicy(ctx context.Context, by store.Caller, id string) error {
	err := d.Store.Cedar.Delete(ctx, by, id)
	if errors.Is(err, store.ErrNotFound) {
		return noPolicy(id)
	}
	return err
}

func noPolicy(id string) error {
	return &Error{Kind: NotFound, Message: "Policy not found: " + id}
}

// contextOf is the context of a decision about an attestation, of which delegation is the canonical
// DelegationInfo. The token of that is checked.
func contextOf(by store.Caller, item *Attestation, delegation []byte) (c decision.Context, err error) {
	c = decision.Context{Door: decide.DoorAttest, Folder: item.Folder, Signed: item.Statement != "", Scopes: strings.Fields(string(by.Scope))}
	limits := []details.Details{by.Details}
	if item.Delegation != "" {
		d, err := cred.ReadDelegation(item.Delegation)
		if err != nil {
			return c, err
		}
		limits = append(limits, d.Details)
	}
	limited(&c, limits...)
	return c, delegated(&c, delegation)
}

// limited puts authorization details into a context, each of which must cover the call.
func limited(c *decision.Context, limits ...details.Details) {
	for _, limit := range limits {
		if !limit.IsZero() {
			c.Details = append(c.Details, json.RawMessage(limit.String()))
		}
	}
}

// delegated puts a canonical DelegationInfo into a context; nil for none.
func delegated(c *decision.Context, delegation []byte) error {
	if delegation == nil {
		return nil
	}
	var d struct{ DelegationChain []string }
	err := json.Unmarshal(delegation, &d)
	c.Delegation = d.DelegationChain
	if len(d.DelegationChain) > 0 && !strings.HasPrefix(d.DelegationChain[0], "spiffe://") {
		c.Person = d.DelegationChain[0]
	}
	return err
}
