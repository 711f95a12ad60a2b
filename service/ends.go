package service

import (
	"errors"
	"time"

	"attestd/crypto/cred"
	"attestd/store"
)

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
	return by.Company.Issuer.Until(by.HolderExpires), nil
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
