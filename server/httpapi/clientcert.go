package httpapi

import (
	"errors"
	"net/http"
	"time"

	"attestd/store"
)

// certifiedAgent returns the agent of the connection's certificate as a caller.
func (c *Call) certifiedAgent(now time.Time) (store.Caller, error) {
	svid, err := c.api.ClientCAs.Identify(c.Request.TLS, now)
	if err != nil {
		return store.Caller{}, refusedCertificate(err.Error())
	}
	by, err := c.api.Agents.Certified(c.Context(), svid.ID, svid.Expires, now)
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

func refusedCertificate(why string) *Error {
	return Fail(http.StatusUnauthorized, "Unauthorized: "+why).With("WWW-Authenticate", "Bearer")
}
