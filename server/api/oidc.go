package api

import (
	"context"
	"net/http"

	"attestd/server/httpapi"
	"attestd/service"
	"attestd/store"
)

// OIDC signs people in with their accounts at the identity provider of the service.
type OIDC struct {
	API  *httpapi.API
	OIDC *service.OIDC // nil where there is none
}

// signInWays are what the sign-in page offers.
type signInWays struct {
	Passkey bool `json:"passkey"`
	OIDC    bool `json:"oidc"`
}

// Ways says how people sign in here, to a page where nobody has done so yet.
func (s *OIDC) Ways(context.Context, store.Caller, httpapi.None) (signInWays, error) {
	return signInWays{Passkey: true, OIDC: s.OIDC != nil}, nil
}

// redirection sends a browser elsewhere.
type redirection struct {
	Location string `json:"location"`
	cookies  []string
}

func (a redirection) SetHeader(h http.Header) {
	h.Set("Location", a.Location)
	h["Set-Cookie"] = a.cookies
}

var errNoOIDC = &service.Error{Kind: service.NotFound, Code: "OIDC_OFF", Message: "This service has no identity provider (--oidc-issuer); sign in with a passkey"}

// Begin sends the browser to the identity provider.
func (s *OIDC) Begin(ctx context.Context, by store.Caller, r pageRequest) (redirection, error) {
	if s.OIDC == nil {
		return redirection{}, errNoOIDC
	}
	start, err := s.OIDC.Begin(ctx, s.API.OwnBase(r.Request), by.At)
	return redirection{start.Location, []string{httpapi.AccountCookie(start.Browser)}}, err
}

// callbackRequest is what the provider has the browser hand over. What else it sends is ignored, as
// RFC 6749 §4.1.2 demands.
type callbackRequest struct {
	State  string `query:"state"`
	Code   string `query:"code"`
	Issuer string `query:"iss"`
	Error  string `query:"error"`
	*http.Request
}

// Callback signs in who comes back from the identity provider, and sends the browser to the
// console. A cookie of a session that the request has counts for nothing, as in SignIn of People.
func (s *OIDC) Callback(ctx context.Context, by store.Caller, r callbackRequest) (redirection, error) {
	if s.OIDC == nil {
		return redirection{}, errNoOIDC
	}
	query := r.URL.Query()
	for _, name := range []string{"state", "code", "iss", "error"} {
		if len(query[name]) > 1 { // RFC 6749 §3.1
			return redirection{}, httpapi.Fail(http.StatusBadRequest, "Invalid query parameter: "+name+" is given more than once")
		}
	}
	base := s.API.OwnBase(r.Request)
	in, err := s.OIDC.Finish(ctx, base, httpapi.AccountOf(r.Request), service.OIDCAnswer{State: r.State, Code: r.Code, Issuer: r.Issuer, Error: r.Error}, by.At)
	if err != nil {
		return redirection{}, err
	}
	return redirection{service.SignedInPage(base), []string{httpapi.SessionCookie(in.Secret), httpapi.AccountCookie("")}}, nil
}
