package server

import (
	"errors"
	"strings"
	"time"

	"attestd/crypto/dpop"
	"attestd/crypto/keys"
	"attestd/server/stream"
	"attestd/service"
	"attestd/store"
)

// credential is what a request presents to say whose it is.
type credential struct {
	bearer  string // API key, access token or enrolment token, as presented
	claimed bool   // whether one or a certificate was presented, be it an empty one
	hash    [32]byte
	// by the scheme DPoP: the token counts with a proof of the key that it is bound to
	byDPoP    bool
	sentProof string
	proof     *dpop.Proof // nil until it was checked
	proofUsed bool

	// whether the connection has a client certificate, and whether nothing else was presented
	certified, onlyCertified bool

	// with what a client or an agent authenticates at an OAuth endpoint, which goes before the
	// rest; nil for nothing. once counts once of it: whoever acts on it must use it up.
	client *presented
	once   []store.UsedProof
}

// authenticate reads the credential of a request and looks up who presumably calls. After an error,
// public routes continue without it, so that the health check does not depend on the database.
func (c *call) authenticate() {
	scheme, token, _ := strings.Cut(c.Header.Get("Authorization"), " ")
	token = strings.Trim(token, " ")
	switch {
	case strings.EqualFold(scheme, "Bearer"):
		c.bearer, c.claimed = token, true
	case strings.EqualFold(scheme, "DPoP"):
		c.bearer, c.claimed, c.byDPoP, c.sentProof = token, true, true, c.Header.Get("DPoP")
	case strings.EqualFold(scheme, "Basic") && c.needs.who&(isClient|nobody) == isClient:
		c.countClient()
	case c.needs.socket:
		var offer stream.Offer
		offer, c.claimed = stream.OfferOf(c.Request)
		c.bearer, c.byDPoP, c.sentProof = offer.Credential, offer.Proves, offer.Proof
	}
	c.certified = c.Request.TLS != nil && c.api.ClientCAs != nil && len(c.Request.TLS.PeerCertificates) > 0
	if c.certified && !c.claimed && len(c.Header["Authorization"]) == 0 {
		c.claimed, c.onlyCertified = true, true
	}
	if !c.claimed {
		return
	}
	c.hash = keys.HashSecret(c.bearer)
	if c.presumed, c.authErr = c.lookUp(c.came); c.onlyCertified && c.authErr == nil {
		// limits count for the agent, whatever certificate it has at the time
		c.hash = keys.HashSecret("client certificate\n" + c.presumed.Company.Issuer.AgentID(c.presumed.Agent))
	}
}

// lookUp finds whose the credential is at a time: nobody's without one, and an error for one that
// counts for nothing. A certificate beside another credential grants nothing: both must be of the
// same agent, and the other one, which may be good for less, decides. On a path of one company, a
// credential of another is unknown.
func (c *call) lookUp(now time.Time) (by store.Caller, err error) {
	var certified store.Caller
	if c.certified {
		if certified, err = c.certifiedAgent(now); err != nil {
			return store.Caller{}, err
		}
	}
	switch {
	case c.client != nil:
		by, c.once, err = c.api.Tokens.Authenticate(c.Context(), c.client.Presented, now)
	case c.onlyCertified:
		by = certified
	case c.claimed:
		by, err = c.lookUpToken(now)
	default:
		return store.Caller{At: now}, nil
	}
	switch {
	case err != nil:
	case !c.ofThisCompany(by) && c.client != nil:
		err = service.ErrInvalidClient
	case !c.ofThisCompany(by):
		err = unauthorized()
	case c.certified:
		err = sameAgent(by, certified)
	}
	if err != nil {
		return store.Caller{}, err
	}
	return by, nil
}

// lookUpToken finds whose the API key or token is. What is bound to a key is nobody's without a
// proof, which the store asks for.
func (c *call) lookUpToken(now time.Time) (by store.Caller, err error) {
	if c.byDPoP {
		by, err = c.api.Store.Credentials.AuthenticateBound(c.Context(), c.hash, now, c.prove)
	} else {
		by, err = c.api.Store.Credentials.Authenticate(c.Context(), c.hash, now)
	}
	if errors.Is(err, store.ErrNotFound) && !c.byDPoP && strings.HasPrefix(c.bearer, store.EnrolmentPrefix) {
		by, err = c.api.Store.AgentKeys.Enrolment(c.Context(), c.hash, now)
	}
	if err == nil && service.IsJWT(c.bearer) {
		err = c.api.Tokens.CheckOwn(c.Context(), by, c.bearer)
	}
	switch {
	case errors.Is(err, store.ErrBound): // RFC 9449 §7.2
		err = invalidToken("the access token is bound to a key: send it with a proof, by the scheme DPoP")
	case errors.Is(err, store.ErrNotFound) && c.byDPoP:
		err = invalidToken("the access token is unknown, has ended, or is bound to no key")
	case errors.Is(err, store.ErrNotFound):
		err = unauthorized()
	}
	return by, err
}

// ofThisCompany says whether a caller is of the company of the path, if it names one.
func (c *call) ofThisCompany(by store.Caller) bool {
	company := c.PathValue("companyId")
	return company == "" || by.Company.ID == company
}
