package api

import (
	"encoding/json"
	"net/http"

	"attestd/crypto/cred/details"
	"attestd/server/httpapi"
	"attestd/store"
)

func (s *Tokens) Introspection() httpapi.Handler {
	return httpapi.Handler{Serve: s.introspectToken, Form: aboutTokenForm}
}
func (s *Tokens) Revocation() httpapi.Handler {
	return httpapi.Handler{Serve: s.revokeToken, Form: aboutTokenForm}
}

// aboutTokenRequest asks about an access token, or ends one. The hint of RFC 7009 §2.1 is ignored:
// a token shows of which kind it is.
type aboutTokenRequest struct {
	_         struct{}        `form:"yes"`
	CompanyID string          `path:"companyId"`
	Token     json.RawMessage `json:"token" must:"checked"`
	Hint      json.RawMessage `json:"token_type_hint"`

	ClientID      json.RawMessage `json:"client_id"`
	ClientSecret  json.RawMessage `json:"client_secret"`
	AssertionType json.RawMessage `json:"client_assertion_type"`
	Assertion     json.RawMessage `json:"client_assertion"`
}

var aboutTokenForm = httpapi.FormOf[aboutTokenRequest]()

// introspection is the answer of RFC 7662 §2.2. Of what is not active it says nothing else.
type introspection struct {
	Active    bool          `json:"active"`
	Issuer    string        `json:"iss,omitempty"`
	Subject   string        `json:"sub,omitempty"`
	Audience  any           `json:"aud,omitempty"` // a string, or several
	ClientID  string        `json:"client_id,omitempty"`
	AgentID   string        `json:"agent_id,omitempty"`
	Org       string        `json:"org,omitempty"`
	Scope     string        `json:"scope,omitempty"`
	TokenType string        `json:"token_type,omitempty"`
	IssuedAt  int64         `json:"iat,omitempty"` // of a JWT alone
	Expires   int64         `json:"exp,omitempty"`
	ID        string        `json:"jti,omitempty"` // the same
	Confirms  *confirmation `json:"cnf,omitempty"`
	// of an exchange (RFC 8693 §4): the current actor is the outermost
	Act    json.RawMessage `json:"act,omitempty"`
	MayAct any             `json:"may_act,omitempty"`

	Details details.Details `json:"authorization_details,omitzero"` // RFC 9396 §9.2
}

// confirmation names the key that a token is bound to (RFC 9449 §6.1).
type confirmation struct {
	JKT string `json:"jkt"`
}

// introspectToken implements RFC 7662: it describes an access token of the company in the path. The
// caller is a client or an agent of that company, or an admin.
func (s *Tokens) introspectToken(c *httpapi.Call) error {
	by, token, err := s.asksAboutToken(c)
	if err != nil {
		return err
	}
	issuer, err := c.OwnIssuer(by.Company.ID)
	if err != nil {
		issuer = ""
	}
	found, active, err := s.Tokens.Introspect(c.Context(), by, issuer, token)
	if err != nil {
		return err
	}
	if !active {
		return c.JSON(http.StatusOK, introspection{})
	}
	answer := introspection{
		Active: true, Issuer: found.Issuer, Subject: found.Subject, ClientID: found.ClientID, AgentID: found.AgentID,
		Org: by.Company.ID, Scope: found.Scope, TokenType: "Bearer", IssuedAt: found.IssuedAt, Expires: found.Expires, ID: found.ID,
	}
	answer.Act, answer.Details = found.Act, found.Details
	if found.MayAct != nil {
		answer.MayAct = found.MayAct
	}
	switch len(found.Audience) {
	case 0:
	case 1:
		answer.Audience = found.Audience[0]
	default:
		answer.Audience = found.Audience
	}
	if found.JKT != "" {
		answer.TokenType, answer.Confirms = "DPoP", &confirmation{found.JKT}
	}
	if found.NoAccess {
		answer.TokenType = "N_A" // as of an exchange (RFC 8693 §2.2.1)
	}
	return c.JSON(http.StatusOK, answer)
}

// revokeToken implements RFC 7009: it ends an access token of the company of the path for its
// holder, or for an admin. What is no such token has ended already.
func (s *Tokens) revokeToken(c *httpapi.Call) error {
	by, token, err := s.asksAboutToken(c)
	if err != nil {
		return err
	}
	if err := s.Tokens.Revoke(c.Context(), by, token); err != nil {
		return c.OAuthError(err)
	}
	// its holder may have others, whose streams continue
	_ = s.Hub.Recheck(by.Company.Chain) // those that could not be looked up are again, in time
	return c.JSON(http.StatusOK, struct{}{})
}

// asksAboutToken returns who asks about an access token, and the token.
func (s *Tokens) asksAboutToken(c *httpapi.Call) (by store.Caller, token string, err error) {
	params, err := c.OAuthParams(aboutTokenForm)
	if err != nil {
		return by, "", err
	}
	if by, err = c.ByClientOrToken(params); err != nil {
		return by, "", err
	}
	token, ok := httpapi.AsText(params["token"])
	if !ok {
		return by, "", httpapi.InvalidRequest("token is required")
	}
	return by, token, nil
}
