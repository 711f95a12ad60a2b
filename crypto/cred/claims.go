package cred

import (
	"time"

	"github.com/google/uuid"

	"attestd/crypto/strictjson"
)

// claims are the claims of a token as they are spelt there, each valid JSON; nil where absent.
// Members with other names are ignored (RFC 7519 section 4).
type claims struct {
	iss, sub, aud, jti, iat, nbf, exp []byte
	act, scope                        []byte
	cnf, namespaced                   []byte
}

func readClaims(src []byte, ns string) (claims, error) {
	var c claims
	err := strictjson.EachMember(src, maxDepth, func(name, value []byte) {
		switch string(name) {
		case "iss":
			c.iss = value
		case "sub":
			c.sub = value
		case "aud":
			c.aud = value
		case "jti":
			c.jti = value
		case "iat":
			c.iat = value
		case "nbf":
			c.nbf = value
		case "exp":
			c.exp = value
		case "act":
			c.act = value
		case "scope":
			c.scope = value
		case "cnf":
			c.cnf = value
		case ns:
			c.namespaced = value
		}
	})
	return c, err
}

// checkCommon makes the checks that all kinds share, from TOKEN_EXPIRED to INVALID_ISSUER. It
// ignores malformed times, which readLifetime refuses later.
func (i *Issuer) checkCommon(c claims, audience string, now time.Time) error {
	at := now.Unix()
	if exp, ok := asTime(c.exp); ok && exp <= at {
		return refuse(CodeTokenExpired, "token has expired")
	}
	if nbf, ok := asTime(c.nbf); ok && nbf > at {
		return refuse(CodeTokenNotYetValid, "token is not valid yet")
	}
	if aud, ok := strictjson.AsStrings(c.aud); !ok || len(aud) != 1 || aud[0] != audience {
		return refuse(CodeAudienceMismatch, "token audience is not "+audience)
	}
	if iss, ok := strictjson.AsString(c.iss); !ok || iss != i.issuer {
		return refuse(CodeInvalidIssuer, "token issuer is not "+i.issuer)
	}
	return nil
}

// lifetime has the times and the ID of a token.
type lifetime struct {
	id            string // jti
	iat, nbf, exp int64  // Unix seconds
}

// readLifetime parses the numeric claims and jti of a kind of token with the largest lifetime most.
// Its errors have CodeMalformedClaims. It also refuses a token whose nbf is before its iat, which
// could be valid for longer than most.
func readLifetime(c claims, most time.Duration) (lifetime, error) {
	var l lifetime
	var ok1, ok2, ok3, ok4 bool
	l.iat, ok1 = asTime(c.iat)
	l.nbf, ok2 = asTime(c.nbf)
	l.exp, ok3 = asTime(c.exp)
	l.id, ok4 = strictjson.AsString(c.jti)
	switch {
	case !ok1 || !ok2 || !ok3:
		return l, refuse(CodeMalformedClaims, "iat, nbf and exp must be Unix seconds")
	case l.exp <= l.iat:
		return l, refuse(CodeMalformedClaims, "exp must be after iat")
	case l.nbf < l.iat:
		return l, refuse(CodeMalformedClaims, "nbf must not be before iat")
	case l.exp-l.iat > int64(most/time.Second):
		return l, refuse(CodeMalformedClaims, "exp is later than a token of this kind may last")
	case !ok4 || len(l.id) != 36 || uuid.Validate(l.id) != nil:
		return l, refuse(CodeMalformedClaims, "jti must be a UUID")
	}
	return l, nil
}

// asTime reads a NumericDate in whole seconds, up to the year 9999.
func asTime(value []byte) (int64, bool) {
	const last = 253402300799
	n, ok := strictjson.AsInteger(value)
	return n, ok && n <= last
}
