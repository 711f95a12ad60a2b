package httpapi

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
	Bearer  string // API key, access token or enrolment token, as presented
	claimed bool   // whether one or a certificate was presented, be it an empty one
	Hash    [32]byte
	// by the scheme DPoP: the token counts with a proof of the key that it is bound to
	ByDPoP    bool
	sentProof string
	proof     *dpop.Proof // nil until it was checked
	proofUsed bool

	// whether the connection has a client certificate, and whether nothing else was presented
	certified, onlyCertified bool
	bySession                bool // Hash is that of the cookie of a person's session

	// what a client or an agent authenticates with at an OAuth endpoint, which takes precedence;
	// nil for none. once is its part that counts once: a handler that acts on it must use it up.
	Client *presented
	Once   []store.UsedProof
	// of the client or agent, even where it is refused; nil where that is not known
	clientCompany *store.Company
}

// authenticate reads the credential of a request and looks up who presumably calls. After an error,
// public routes continue without it, so that the health check does not depend on the database.
func (c *Call) authenticate() {
	if c.needs.Gateway {
		c.authenticateGateway()
		return
	}
	scheme, token, _ := strings.Cut(c.Header.Get("Authorization"), " ")
	token = strings.Trim(token, " ")
	switch {
	case strings.EqualFold(scheme, "Bearer"):
		c.Bearer, c.claimed = token, true
	case strings.EqualFold(scheme, "DPoP"):
		c.Bearer, c.claimed, c.ByDPoP, c.sentProof = token, true, true, c.Header.Get("DPoP")
	case strings.EqualFold(scheme, "Basic") && c.needs.Who&(IsClient|Anonymous) == IsClient:
		c.countClient()
	case c.needs.Socket:
		var offer stream.Offer
		offer, c.claimed = stream.OfferOf(c.Request)
		c.Bearer, c.ByDPoP, c.sentProof = offer.Credential, offer.Proves, offer.Proof
	}
	c.certified = c.Request.TLS != nil && c.api.ClientCAs != nil && len(c.Request.TLS.PeerCertificates) > 0
	if c.certified && !c.claimed && len(c.Header["Authorization"]) == 0 {
		c.claimed, c.onlyCertified = true, true
	}
	if !c.claimed && !c.certified && len(c.Header["Authorization"]) == 0 {
		if secret := c.session(); secret != "" {
			c.Bearer, c.claimed, c.bySession = secret, true, true
		}
	}
	if !c.claimed {
		return
	}
	c.Hash = keys.HashSecret(c.Bearer)
	if c.presumed, c.authErr = c.lookUp(c.receivedAt); c.onlyCertified && c.authErr == nil {
		// limits count for the agent, whatever certificate it has at the time
		c.Hash = keys.HashSecret("client certificate\n" + c.presumed.Company.Issuer.AgentID(c.presumed.Agent))
	}
}

// GatewayHeader has the credential of a proxy that asks about the request of somebody else, whose
// own credentials are in the headers that they always are in.
const GatewayHeader = "X-Attestd-Authorization"

// authenticateGateway reads the credential of a proxy. Where the proxy is counts for nothing, and
// neither its certificate nor a cookie is one of its own.
func (c *Call) authenticateGateway() {
	sent := c.Header[GatewayHeader]
	if len(sent) != 1 {
		return
	}
	scheme, token, _ := strings.Cut(sent[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return
	}
	c.Bearer, c.claimed = strings.Trim(token, " "), true
	c.Hash = keys.HashSecret(c.Bearer)
	c.presumed, c.authErr = c.lookUp(c.receivedAt)
}

// lookUp returns the caller that the credential identifies at a time: no caller without one, and an
// error for an invalid one. A certificate with another credential grants nothing more: both must be
// of the same agent, and the other one, which may have fewer rights, decides. On a path of one
// company, a credential of another is unknown.
func (c *Call) lookUp(now time.Time) (by store.Caller, err error) {
	var certified store.Caller
	if c.certified {
		if certified, err = c.certifiedAgent(now); err != nil {
			return store.Caller{}, err
		}
	}
	switch {
	case c.Client != nil:
		by, c.Once, err = c.api.Tokens.Authenticate(c.Context(), c.Client.Presented, now)
		c.clientCompany = by.Company
	case c.onlyCertified:
		by = certified
	case c.bySession:
		if by, err = c.api.Store.People.Session(c.Context(), c.Hash, now, true); errors.Is(err, store.ErrNotFound) {
			err = Unauthorized()
		}
	case c.claimed:
		by, err = c.lookUpToken(now)
	default:
		return store.Caller{At: now}, nil
	}
	switch {
	case err != nil:
	case !c.ofThisCompany(by) && c.Client != nil:
		err = service.ErrInvalidClient
	case !c.ofThisCompany(by):
		err = Unauthorized()
	case c.certified:
		err = sameAgent(by, certified)
	}
	if err != nil {
		return store.Caller{}, err
	}
	return by, nil
}

// lookUpToken returns the caller that the API key or token identifies. A token that is bound to a
// key identifies no caller without a proof, which the store demands.
func (c *Call) lookUpToken(now time.Time) (by store.Caller, err error) {
	if c.ByDPoP {
		by, err = c.api.Store.Credentials.AuthenticateBound(c.Context(), c.Hash, now, c.prove)
	} else {
		by, err = c.api.Store.Credentials.Authenticate(c.Context(), c.Hash, now)
	}
	if errors.Is(err, store.ErrNotFound) && !c.ByDPoP && strings.HasPrefix(c.Bearer, store.EnrolmentPrefix) {
		by, err = c.api.Store.AgentKeys.Enrolment(c.Context(), c.Hash, now)
	}
	if err == nil && service.IsJWT(c.Bearer) {
		err = c.api.Tokens.CheckOwn(c.Context(), by, c.Bearer)
	}
	switch {
	case errors.Is(err, store.ErrBound): // RFC 9449 §7.2
		err = invalidToken("the access token is bound to a key: send it with a proof, by the scheme DPoP")
	case errors.Is(err, store.ErrNotFound) && c.ByDPoP:
		err = invalidToken("the access token is unknown, has ended, or is bound to no key")
	case errors.Is(err, store.ErrNotFound):
		err = Unauthorized()
	}
	return by, err
}

// ofThisCompany says whether a caller is of the company of the path, if it names one.
func (c *Call) ofThisCompany(by store.Caller) bool {
	company := c.PathValue("companyId")
	return company == "" || by.Company.ID == company
}
