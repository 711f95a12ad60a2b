package httpapi

import (
	"slices"
	"strings"

	"attestd/store"
)

// outsideRole is the response to a valid credential whose role is insufficient, which names the
// scope that would do (RFC 6750 §3.1), and where tokens with it are had (RFC 9728 §5.1).
func (c *Call) outsideRole(by store.Caller, needs store.Role) *Error {
	scheme := "Bearer"
	if c.proof != nil {
		scheme = "DPoP"
	}
	return outsideRole(by.Role, needs).With("WWW-Authenticate", challenge(scheme, `error="insufficient_scope"`, c.scope(), c.metadata(by.Company.ID)))
}

// challenge is a challenge with its parameters (RFC 9110 §11.6.1), of which "" is left out.
func challenge(scheme string, params ...string) string {
	params = slices.DeleteFunc(params, func(p string) bool { return p == "" })
	return strings.TrimSuffix(scheme+" "+strings.Join(params, ", "), " ")
}

// metadata is the parameter of a challenge that names the metadata of the resource: those of the
// whole where the company is not known, and none where the name of the request is not the server's.
func (c *Call) metadata(companyID string) string {
	base := c.OwnBase()
	if base == "" {
		return ""
	}
	if companyID != "" {
		companyID = "/o/" + companyID
	}
	return `resource_metadata="` + base + "/.well-known/oauth-protected-resource" + companyID + `"`
}

// scope is the parameter of a challenge that names the scope that would do, if there is one.
func (c *Call) scope() string {
	if scope := string(c.needs.Who.Role()); slices.Contains(ScopesSupported, scope) {
		return `scope="` + scope + `"`
	}
	return ""
}

// challenges completes the challenges of a 401: with the metadata alone without a credential, and
// else with the error first. A refusal of what a client authenticates itself with at an OAuth
// endpoint is about no access to a resource (RFC 6749 §5.2). It stays as it is, and names the other
// scheme where an access token would do as well.
func (c *Call) challenges(of []string) (completed []string) {
	metadata := c.metadata(c.PathValue("companyId"))
	for _, given := range of {
		scheme, params, _ := strings.Cut(given, " ")
		switch {
		case scheme == "Basic":
			if completed = append(completed, given); c.needs.Who&Anonymous == 0 {
				completed = append(completed, challenge("Bearer", metadata))
			}
		case params == "" && !c.claimed:
			completed = append(completed, challenge(scheme, metadata))
		case params == "":
			completed = append(completed, challenge(scheme, `error="invalid_token"`, c.scope(), metadata))
		default:
			completed = append(completed, challenge(scheme, params, c.scope(), metadata))
		}
	}
	return completed
}

// ScopesSupported are the scopes that a token may have, the widest first.
var ScopesSupported = []string{"admin", "writer", "reader", "agent"}
