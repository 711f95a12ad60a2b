package server

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

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
	case text != "" || kind != "":
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
	if url := c.s.ownURL(c.Request); url != "" {
		audiences = append(audiences, url)
		if company := c.PathValue("companyId"); company != "" {
			issuer := service.IssuerOf(c.s.ownBase(c.Request), company)
			audiences = append(audiences, issuer, issuer+"/token")
		}
	}
	if domain := c.s.Store.Domain(); domain.TrustDomain != cred.DefaultTrustDomain {
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
	if by, _, err := c.s.tokens.Authenticate(c.Context(), p.Presented, c.came); err == nil && c.ofThisCompany(by) {
		c.client, c.hash = by.Company, keys.HashSecret("client\n"+p.ClientID)
	}
}

// authenticateClient finds who presents itself, once the request is whole. On a path of one company
// a client or an agent of another is unknown.
func (c *call) authenticateClient(p presented) (by store.Caller, once []store.UsedProof, err error) {
	if err := c.reauthenticate(); err != nil {
		return by, nil, err
	}
	if c.certErr != nil {
		return by, nil, notTheClient(c.certErr)
	}
	by, once, err = c.s.tokens.Authenticate(c.Context(), p.Presented, c.caller.At)
	if err == nil && !c.ofThisCompany(by) {
		err = service.ErrInvalidClient
	}
	if err == nil {
		if err := c.recertify(by, c.caller.At); err != nil {
			return store.Caller{}, nil, notTheClient(err)
		}
	}
	if err != nil {
		return store.Caller{}, nil, c.oauthError(err, p)
	}
	return by, once, c.active(by)
}

// notTheClient is the answer to a refused certificate in the form of RFC 6749 §5.2.
func notTheClient(err error) error {
	var refused *apiError
	if errors.As(err, &refused) && refused.Status == http.StatusUnauthorized {
		return invalidClient(strings.TrimPrefix(refused.Message, "Unauthorized: "))
	}
	return err
}

// ofThisCompany says whether a caller is of the company of the path, if it names one.
func (c *call) ofThisCompany(by store.Caller) bool {
	company := c.PathValue("companyId")
	return company == "" || by.Company.ID == company
}

// invalidClient is the answer of RFC 6749 §5.2 to a client that is not who it says it is.
func (c *call) invalidClient(err error, p presented) *apiError {
	why := service.Reason(err, service.ErrInvalidClient)
	if p.Assertion != "" && c.s.ownBase(c.Request) == "" {
		why += "; " + service.ErrNoName.Error()
	}
	answer := invalidClient(why)
	if p.basic { // the attempted scheme must be named
		answer.with("WWW-Authenticate", basicChallenge)
	}
	return answer
}

const basicChallenge = `Basic realm="oauth", charset="UTF-8"`

func invalidClient(why string) *apiError {
	return &apiError{Status: http.StatusUnauthorized, Message: "invalid_client", Description: why}
}
