package httpapi

import (
	"bytes"
	"cmp"
	"errors"
	"net/http"
	"strings"

	"attestd/crypto/cred/details"
	"attestd/crypto/strictjson"
	"attestd/service"
)

// OAuthParams parses a form or a JSON object according to the Content-Type, because some bodies are
// valid as both.
func (c *Call) OAuthParams(form *Form) (o Object, err error) {
	raw, err := c.Read()
	if err != nil {
		return nil, err
	}
	switch MediaType(c.Header) {
	case FormEncoded:
		o, err = form.parseForm(raw, c.undeclared)
	case "application/json":
		if o, err = form.parseBody(raw, c.undeclared); err == nil {
			err = nothingEmpty(o)
		}
	default:
		return nil, InvalidRequest("Content-Type must be " + FormEncoded + " or application/json")
	}
	if err != nil {
		return nil, InvalidRequest(err.Error())
	}
	return o, nil
}

// nothingEmpty refuses members of JSON that are there without a value. In a form they count as
// absent (RFC 6749 §3.2). Two have errors of their own.
func nothingEmpty(o Object) error {
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
			return Fail(http.StatusBadRequest, name+" is empty: leave it out, or give it a value")
		}
	}
	return nil
}

func InvalidRequest(why string) *Error {
	return &Error{Status: http.StatusBadRequest, Message: "invalid_request", Description: why}
}

// OAuthDetails reads the parameter authorization_details (RFC 9396 §5).
func OAuthDetails(params Object) (details.Details, error) {
	limits, err := AsDetails(params["authorization_details"])
	if err != nil {
		err = &Error{Status: http.StatusBadRequest, Message: details.Code, Description: "authorization_details is not understood: " + err.Error()}
	}
	return limits, err
}

func InvalidScope() *Error {
	return &Error{Status: http.StatusBadRequest, Message: "invalid_scope",
		Description: "scope must be of admin, writer and reader, and at most the client's role; of an agent it is agent"}
}

// OAuthError is the answer to an error of service.Tokens, in the form of the RFCs.
func (c *Call) OAuthError(err error) error {
	var nonce *service.NonceError
	switch {
	case errors.Is(err, service.ErrInvalidClient):
		why := service.Reason(err, service.ErrInvalidClient)
		if c.Client != nil && c.Client.Assertion != "" && c.OwnBase() == "" {
			why += "; " + service.ErrNoName.Error()
		}
		answer := InvalidClient(why)
		if c.Client != nil && c.Client.basic { // the attempted scheme must be named (RFC 6749 §5.2)
			answer.With("WWW-Authenticate", BasicChallenge)
		}
		return answer
	case errors.Is(err, service.ErrKeysPending):
		answer := &Error{Status: http.StatusServiceUnavailable, Code: "NOT_DONE", Message: "Service Unavailable: " + service.Reason(err, service.ErrKeysPending)}
		return answer.With("Retry-After", keysPending)
	case errors.Is(err, service.ErrInvalidProof):
		return &Error{Status: http.StatusBadRequest, Message: "invalid_dpop_proof", Description: service.Reason(err, service.ErrInvalidProof)}
	case errors.As(err, &nonce):
		answer := &Error{Status: http.StatusBadRequest, Message: "use_dpop_nonce", Description: nonce.Error()}
		return answer.With("DPoP-Nonce", nonce.Nonce)
	case errors.Is(err, service.ErrInvalidScope):
		return InvalidScope()
	case errors.Is(err, service.ErrInvalidDetails):
		return &Error{Status: http.StatusBadRequest, Message: details.Code, Description: strings.TrimPrefix(err.Error(), details.Code+": ")}
	case errors.Is(err, service.ErrDenied):
		return &Error{Status: http.StatusBadRequest, Message: "access_denied", Description: service.Reason(err, service.ErrDenied)}
	case errors.Is(err, service.ErrInvalidTarget):
		return &Error{Status: http.StatusBadRequest, Message: "invalid_target", Description: cmp.Or(service.Reason(err, service.ErrInvalidTarget),
			"resource must be 1 to 8 absolute URLs of https without a fragment, of at most 1024 bytes each")}
	case errors.Is(err, service.ErrNotItsToken):
		return &Error{Status: http.StatusBadRequest, Message: "unauthorized_client", Description: "the token is another's, and only an admin ends that"}
	}
	return err
}

// keysPending is how many seconds until an issuer's keys are probably there.
const keysPending = "2"

// NotTheClient is the answer to a refused certificate or token in the form of RFC 6749 §5.2.
func NotTheClient(err error) error {
	var refused *Error
	if !errors.As(err, &refused) || refused.Status != http.StatusUnauthorized {
		return err
	}
	_, why, _ := strings.Cut(refused.Message, "Unauthorized: ")
	answer := InvalidClient(why)
	answer.Header = refused.Header
	return answer
}

const BasicChallenge = `Basic realm="oauth", charset="UTF-8"`

func InvalidClient(why string) *Error {
	return &Error{Status: http.StatusUnauthorized, Message: "invalid_client", Description: why}
}
