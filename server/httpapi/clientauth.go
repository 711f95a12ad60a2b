package httpapi

import (
	"errors"
	"net/http"
	"net/url"

	"attestd/crypto/assertion"
	"attestd/crypto/cred"
	"attestd/crypto/keys"
	"attestd/service"
	"attestd/store"
)

// presented is what a client presents, and how.
type presented struct {
	service.Presented
	basic bool
}

// presented reads what the client presents: an assertion (RFC 7523 §2.2), or its ID and secret from
// the body or from HTTP Basic (RFC 6749 §2.3.1), and never two of them.
func (c *Call) presented(o Object) (p presented, err error) {
	id, _ := AsText(o["client_id"])
	secret, _ := AsText(o["client_secret"])
	kind, _ := AsText(o["client_assertion_type"])
	text, _ := AsText(o["client_assertion"])
	authorization := c.Header.Get("Authorization")
	p.ClientID, p.Secret = id, secret
	switch {
	case !IsAbsent(o["client_assertion"]) || kind != "":
		switch {
		case kind != assertion.Type || text == "":
			return p, InvalidClient("client_assertion goes with client_assertion_type " + assertion.Type)
		case secret != "" || authorization != "":
			return p, InvalidRequest("an agent presents client_assertion alone")
		}
		p.Assertion = text
		p.Audiences = c.assertionAudiences()
		return p, nil
	case authorization == "" || c.claimed:
		if id == "" || secret == "" {
			return p, InvalidRequest("client_id and client_secret are required")
		}
		return p, nil
	}
	return c.basicClient(p)
}

// assertionAudiences are the names of this service to which an assertion may be addressed: the URL
// of the request and, on a path of one company, its issuer and token endpoint, where the name in
// the request is the server's; and the issuer of SVIDs, unless that is of the default trust domain,
// which other services have too.
func (c *Call) assertionAudiences() (audiences []string) {
	if url := c.OwnURL(); url != "" {
		audiences = append(audiences, url)
		if company := c.PathValue("companyId"); company != "" {
			issuer := service.IssuerOf(c.OwnBase(), company)
			audiences = append(audiences, issuer, issuer+"/token")
		}
	}
	if domain := c.api.Store.Domain(); domain.TrustDomain != cred.DefaultTrustDomain {
		audiences = append(audiences, domain.Issuer())
	}
	return audiences
}

func (c *Call) basicClient(p presented) (presented, error) {
	id, secret := p.ClientID, p.Secret
	user, password, ok := c.BasicAuth()
	if !ok {
		return p, InvalidRequest("the Authorization header is neither Basic nor Bearer")
	}
	if secret != "" {
		return p, InvalidRequest("client credentials are given both in the body and by HTTP Basic")
	}
	// RFC 6749 §2.3.1: both are form-encoded inside Basic.
	var idErr, secretErr error
	p.ClientID, idErr = url.QueryUnescape(user)
	p.Secret, secretErr = url.QueryUnescape(password)
	p.basic = true
	switch {
	case idErr != nil || secretErr != nil || p.ClientID == "" || p.Secret == "":
		return p, InvalidRequest("client_id and client_secret are required")
	case id != "" && id != p.ClientID:
		return p, InvalidRequest("client_id in the body is not the one of HTTP Basic")
	}
	return p, nil
}

// countClient finds the client that presents itself by HTTP Basic, so that its calls count for it
// and not for its address. That it is the client is decided once the request is complete.
func (c *Call) countClient() {
	p, err := c.basicClient(presented{})
	if err != nil {
		return
	}
	if by, _, err := c.api.Tokens.Authenticate(c.Context(), p.Presented, c.receivedAt); err == nil && c.ofThisCompany(by) {
		c.counted, c.Hash = by.Company, keys.HashSecret("client\n"+p.ClientID)
	}
}

// ByClient returns the client or the agent that authenticates itself in the request, once that is
// complete. A handler that acts on it must use up c.once.
func (c *Call) ByClient(params Object, who Kinds) (store.Caller, error) {
	client, err := c.presented(params)
	if err != nil {
		return store.Caller{}, err
	}
	c.Client = &client
	by, err := c.By(who)
	if err != nil {
		err = c.OAuthError(NotTheClient(err))
		c.CountRefused(err)
		return by, err
	}
	return by, nil
}

// CountRefused counts a client or an agent that was refused, at the company of the path, or without
// one at the company of what it presented.
func (c *Call) CountRefused(err error) {
	var refused *Error
	if !errors.As(err, &refused) || refused.Status != http.StatusUnauthorized || c.Client == nil {
		return
	}
	companyID, known := c.PathValue("companyId"), c.clientCompany
	if companyID != "" {
		known = nil
	}
	c.api.Refusals.Count(c.Context(), known, companyID, store.RefusedToken, c.receivedAt)
}

// isAnonymous reports whether neither the header nor the body says who calls.
func (c *Call) isAnonymous(params Object) bool {
	return !c.claimed && c.Header.Get("Authorization") == "" && !HasClient(params)
}

// HasClient reports whether the body says how a client authenticates.
func HasClient(params Object) bool {
	return !IsAbsent(params["client_secret"]) || !IsAbsent(params["client_assertion"])
}

// ByClientOrToken is ByClient, or the holder of an access token, or an admin with an API key. What
// counts once of a client is used up.
func (c *Call) ByClientOrToken(params Object) (store.Caller, error) {
	const who = IsClient | IsAdmin | IsAgent | IsForPerson
	switch {
	case c.isAnonymous(params):
		return store.Caller{}, InvalidClient("").With("WWW-Authenticate", BasicChallenge)
	case c.claimed && !HasClient(params):
		return c.By(who)
	}
	by, err := c.ByClient(params, who)
	for _, proof := range c.Once {
		if err == nil {
			err = c.OAuthError(c.api.Tokens.Use(c.Context(), proof, by.At))
			c.CountRefused(err)
		}
	}
	return by, err
}
