package server

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"attestd/crypto/strictjson"
	"attestd/service"
	"attestd/store"
)

// tokenRequest has the parameters of RFC 6749 §4.4.2. Unknown ones are ignored (§3.2), except for
// those that ask for a more restricted token by a name that is not the RFC's.
type tokenRequest struct {
	_         struct{}        `form:"yes" refuses:"role expiresAt scopes ttl" repeats:"resource audience"`
	GrantType json.RawMessage `json:"grant_type" must:"checked"`
	Scope     json.RawMessage `json:"scope"`
	Resource  json.RawMessage `json:"resource"`

	ClientID      json.RawMessage `json:"client_id"`
	ClientSecret  json.RawMessage `json:"client_secret"`
	AssertionType json.RawMessage `json:"client_assertion_type"`
	Assertion     json.RawMessage `json:"client_assertion"`
	// of a workload (RFC 7523 §2.1)
	Federated json.RawMessage `json:"assertion"`
	// of an exchange (RFC 8693 §2.1)
	Subject       json.RawMessage `json:"subject_token"`
	SubjectType   json.RawMessage `json:"subject_token_type"`
	Actor         json.RawMessage `json:"actor_token"`
	ActorType     json.RawMessage `json:"actor_token_type"`
	RequestedType json.RawMessage `json:"requested_token_type"`
	Audience      json.RawMessage `json:"audience"`
	// of ours: who alone may act with the token (RFC 8693 §4.4)
	MayAct json.RawMessage `json:"may_act"`
}

var tokenForm = formOf[tokenRequest]()

// oauthToken implements the client credentials grant of RFC 6749 §4.4 to OAuth clients, and to
// agents that show that they hold a key of their own (RFC 7523). With a DPoP proof the token is
// bound to the key of that (RFC 9449 §5). It is not an endpoint, because its errors are those of
// the RFCs.
func oauthToken(c *call) error {
	params, err := c.oauthParams(tokenForm)
	if err != nil {
		return err
	}
	switch grant, _ := asText(params["grant_type"]); grant {
	case "client_credentials":
	case jwtBearer:
		return c.federateByAssertion(params)
	case tokenExchange:
		return c.exchangeToken(params)
	default:
		return fail(http.StatusBadRequest, "unsupported_grant_type")
	}
	if !isAbsent(params["may_act"]) { // it would restrict nothing
		return invalidRequest("may_act is for the exchange of a token of the company")
	}
	client, err := c.presented(params)
	if err != nil {
		return err
	}
	by, once, err := c.authenticateClient(client)
	if err != nil {
		return err
	}
	scope, ok := asText(params["scope"])
	if !ok && !isAbsent(params["scope"]) && string(params["scope"]) != `""` {
		return invalidScope()
	}
	resources, ok := asTexts(params["resource"])
	if !ok {
		return c.oauthError(service.ErrInvalidTarget, client)
	}
	var issuer string
	if len(resources) > 0 {
		if issuer, err = c.issuerOfTokens(by); err != nil {
			return err
		}
	}
	token, err := c.s.tokens.Issue(c.Context(), by, once, service.TokenRequest{
		Resources: resources, Issuer: issuer, Scope: scope, Proof: c.Header.Get("DPoP"), Method: c.Method, URL: c.s.ownURL(c.Request),
	})
	if err != nil {
		return c.oauthError(err, client)
	}
	return c.tokenIssued(token, client.Assertion != "")
}

// issuerOfTokens is ownIssuer with an error in the form of RFC 6749 §5.2.
func (c *call) issuerOfTokens(by store.Caller) (string, error) {
	issuer, err := c.s.ownIssuer(c.Request, by.Company.ID)
	if err != nil {
		return "", invalidRequest(service.ErrNoName.Error())
	}
	return issuer, nil
}

// asTexts returns a text, or the texts of an array, and none of what is absent.
func asTexts(v jsontext.Value) (texts []string, ok bool) {
	if isAbsent(v) {
		return nil, true
	}
	if v.Kind() == '[' {
		texts, ok = strictjson.AsStrings(v)
		return texts, ok && len(texts) > 0
	}
	text, ok := asText(v)
	return []string{text}, ok
}

// tokenIssued is the answer of RFC 6749 §5.1.
func (c *call) tokenIssued(token service.Token, signedIn bool) error {
	c.w.Header().Set("Pragma", "no-cache")
	return c.json(http.StatusOK, struct {
		AccessToken string `json:"access_token"`
		TokenType   string `json:"token_type"`
		ExpiresIn   int    `json:"expires_in"`
		Scope       string `json:"scope,omitempty"`
	}{token.Text, kindOf(token, signedIn), int(token.Ends.Sub(c.caller.At).Seconds()), string(token.Scope)})
}

// kindOf is the type of a token. The specification spells that of a client's in lower case.
func kindOf(token service.Token, signedIn bool) string {
	switch {
	case token.Bound:
		return "DPoP"
	case signedIn:
		return "Bearer"
	}
	return "bearer"
}

// oauthParams parses a form or a JSON object according to the Content-Type, because some bodies are
// valid as both.
func (c *call) oauthParams(form *requestForm) (o object, err error) {
	raw, err := c.read()
	if err != nil {
		return nil, err
	}
	switch mediaType(c.Header) {
	case formEncoded:
		o, err = form.parseForm(raw, c.undeclared)
	case "application/json":
		o, err = form.parseBody(raw, c.undeclared)
	default:
		return nil, invalidRequest("Content-Type must be " + formEncoded + " or application/json")
	}
	if err != nil {
		return nil, invalidRequest(err.Error())
	}
	return o, nil
}

func invalidRequest(why string) *apiError {
	return &apiError{Status: http.StatusBadRequest, Message: "invalid_request", Description: why}
}

func invalidScope() *apiError {
	return &apiError{Status: http.StatusBadRequest, Message: "invalid_scope",
		Description: "scope must be of admin, writer and reader, and at most the client's role; of an agent it is agent"}
}

// oauthError is the answer to an error of service.Tokens, in the form of the RFCs.
func (c *call) oauthError(err error, client presented) error {
	var nonce *service.NonceError
	switch {
	case errors.Is(err, service.ErrInvalidClient):
		return c.invalidClient(err, client)
	case errors.Is(err, service.ErrKeysPending):
		answer := &apiError{Status: http.StatusServiceUnavailable, Code: "NOT_DONE", Message: "Service Unavailable: " + service.Reason(err, service.ErrKeysPending)}
		return answer.with("Retry-After", keysPending)
	case errors.Is(err, service.ErrInvalidProof):
		return &apiError{Status: http.StatusBadRequest, Message: "invalid_dpop_proof", Description: service.Reason(err, service.ErrInvalidProof)}
	case errors.As(err, &nonce):
		answer := &apiError{Status: http.StatusBadRequest, Message: "use_dpop_nonce", Description: nonce.Error()}
		return answer.with("DPoP-Nonce", nonce.Nonce)
	case errors.Is(err, service.ErrInvalidScope):
		return invalidScope()
	case errors.Is(err, service.ErrInvalidTarget):
		return &apiError{Status: http.StatusBadRequest, Message: "invalid_target", Description: cmp.Or(service.Reason(err, service.ErrInvalidTarget),
			"resource must be 1 to 8 absolute URLs of https without a fragment, of at most 1024 bytes each")}
	case errors.Is(err, service.ErrNotItsToken):
		return &apiError{Status: http.StatusBadRequest, Message: "unauthorized_client", Description: "the token is another's, and only an admin ends that"}
	}
	return err
}
