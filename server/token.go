package server

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"attestd/crypto/strictjson"
	"attestd/service"
	"attestd/store"
)

// tokenRequest has the parameters of RFC 6749 §4.4.2. Unknown ones are ignored (§3.2), except for
// those that ask for a more restricted token by a name that is not the RFC's.
type tokenRequest struct {
	_         struct{}        `form:"yes" refuses:"role expiresAt scopes ttl" repeats:"resource audience" given:"may_act"`
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
	// which would be a token that is bound to no key
	if slices.Contains(c.Header["Dpop"], "") {
		return c.oauthError(errors.Join(service.ErrInvalidProof, errors.New("the header DPoP is empty: leave it out, or send a proof")))
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
	by, err := c.byClient(params, isClient|isAgent)
	if err != nil {
		return err
	}
	scope, ok := asText(params["scope"])
	if !ok && !isAbsent(params["scope"]) {
		return invalidScope()
	}
	resources, ok := asTexts(params["resource"])
	if !ok {
		return c.oauthError(service.ErrInvalidTarget)
	}
	var issuer string
	var own []string
	if len(resources) > 0 {
		if issuer, err = c.issuerOfTokens(by); err != nil {
			return err
		}
		own = c.ownResources(by.Company.ID)
	}
	token, err := c.s.tokens.Issue(c.Context(), by, c.once, service.TokenRequest{
		Resources: resources, Issuer: issuer, Own: own, Scope: scope, Proof: c.Header.Get("DPoP"), Method: c.Method, URL: c.s.ownURL(c.Request),
	})
	if err != nil {
		return c.oauthError(err)
	}
	return c.tokenIssued(token, c.client.Assertion != "", by.At)
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
func (c *call) tokenIssued(token service.Token, signedIn bool, now time.Time) error {
	c.w.Header().Set("Pragma", "no-cache")
	return c.json(http.StatusOK, struct {
		AccessToken string `json:"access_token"`
		TokenType   string `json:"token_type"`
		ExpiresIn   int    `json:"expires_in"`
		Scope       string `json:"scope,omitempty"`
	}{token.Text, kindOf(token, signedIn), int(token.Ends.Sub(now).Seconds()), string(token.Scope)})
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
		if o, err = form.parseBody(raw, c.undeclared); err == nil {
			err = nothingEmpty(o)
		}
	default:
		return nil, invalidRequest("Content-Type must be " + formEncoded + " or application/json")
	}
	if err != nil {
		return nil, invalidRequest(err.Error())
	}
	return o, nil
}

// nothingEmpty refuses members of JSON that are there without a value. In a form they count as
// absent (RFC 6749 §3.2). Two have errors of their own.
func nothingEmpty(o object) error {
	for name, v := range o {
		if name == "scope" || name == "client_assertion" {
			continue
		}
		empty := v.Kind() == '[' || v.Kind() == '{'
		if empty {
			empty = len(bytes.TrimSpace(v[1:len(v)-1])) == 0
		} else if text, is := strictjson.AsString(v); is {
			empty = text == ""
		}
		if empty {
			return fail(http.StatusBadRequest, name+" is empty: leave it out, or give it a value")
		}
	}
	return nil
}

func invalidRequest(why string) *apiError {
	return &apiError{Status: http.StatusBadRequest, Message: "invalid_request", Description: why}
}

func invalidScope() *apiError {
	return &apiError{Status: http.StatusBadRequest, Message: "invalid_scope",
		Description: "scope must be of admin, writer and reader, and at most the client's role; of an agent it is agent"}
}

// oauthError is the answer to an error of service.Tokens, in the form of the RFCs.
func (c *call) oauthError(err error) error {
	var nonce *service.NonceError
	switch {
	case errors.Is(err, service.ErrInvalidClient):
		why := service.Reason(err, service.ErrInvalidClient)
		if c.client != nil && c.client.Assertion != "" && c.s.ownBase(c.Request) == "" {
			why += "; " + service.ErrNoName.Error()
		}
		answer := invalidClient(why)
		if c.client != nil && c.client.basic { // the attempted scheme must be named (RFC 6749 §5.2)
			answer.with("WWW-Authenticate", basicChallenge)
		}
		return answer
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
