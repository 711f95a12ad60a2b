package idtoken

import (
	"slices"
	"strings"

	"attestd/crypto/cred/details"
	"attestd/crypto/jose"
	"attestd/crypto/strictjson"
)

// TypeIdentity is the typ of an identity assertion, in lower case.
const TypeIdentity = "oauth-id-jag+jwt"

// maxPerson bounds the sub of a person (OpenID Connect Core 1.0 §2).
const maxPerson = 255

// Identity is an identity assertion of a person (ID-JAG, draft-ietf-oauth-identity-assertion-authz-
// grant): an enterprise's identity provider says to one authorization server that a person lets one
// client act. It is a Token of typ oauth-id-jag+jwt, with these further claims:
//
//	client_id  1 to 128 visible ASCII characters
//	sub        1 to 255 visible ASCII characters
//	jti        1 to 128 visible ASCII characters, and iat
//	scope      text, where it is there
//	resource   text or a list of texts, where it is there
//	cnf        where it is there, {"jkt"}: the key of which the client must have a proof
//	authorization_details  those of package details, where they are there
//
// One with may_act is refused: it says more than is understood here.
type Identity struct {
	*Token
	ClientID  string
	Scope     *string // nil where absent
	Resources []string
	JKT       string // "" where it is bound to no key
	Details   details.Details
}

// IsIdentity reports whether a token says that it is an identity assertion. Nothing of it is
// checked. [Parse] refuses one, and [ParseIdentity] everything else.
func IsIdentity(compact string) bool {
	jws, err := jose.Parse(compact, MaxSize)
	return err == nil && typeOf(jws) == TypeIdentity
}

// ParseIdentity reads an identity assertion. It requires the form alone; every error is an *Error.
func ParseIdentity(compact string) (*Identity, error) {
	t, err := parse(compact, []string{TypeIdentity})
	if err != nil {
		return nil, err
	}
	i := &Identity{Token: t}
	claims := t.Claims.members
	if _, given := claims["may_act"]; given {
		return nil, refuse("has may_act, which is not accepted of a person")
	}
	if limits, given := claims["authorization_details"]; given {
		if i.Details, err = details.Parse(limits); err != nil {
			return nil, refuse("has authorization_details that are not understood")
		}
	}
	var ok bool
	if i.ClientID, ok = strictjson.AsString(claims["client_id"]); !ok || !jose.IsID(i.ClientID) {
		return nil, refuse("must have the client that presents it as client_id")
	}
	if len(t.Subject) > maxPerson || !isVisible(t.Subject) {
		return nil, refuse("must have a sub of at most 255 visible ASCII characters")
	}
	if _, given := claims["iat"]; !given || !jose.IsID(t.ID) {
		return nil, refuse("must have iat, and a jti of 1 to 128 visible ASCII characters")
	}
	if scope, given := claims["scope"]; given {
		text, ok := strictjson.AsString(scope)
		if !ok {
			return nil, refuse("has a scope that is no text")
		}
		i.Scope = &text
	}
	if resource, given := claims["resource"]; given {
		text, one := strictjson.AsString(resource)
		if i.Resources, ok = strictjson.AsStrings(resource); one {
			i.Resources = []string{text}
		}
		if !one && (!ok || len(i.Resources) == 0) {
			return nil, refuse("has a resource that is neither a text nor a list of texts")
		}
	}
	if cnf, given := claims["cnf"]; given {
		if i.JKT, ok = t.Claims.textAt("/cnf/jkt"); !ok || !jose.IsThumbprint(i.JKT) || !isOnly(cnf, "jkt") {
			return nil, refuse("has a cnf that is not the thumbprint of a key, jkt")
		}
	}
	return i, nil
}

func (c Claims) textAt(pointer string) (string, bool) {
	value, is := c.At(pointer)
	text, ok := strictjson.AsString(value)
	return text, is && ok
}

// isOnly reports whether an object has one member, of a name.
func isOnly(object []byte, name string) bool {
	var names []string
	err := strictjson.EachMember(object, maxDepth, func(n, _ []byte) { names = append(names, string(n)) })
	return err == nil && slices.Equal(names, []string{name})
}

func isVisible(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
}
