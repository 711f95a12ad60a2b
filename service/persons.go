package service

import (
	"encoding/json"

	"attestd/crypto/cred"
	"attestd/crypto/idtoken"
	"attestd/store"
)

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

// delegationUnverified is the DelegationInfo that the record will have: of a token that is not
// checked yet, or of the person for whom the caller acts. ok is false where there is none, and
// where none can be made of the token, which is refused later.
func delegationUnverified(by store.Caller, token string) (d cred.Delegation, ok bool) {
	if token != "" {
		d, err := cred.ReadDelegation(token)
		return d, err == nil
	}
	if by.Delegation == "" {
		return d, false
	}
	d, err := delegationOf(by)
	return d, err == nil
}
