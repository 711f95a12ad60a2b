package service

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"attestd/crypto/cred"
	"attestd/crypto/idtoken"
	"attestd/store"
)

// IsIdentityAssertion reports whether a token says that it is an identity assertion of a person
// (ID-JAG), which a client presents that must show who it is. Nothing of it is checked.
func IsIdentityAssertion(compact string) bool { return idtoken.IsIdentity(compact) }

// parse reads what is presented; person is nil for a workload.
func (in Federating) parse() (said *idtoken.Token, person *idtoken.Identity, err error) {
	if !idtoken.IsIdentity(in.Assertion) {
		said, err = idtoken.Parse(in.Assertion)
		return said, nil, err
	}
	if person, err = idtoken.ParseIdentity(in.Assertion); err != nil {
		return nil, nil, err
	}
	return person.Token, person, nil
}

// fits requires that an identity assertion is for the issuer of the company, for the client of the
// company that presents it, and for nothing that its token is not good for.
func (in Federating) fits(by store.Caller, person *idtoken.Identity) error {
	ours := in.Issuers + by.Company.ID
	foreign := func(resource string) bool {
		return resource != ours && resource != strings.TrimSuffix(in.Issuers, "/o/")
	}
	why := ""
	switch {
	case person.Audience != ours:
		why = "the assertion must have the issuer of the company as aud"
	case in.Client.Client == "" || in.Client.Company == nil || in.Client.Company.ID != by.Company.ID:
		why = "the client that presents the assertion is not of the company that it is for"
	case in.Client.Client != person.ClientID:
		why = "the assertion is for another client: its client_id is not the client that presents it"
	case person.Scope != nil && !slices.Contains(strings.Split(*person.Scope, " "), string(store.ActsAsAgent)):
		why = "the assertion has a scope without agent, which is all that its token is good for"
	case slices.ContainsFunc(person.Resources, foreign):
		why = "the assertion is for another resource than this service"
	default:
		return nil
	}
	return refusedGrant(errors.New(why))
}

// personDelegation is the DelegationInfo of what an agent does for a person. Its tokenId is the jti
// of the assertion, by which the identity provider knows it.
func personDelegation(by store.Caller, person *idtoken.Identity, agentID string) string {
	chain := []string{person.Issuer + "#" + person.Subject, by.Company.Issuer.AgentID(agentID)}
	return string(cred.NewDelegation(chain, person.ID, "").Canonical())
}

// delegationOf reads the DelegationInfo of the person for whom a caller acts.
func delegationOf(by store.Caller) (d cred.Delegation, err error) {
	err = json.Unmarshal([]byte(by.Delegation), &d)
	return d, err
}
