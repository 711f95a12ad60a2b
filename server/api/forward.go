package api

import (
	"net/http"
	"strconv"
	"strings"

	"attestd/chain/decision"
	"attestd/server/httpapi"
	"attestd/service"
	"attestd/service/decide"
	"attestd/store"
)

// Forward answers proxies that ask about each request before they forward it: auth_request of
// nginx, forward_auth of Caddy, ForwardAuth of Traefik, and ext_authz of Envoy by HTTP.
//
// The answer is 200, 401 or 403 and nothing else, because nginx makes 500 of anything else, and
// Envoy forwards what is answered with 200 alone.
type Forward struct {
	Forwards *service.Forwards
}

// EnvoyPrefix is the path below which Envoy asks, with the method and the path of the request.
const EnvoyPrefix = "/v1/authz/"

// maxTarget bounds the request target, in bytes.
const maxTarget = 16 << 10

// Decide decides the request that the headers describe.
func (s *Forward) Decide() httpapi.Handler { return s.handler(described) }

// DecideOwn decides the request below EnvoyPrefix that was sent.
func (s *Forward) DecideOwn() httpapi.Handler { return s.handler(own) }

func (s *Forward) handler(read func(*http.Request) (target, error)) httpapi.Handler {
	return httpapi.Handler{
		Refuse: refuseForwarded,
		Serve: func(c *httpapi.Call) error {
			by, err := c.By(httpapi.Anybody)
			if err != nil {
				return err
			}
			asked, err := read(c.Request)
			if err != nil {
				return err
			}
			r, err := asked.request(c.Header)
			if err != nil {
				return err
			}
			return s.answer(c, by, r)
		},
	}
}

// refuseForwarded makes every error a 403, with what it would be elsewhere in the code: of the
// proxy's own credential, of what it has sent, and of a server that cannot decide.
func refuseForwarded(c *httpapi.Call, e *httpapi.Error) bool {
	code := e.Code
	switch {
	case e.Status == http.StatusUnauthorized || code == "FORBIDDEN_ROLE":
		code = "GATEWAY_CREDENTIAL"
	case e.Status == http.StatusTooManyRequests:
		code = "RATE_LIMITED"
	case e.Status >= http.StatusInternalServerError:
		code = "NOT_DECIDED"
	case code == "":
		code = "FORWARDED_REQUEST"
	}
	h := c.W.Header()
	h.Del("WWW-Authenticate") // which would be for the client
	if h.Get("Retry-After") == "" && (code == "NOT_DECIDED" || code == "RATE_LIMITED") {
		h.Set("Retry-After", "1")
	}
	return c.JSON(http.StatusForbidden, forwardRefused{e.Message, code}) == nil
}

// forwardRefused is the body of a 401 and a 403, which proxies other than nginx hand to the client.
type forwardRefused struct {
	Error string `json:"error"`
	Code  string `json:"code"`
}

// answer decides a request, and names its agent to the service behind the proxy.
func (s *Forward) answer(c *httpapi.Call, by store.Caller, r service.Forwarded) error {
	a, err := s.Forwards.Decide(c.Context(), by, r)
	if err != nil {
		return err
	}
	h := c.W.Header()
	h.Set("X-Attestd-Decision", a.Verdict)
	h.Set("X-Attestd-Company", by.Company.ID)
	if a.Index >= 0 {
		h.Set("X-Attestd-Record", strconv.FormatInt(a.Index, 10))
	}
	switch refused := a.Refused; {
	case a.Verdict == decision.Allow && refused == nil:
		h.Set("X-Attestd-Agent", a.AgentID)
		h.Set("X-Attestd-Spiffe-Id", a.SPIFFEID)
		c.W.WriteHeader(http.StatusOK)
		return nil
	case refused != nil && a.Code == refused.Code:
		h.Set("WWW-Authenticate", challengeOf(refused))
		if refused.Nonce != "" {
			h.Set("DPoP-Nonce", refused.Nonce)
		}
		return c.JSON(http.StatusUnauthorized, forwardRefused{"Unauthorized: " + refused.Message, refused.Code})
	case a.Verdict == decision.Ask:
		return c.JSON(http.StatusForbidden, forwardRefused{"Forbidden: the policies of the company allow the request with an approval alone", decision.PolicyDenied})
	}
	return c.JSON(http.StatusForbidden, forwardRefused{"Forbidden: the agent may not send this request", a.Code})
}

// challengeOf is the challenge to the sender of a request (RFC 6750 §3, RFC 9449 §7.1).
func challengeOf(e *service.RefusedCredential) string {
	const algorithms = `algs="EdDSA Ed25519 ES256"`
	switch {
	case e.Nonce != "":
		return `DPoP error="use_dpop_nonce", ` + algorithms
	case e.Proof:
		return `DPoP error="invalid_dpop_proof", ` + algorithms
	case e.Code == decision.CredentialRequired:
		return "Bearer"
	}
	return `Bearer error="invalid_token"`
}

// target is the request line of a forwarded request, and its host.
type target struct{ method, scheme, host, uri string }

// request returns a forwarded request with its credentials.
func (t target) request(h http.Header) (r service.Forwarded, err error) {
	if len(t.uri) > maxTarget {
		return r, unclear("its URI is too long")
	}
	var ok bool
	if r.URL, ok = decide.NewURL(t.method, t.scheme, t.host, t.uri); !ok {
		return r, unclear("its method, scheme, host or path has no clean form, or two")
	}
	path, _, _ := strings.Cut(t.uri, "?")
	r.Sent = t.scheme + "://" + t.host + path
	proof, err := single(h, "Dpop")
	if err == nil {
		r.Passport, err = single(h, "Service-Passport")
	}
	if err != nil || r.Passport != "" {
		r.Proof = proof
		return r, err
	}
	authorization, err := single(h, "Authorization")
	if err != nil {
		return r, err
	}
	scheme, token, _ := strings.Cut(authorization, " ")
	switch token = strings.Trim(token, " "); {
	case strings.EqualFold(scheme, "Bearer"):
		r.Token = token
	case strings.EqualFold(scheme, "DPoP"):
		r.Token, r.ByDPoP, r.Proof = token, true, proof
	}
	return r, nil
}

// unclear refuses a request that its proxy does not describe, or describes in two ways.
func unclear(why string) error {
	return &httpapi.Error{Status: http.StatusForbidden, Code: "FORWARDED_REQUEST", Message: "Forbidden: the proxy must describe the request: " + why}
}

// single returns a header that may be given once, "" where it is absent.
func single(h http.Header, name string) (string, error) {
	switch values := h[http.CanonicalHeaderKey(name)]; len(values) {
	case 0:
		return "", nil
	case 1:
		return values[0], nil
	}
	return "", unclear(name + " is given more than once")
}

// agreed returns what one of several headers says. Those that are given must say the same.
func agreed(h http.Header, names ...string) (said string, err error) {
	for _, name := range names {
		value, err := single(h, name)
		switch {
		case err != nil:
			return "", err
		case value == "":
		case said != "" && value != said:
			return "", unclear(strings.Join(names, " and ") + " differ")
		default:
			said = value
		}
	}
	return said, nil
}

// described reads the request from the headers of nginx, Caddy and Traefik.
func described(r *http.Request) (t target, err error) {
	for _, part := range []struct {
		into  *string
		names []string
	}{
		{&t.method, []string{"X-Original-Method", "X-Forwarded-Method"}},
		{&t.uri, []string{"X-Original-Uri", "X-Forwarded-Uri"}},
		{&t.host, []string{"X-Forwarded-Host"}},
		{&t.scheme, []string{"X-Forwarded-Proto"}},
	} {
		if *part.into, err = agreed(r.Header, part.names...); err != nil {
			return t, err
		}
		if *part.into == "" {
			return t, unclear(strings.Join(part.names, " or ") + " is missing")
		}
	}
	return t, nil
}

// own reads the request from the one that Envoy sends, which has its method, host and path. What
// headers say too must be the same.
func own(r *http.Request) (t target, err error) {
	t.method, t.host = r.Method, r.Host
	rest, is := strings.CutPrefix(r.RequestURI, strings.TrimSuffix(EnvoyPrefix, "/"))
	if !is {
		return t, unclear("the path has another prefix")
	}
	t.uri = rest
	if t.scheme, err = single(r.Header, "X-Forwarded-Proto"); err != nil {
		return t, err
	}
	if t.scheme == "" {
		return t, unclear("X-Forwarded-Proto is missing")
	}
	for _, said := range []struct{ value, original, forwarded string }{
		{t.method, "X-Original-Method", "X-Forwarded-Method"}, {t.uri, "X-Original-Uri", "X-Forwarded-Uri"}, {t.host, "X-Forwarded-Host", "X-Forwarded-Host"},
	} {
		value, err := agreed(r.Header, said.original, said.forwarded)
		if err != nil {
			return t, err
		}
		if value != "" && value != said.value {
			return t, unclear(said.forwarded + " is not what was sent")
		}
	}
	return t, nil
}
