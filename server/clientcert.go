package server

import (
	"errors"
	"net/http"
	"time"

	"attestd/crypto/keys"
	"attestd/store"
)

// certify takes the client certificate of the connection, if there is one, for a credential: it
// signs in the agent that it names. Beside another credential it grants nothing: both must be of
// the same agent, and the other one, which may be good for less, decides.
func (c *call) certify() {
	if c.Request.TLS == nil || c.s.TLS == nil || c.s.TLS.ClientCAs == nil || len(c.Request.TLS.PeerCertificates) == 0 {
		return
	}
	c.certified = true
	agent, err := c.certifiedAgent(c.came)
	switch {
	case err != nil:
		c.certErr = err
	case len(c.Header["Authorization"]) == 0:
		c.caller, c.claimed, c.onlyCertified = agent, true, true
		// limits count for the agent, whatever certificate it has at the time
		c.hash = keys.HashSecret("client certificate\n" + agent.Company.Issuer.AgentID(agent.Agent))
		return
	case c.caller.Company != nil:
		c.certErr = sameAgent(c.caller, agent)
	}
	if c.certErr != nil {
		c.caller, c.authErr = store.Caller{}, c.certErr
	}
}

// recertify verifies the certificate, if there is one, at the time when the request is whole,
// beside a credential that was looked up then.
func (c *call) recertify(by store.Caller, now time.Time) error {
	if !c.certified {
		return nil
	}
	agent, err := c.certifiedAgent(now)
	if err != nil {
		return err
	}
	return sameAgent(by, agent)
}

// certifiedAgent returns the agent of the connection's certificate as a caller.
func (c *call) certifiedAgent(now time.Time) (store.Caller, error) {
	svid, err := c.s.TLS.ClientCAs.Identify(c.Request.TLS, now)
	if err != nil {
		return store.Caller{}, refusedCertificate(err.Error())
	}
	by, err := c.s.agents.Certified(c.Context(), svid.ID, svid.Expires, now)
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrDisabled) {
		err = refusedCertificate("the client certificate names no enabled agent of this service")
	}
	return by, err
}

// sameAgent requires that another credential is of the agent of the certificate.
func sameAgent(by, agent store.Caller) error {
	if by.Company == nil || by.Company.Chain != agent.Company.Chain || by.Agent != agent.Agent || by.Role != agent.Role {
		return refusedCertificate("the client certificate and the other credential are not of the same agent: send one of them")
	}
	return nil
}

func refusedCertificate(why string) *apiError {
	return fail(http.StatusUnauthorized, "Unauthorized: "+why).with("WWW-Authenticate", "Bearer")
}
