package cred

import (
	"slices"

	"attestd/crypto/strictjson"
)

// TypeAccessToken is the typ of access tokens in the form of a JWT (RFC 9068), whose act has the
// nesting of RFC 8693.
const TypeAccessToken = "at+jwt"

// ReadDelegation reads a token that an action is done with: an SVID or delegation token, or an
// access token, told apart by typ. It makes of it the DelegationInfo that the record will have, and
// verifies nothing: that is the service's to do. An agent needs it for what it signs beside the
// token. The error is an *Error.
func ReadDelegation(compact string) (Delegation, error) {
	t, err := parse(compact, "")
	if err != nil {
		return Delegation{}, err
	}
	if t.Header.Type != TypeJWT && t.Header.Type != TypeAccessToken {
		return Delegation{}, refuse(CodeWrongTokenType, "token type is neither JWT nor at+jwt: with such a token no action is done")
	}
	sub, ok1 := strictjson.AsString(t.claims.sub)
	id, ok2 := strictjson.AsString(t.claims.jti)
	if !ok1 || !ok2 {
		return Delegation{}, refuse(CodeMalformedClaims, "token must have sub and jti")
	}
	chain, err := appendActors([]string{sub}, t.claims.act, func(string) bool { return true })
	if err != nil {
		return Delegation{}, err
	}
	if t.Header.Type == TypeAccessToken {
		slices.Reverse(chain[1:])
		return NewDelegation(chain, id, ""), nil
	}
	return Delegation{Subject: sub, Chain: chain, Act: t.claims.act, TokenID: id}, nil
}
