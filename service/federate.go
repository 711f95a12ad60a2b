package service

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"attestd/crypto/cred/details"
	"attestd/crypto/dpop"
	"attestd/crypto/idtoken"
	"attestd/service/federation"
	"attestd/store"
)

// Federating is what a workload presents to become its agent (RFC 7523 §2.1).
type Federating struct {
	Assertion   string
	Scope       string // "" or what an agent has
	Details     details.Details
	Proof       string // DPoP: the token is bound to its key; "" for a bearer token
	Method, URL string // of the request, for the proof
	// for which the token is asked, and the names of this API as a resource for a company, which
	// alone are taken
	Resources []string
	Own       func(companyID string) []string

	CompanyID string // "" where the audience of the assertion says: one of our issuers
	// what the issuer of each of our companies begins with; "" where we do not know our name, and
	// then nothing counts that is for one of them
	Issuers string

	// who presents an identity assertion of a person, and what counts once of how it has shown that
	Client store.Caller
	Once   []store.UsedProof
}

var (
	// ErrInvalidGrant reports that an assertion is refused. The reason, its text, names the check.
	ErrInvalidGrant = errors.New("invalid_grant")
	// ErrKeysPending reports that the keys of its issuer, or of the client, are being fetched.
	ErrKeysPending = errors.New("keys pending")
)

func refusedGrant(why error) error { return errors.Join(ErrInvalidGrant, why) }

// Federate issues an access token to a workload that presents a token of an issuer that the company
// trusts, or to a client that presents such an issuer's identity assertion of a person. The
// token is the agent's that a rule names, and ends no later than what was presented. An error
// is ErrInvalidGrant, ErrInvalidScope, ErrInvalidTarget, ErrInvalidProof, *NonceError or
// ErrKeysPending where the other side is at fault.
func (s *Federations) Federate(ctx context.Context, in Federating, now time.Time) (Token, error) {
	token, company, err := s.federate(ctx, in, now)
	if errors.Is(err, ErrInvalidGrant) {
		s.Refusals.Count(ctx, company, in.CompanyID, store.RefusedFederation, now)
	}
	return token, err
}

// federate is Federate, and returns the company as soon as that is known.
func (s *Federations) federate(ctx context.Context, in Federating, now time.Time) (token Token, company *store.Company, err error) {
	idt, person, err := in.parse()
	if err != nil {
		return Token{}, nil, refusedGrant(err)
	}
	if in.Scope != "" {
		var ok bool
		if token.Scope, ok = store.ParseScope(in.Scope, store.ActsAsAgent); !ok {
			return Token{}, nil, ErrInvalidScope
		}
	}
	token.Details = in.Details
	if person != nil {
		var ok bool
		if token.Details, ok = details.Within(in.Details, person.Details); !ok {
			return Token{}, nil, ErrInvalidDetails
		}
	}
	by, trusted, err := s.trusted(ctx, in, idt, now)
	if err != nil {
		return Token{}, by.Company, err
	}
	if len(in.Resources) > 0 && (boundResources(in.Resources) != nil || !OnlyOf(in.Own(by.Company.ID), in.Resources)) {
		return Token{}, by.Company, ErrInvalidTarget
	}
	if person != nil {
		if in.Issuers == "" {
			return Token{}, by.Company, refusedGrant(ErrNoName)
		}
		if err := in.fits(by, person); err != nil {
			return Token{}, by.Company, err
		}
	}
	grant, err := s.grantOf(ctx, by, trusted, idt, person != nil)
	if err != nil {
		return Token{}, by.Company, err
	}
	token.Bound, token.Ends = in.Proof != "", now.Add(time.Duration(grant.TTL)*time.Second)
	if idt.Ends.Before(token.Ends) {
		token.Ends = idt.Ends
	}
	use := store.Federated{Federation: trusted, Rule: grant.Rule, Subject: idt.Subject, AgentID: grant.AgentID, Details: token.Details, Ends: token.Ends}
	if person != nil {
		use.Client, use.Delegation = in.Client.Client, personDelegation(by, person, grant.AgentID)
		if !in.Client.Expires.IsZero() && in.Client.Expires.Before(use.Ends) {
			use.Ends = in.Client.Expires
		}
		use.Proofs = append(use.Proofs, in.Once...)
		token.Ends = use.Ends
	}
	if idt.ID != "" {
		use.Proofs = append(use.Proofs, store.UsedAssertion(by, idt.Issuer, idt.ID, idt.Ends))
	}
	once := slices.Clone(use.Proofs) // without the DPoP proof
	if in.Proof != "" {
		proof, err := s.Nonces.checkProof(ctx, in.Proof, dpop.Request{Method: in.Method, URL: in.URL}, "", now)
		if err != nil {
			return Token{}, by.Company, err
		}
		use.JKT, use.Proofs = proof.Key.Thumbprint, append(use.Proofs, UsedProof(&proof))
	}
	if person != nil && person.JKT != "" && person.JKT != use.JKT {
		return Token{}, by.Company, refusedGrant(errors.New("the assertion is bound to a key: send a DPoP proof of that"))
	}
	if grant.Register {
		if err := s.register(ctx, by, grant.AgentID); err != nil {
			return Token{}, by.Company, err
		}
	}
	token.Text, err = s.Store.Federations.IssueFederated(ctx, by, use, s.MostSubjects())
	if errors.Is(err, store.ErrUsed) {
		return token, by.Company, replayed(err, once, refusedGrant(errors.New("the assertion was used before")))
	}
	return token, by.Company, issueError(err)
}

// trusted finds the federation that an assertion is for. Nothing of the assertion is verified yet.
func (s *Federations) trusted(ctx context.Context, in Federating, idt *idtoken.Token, now time.Time) (by store.Caller, f store.Federation, err error) {
	id := in.CompanyID
	if id == "" {
		if in.Issuers == "" {
			return by, f, refusedGrant(ErrNoName)
		}
		isOwn := false
		if id, isOwn = strings.CutPrefix(idt.Audience, in.Issuers); !isOwn {
			return by, f, refusedGrant(errors.New("the assertion must have the issuer of the company, " + in.Issuers +
				"{companyId}, as aud; or send it to the token endpoint of the company"))
		}
	}
	unknown := refusedGrant(errors.New("the assertion is of an issuer that the company does not trust"))
	company, err := s.Store.Companies.Get(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		err = unknown
	}
	if err != nil {
		return by, f, err
	}
	by = store.Caller{Company: company, Role: store.ActsAsAgent, At: now}
	found, err := s.Store.Federations.Trusting(ctx, by, idt.Issuer)
	if errors.Is(err, store.ErrNotFound) {
		err = unknown
	}
	if err != nil {
		return by, f, err
	}
	for _, f := range found {
		if f.Audience == idt.Audience {
			by.Credential = "federation:" + f.Name
			return by, f, nil
		}
	}
	return by, f, refusedGrant(errors.New("the assertion must have the audience of the federation as aud"))
}

// grantOf verifies an assertion and returns what the rules give to it.
func (s *Federations) grantOf(ctx context.Context, by store.Caller, f store.Federation, idt *idtoken.Token, person bool) (federation.Grant, error) {
	if err := s.verify(ctx, by, f, idt); err != nil {
		return federation.Grant{}, err
	}
	rules, err := s.rules.of(f.Rules)
	if err != nil {
		return federation.Grant{}, err // they were checked when the federation was made
	}
	grant, err := rules.Match(idt.Claims, person)
	if err != nil {
		return federation.Grant{}, refusedGrant(err)
	}
	return grant, nil
}

// verify checks an assertion with the keys of its issuer.
func (s *Federations) verify(ctx context.Context, by store.Caller, f store.Federation, idt *idtoken.Token) error {
	check := func(set *idtoken.KeySet) error {
		return idt.Check(set, idtoken.Wanted{Issuer: f.Issuer, Audience: f.Audience}, by.At)
	}
	if f.JWKS == "" {
		return keysError(s.Sets.Check(ctx, by.Company.Chain, sourceOf(f), check), ErrInvalidGrant, "the assertion")
	}
	set, err := s.pinned.of(f.JWKS)
	if err != nil {
		return err
	}
	return keysError(check(set), ErrInvalidGrant, "the assertion")
}

// register registers the agent of a rule that says so, where it is not.
func (s *Federations) register(ctx context.Context, by store.Caller, agentID string) error {
	err := s.Store.Agents.Check(ctx, by, agentID)
	if !errors.Is(err, store.ErrNotFound) {
		return issueError(err)
	}
	_, err = s.Store.Agents.Register(ctx, by, agentID, nil, store.AgentBounds{New: true, Most: s.Agents.Most()})
	switch {
	case errors.Is(err, store.ErrExists): // another request was faster
		return nil
	case errors.Is(err, store.ErrTooMany):
		return refusedGrant(errors.New("the rule's agent cannot be registered: the company has as many agents as it may"))
	}
	return err
}

// issueError says of an error of the store what is wrong with the assertion.
func issueError(err error) error {
	switch {
	case errors.Is(err, store.ErrDisabled):
		return refusedGrant(errors.New("the rule's agent is disabled"))
	case errors.Is(err, store.ErrNotFound):
		return refusedGrant(errors.New("the rule's agent is not registered, and the rule does not say register"))
	case errors.Is(err, store.ErrTooMany):
		return refusedGrant(errors.New("the rule has let in as many subjects today as it may (--max-subjects); those go on, others tomorrow"))
	case errors.Is(err, store.ErrNoFederation):
		return refusedGrant(errors.New("the assertion is of an issuer that the company does not trust"))
	}
	return err
}

// IsIdentityAssertion reports whether a token says that it is an identity assertion of a person
// (ID-JAG), which a client presents that must show who it is. Nothing of it is checked.
func IsIdentityAssertion(compact string) bool { return idtoken.IsIdentity(compact) }

// parse reads what is presented; person is nil for a workload.
func (in Federating) parse() (idt *idtoken.Token, person *idtoken.Identity, err error) {
	if !idtoken.IsIdentity(in.Assertion) {
		idt, err = idtoken.Parse(in.Assertion)
		return idt, nil, err
	}
	if person, err = idtoken.ParseIdentity(in.Assertion); err != nil {
		return nil, nil, err
	}
	return person.Token, person, nil
}

// fits requires that an identity assertion is for the issuer of the company, for the client of the
// company that presents it, and for nothing that its token is not good for.
func (in Federating) fits(by store.Caller, person *idtoken.Identity) error {
	own := in.Issuers + by.Company.ID
	isForeign := func(resource string) bool {
		return resource != own && resource != strings.TrimSuffix(in.Issuers, "/o/")
	}
	why := ""
	switch {
	case person.Audience != own:
		why = "the assertion must have the issuer of the company as aud"
	case in.Client.Client == "" || in.Client.Company == nil || in.Client.Company.ID != by.Company.ID:
		why = "the client that presents the assertion is not of the company that it is for"
	case in.Client.Client != person.ClientID:
		why = "the assertion is for another client: its client_id is not the client that presents it"
	case person.Scope != nil && !slices.Contains(strings.Split(*person.Scope, " "), string(store.ActsAsAgent)):
		why = "the assertion has a scope without agent, which is all that its token is good for"
	case slices.ContainsFunc(person.Resources, isForeign):
		why = "the assertion is for another resource than this service"
	default:
		return nil
	}
	return refusedGrant(errors.New(why))
}
