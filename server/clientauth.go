package server

import (
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
func (c *call) presented(o object) (p presented, err error) {
	id, _ := asText(o["client_id"])
	secret, _ := asText(o["client_secret"])
	kind, _ := asText(o["client_assertion_type"])
	text, _ := asText(o["client_assertion"])
	authorization := c.Header.Get("Authorization")
	p.ClientID, p.Secret = id, secret
	switch {
	case !isAbsent(o["client_assertion"]) || kind != "":
		switch {
		case kind != assertion.Type || text == "":
			return p, invalidClient("client_assertion goes with client_assertion_type " + assertion.Type)
		case secret != "" || authorization != "":
			return p, invalidRequest("an agent presents client_assertion alone")
		}
		p.Assertion = text
		p.Audiences = c.assertionAudiences()
		return p, nil
	case authorization == "" || c.claimed:
		if id == "" || secret == "" {
			return p, invalidRequest("client_id and client_secret are required")
		}
		return p, nil
	}
	return c.basicClient(p)
}

// assertionAudiences are the names of this service to which an assertion may be addressed: the URL
// of the request and, on a path of one company, its issuer and token endpoint, where the name in
// the request is ours; and the issuer of SVIDs, unless that is of the default trust domain, which
// other services have too.
func (c *call) assertionAudiences() (audiences []string) {
	if url := c.ownURL(); url != "" {
		audiences = append(audiences, url)
		if company := c.PathValue("companyId"); company != "" {
			issuer := service.IssuerOf(c.ownBase(), company)
			audiences = append(audiences, issuer, issuer+"/token")
		}
	}
	if domain := c.api.Store.Domain(); domain.TrustDomain != cred.DefaultTrustDomain {
		audiences = append(audiences, domain.Issuer())
	}
	return audiences
}

func (c *call) basicClient(p presented) (presented, error) {
	id, secret := p.ClientID, p.Secret
	user, password, ok := c.BasicAuth()
	if !ok {
		return p, invalidRequest("the Authorization header is neither Basic nor Bearer")
	}
	if secret != "" {
		return p, invalidRequest("client credentials are given both in the body and by HTTP Basic")
	}
	// RFC 6749 §2.3.1: both are form-encoded inside Basic.
	var idErr, secretErr error
	p.ClientID, idErr = url.QueryUnescape(user)
	p.Secret, secretErr = url.QueryUnescape(password)
	p.basic = true
	switch {
	case idErr != nil || secretErr != nil || p.ClientID == "" || p.Secret == "":
		return p, invalidRequest("client_id and client_secret are required")
	case id != "" && id != p.ClientID:
		return p, invalidRequest("client_id in the body is not the one of HTTP Basic")
	}
	return p, nil
}

// countClient finds the client that presents itself by HTTP Basic, so that its calls count for it
// and not for its address. That it is the client is decided once the request is whole.
func (c *call) countClient() {
	p, err := c.basicClient(presented{})
	if err != nil {
		return
	}
	if by, _, err := c.api.Tokens.Authenticate(c.Context(), p.Presented, c.came); err == nil && c.ofThisCompany(by) {
		c.counted, c.hash = by.Company, keys.HashSecret("client\n"+p.ClientID)
	}
}

// byClient returns the client or the agent that authenticates itself in the request, once that is
// whole. Whoever acts on it must use up c.once.
func (c *call) byClient(params object, who kinds) (store.Caller, error) {
	client, err := c.presented(params)
	if err != nil {
		return store.Caller{}, err
	}
	c.client = &client
	by, err := c.by(who)
	if err != nil {
		return by, c.oauthError(notTheClient(err))
	}
	return by, nil
}

// isAnonymous reports whether neither the header nor the body says who calls.
func (c *call) isAnonymous(params object) bool {
	return !c.claimed && c.Header.Get("Authorization") == "" && !hasClient(params)
}

// hasClient reports whether the body says how a client authenticates.
func hasClient(params object) bool {
	return !isAbsent(params["client_secret"]) || !isAbsent(params["client_assertion"])
}

// byClientOrToken is byClient, or the holder of an access token, or an admin with an API key. What
// counts once of a client is used up.
func (c *call) byClientOrToken(params object) (store.Caller, error) {
	const who = isClient | isAdmin | isAgent | isPerson
	switch {
	case c.isAnonymous(params):
		return store.Caller{}, invalidClient("").with("WWW-Authenticate", basicChallenge)
	case c.claimed && !hasClient(params):
		return c.by(who)
	}
	by, err := c.byClient(params, who)
	for _, proof := range c.once {
		if err == nil {
			err = c.oauthError(c.api.Tokens.Use(c.Context(), proof, by.At))
		}
	}
	return by, err
}
