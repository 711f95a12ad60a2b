// Package idtoken checks the JWTs with which workloads prove an identity that another issuer gave
// them: a CI system, a cluster, a SPIFFE server, a company's identity provider. It has no clock,
// does no I/O and remembers nothing.
//
// # Form
//
// A token is a compact JWS of at most 16 KiB, as package jose reads one (RFC 7519, RFC 8725):
//
//	header  alg  RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, ES512, EdDSA or Ed25519
//	        kid  text, where the issuer has several keys
//	        typ  absent, JWT, JOSE or at+jwt, in any case
//	claims  iss  1 to 2048 bytes, and sub, 1 to 1024
//	        aud  a string, or a list of exactly one
//	        exp  Unix seconds; a fraction is dropped, here and below
//	        nbf, iat  Unix seconds, where they are there
//	        jti  1 to 256 bytes, where it is there
//
// Claims are strict JSON, at most 32 deep, without duplicate members at any depth. A token with the
// header members crit, b64, jku, x5u, x5c or jwk is refused, and so are an encrypted one (JWE), one
// around another, a security event (RFC 8417), which says what happened and not who asks, and one
// with act (RFC 8693 §4.1), which somebody else than its subject presents.
//
// # Check
//
// In this order: issuer, key, signature, audience, exp, nbf, iat. The key is the only one of
// the issuer's [KeySet] that fits kid and alg; where two fit, none does. exp is later than the
// clock, which has no leeway, and at most a day ahead; nbf and iat are at most 60 s ahead.
//
// Two checks are the caller's: whether the workload may do what it asks, and that a jti counts
// once. Until exp a jti must be remembered.
//
// A [KeySet] may also be that of an OAuth client, whose assertions package assertion reads: see
// [KeySet.Verify].
package idtoken

import (
	"slices"
	"strings"
	"time"

	"attestd/crypto/jose"
	"attestd/crypto/strictjson"
)

const (
	MaxSize      = 16 << 10       // bytes of a token
	MaxAhead     = time.Minute    // how far nbf and iat may be ahead of the clock
	MaxRemaining = 24 * time.Hour // how far exp may be

	maxIssuer  = 2048
	maxSubject = 1024
	maxID      = 256
	maxDepth   = 32 // of a claim
)

// types are the values of typ, in lower case: those of tokens that identify a person. An identity
// assertion says it of a person (see [Identity]), a logout token of a session, and so on.
var types = []string{"", "jwt", "jose", "at+jwt"}

// typeOf is the typ of a header as one spells it: a media type, which has no case (RFC 7515 §4.1.9)
func typeOf(jws jose.Token) string {
	return strings.TrimPrefix(strings.ToLower(jws.Header.Type), "application/")
}

// Token is a token of the right form. Its signature is not checked.
type Token struct {
	Issuer, Subject string
	Audience        string
	ID              string // jti; "" without one
	Ends            time.Time
	Claims          Claims

	issued, valid int64 // iat and nbf; 0 where absent
	jws           jose.Token
}

// Error is the reason why a token is refused. It contains nothing of the token, so it can be sent
// and logged. It is [jose.ErrSignature] where no key of the set has signed the token: a newer set
// may have the key.
type Error struct {
	Message string
	cause   error
}

func (e *Error) Error() string { return e.Message }

func (e *Error) Unwrap() error { return e.cause }

func refuse(message string) error { return &Error{Message: "the assertion " + message} }

func unsigned(message string) error { return &Error{"the assertion " + message, jose.ErrSignature} }

// Parse reads a token. It requires the form alone; every error is an *Error.
func Parse(compact string) (*Token, error) { return parse(compact, types) }

func parse(compact string, types []string) (*Token, error) {
	if len(compact) <= MaxSize && strings.Count(compact, ".") == 4 {
		return nil, refuse("is encrypted (JWE): send it signed alone")
	}
	jws, err := jose.Parse(compact, MaxSize)
	switch {
	case err != nil:
		return nil, refuse(err.Error())
	case jws.Header.JWK != nil:
		return nil, refuse("header must not have a jwk: the key is one that the issuer publishes")
	case !isAlgorithm(jws.Header.Algorithm):
		return nil, refuse("must have an asymmetric algorithm as alg: RS256, PS256, ES256, EdDSA or a longer one")
	case !slices.Contains(types, typeOf(jws)):
		return nil, refuse("is of a typ that is not accepted here")
	}
	t, err := readClaims(jws.Payload)
	if err != nil {
		return nil, err
	}
	t.jws = jws
	return t, nil
}

func readClaims(payload []byte) (*Token, error) {
	claims, err := ParseClaims(payload)
	if err != nil {
		return nil, err
	}
	t := &Token{Claims: claims}
	text := func(name string, most int) (string, bool) {
		s, ok := strictjson.AsString(claims.members[name])
		return s, ok && s != "" && len(s) <= most
	}
	var ok bool
	if t.Issuer, ok = text("iss", maxIssuer); !ok {
		return nil, refuse("must have the issuer as iss")
	}
	if t.Subject, ok = text("sub", maxSubject); !ok {
		return nil, refuse("must have a sub of at most 1024 bytes")
	}
	if t.Audience, ok = text("aud", maxIssuer); !ok {
		list, ok := strictjson.AsStrings(claims.members["aud"])
		if !ok || len(list) != 1 {
			return nil, refuse("must have exactly one aud")
		}
		t.Audience = list[0]
	}
	if _, given := claims.members["jti"]; given {
		if t.ID, ok = text("jti", maxID); !ok {
			return nil, refuse("has a jti that is not 1 to 256 bytes of text")
		}
	}
	ends, ok := jose.NumericDate(claims.members["exp"])
	if !ok {
		return nil, refuse("must have exp in Unix seconds")
	}
	t.Ends = time.Unix(ends, 0)
	for name, into := range map[string]*int64{"iat": &t.issued, "nbf": &t.valid} {
		if value, given := claims.members[name]; given {
			if *into, ok = jose.NumericDate(value); !ok {
				return nil, refuse("has an " + name + " that is not in Unix seconds")
			}
		}
	}
	if _, acts := claims.members["act"]; acts {
		return nil, refuse("has act: somebody else acts for its subject (RFC 8693 §4.1), and a workload acts for itself")
	}
	if _, event := claims.members["events"]; event {
		return nil, refuse("is a security event, such as a logout, and no identity")
	}
	return t, nil
}

// KeyID is the kid that names the key, "" where there is none.
func (t *Token) KeyID() string { return t.jws.Header.KeyID }

// Wanted is what a token must be.
type Wanted struct{ Issuer, Audience string }

// Check requires that t is what is wanted, is signed with a key of its issuer, and counts now.
// Every error is an *Error.
func (t *Token) Check(keys *KeySet, w Wanted, now time.Time) error {
	ahead := now.Add(MaxAhead).Unix()
	if t.Issuer != w.Issuer {
		return refuse("is of another issuer")
	}
	if err := keys.verifyOnly(t.jws); err != nil {
		return err
	}
	switch {
	case t.Audience != w.Audience:
		return refuse("must have the audience of the federation as aud")
	case !now.Before(t.Ends):
		return refuse("has ended by its exp")
	case t.Ends.After(now.Add(MaxRemaining)):
		return refuse("has an exp more than a day ahead")
	case t.valid > ahead:
		return refuse("is not valid yet by its nbf")
	case t.issued > ahead:
		return refuse("has an iat more than 60 s ahead")
	}
	return nil
}

// Claims are the claims of a token, as they are spelt.
type Claims struct{ members map[string][]byte }

// ParseClaims reads the payload of a token. Every error is an *Error.
func ParseClaims(payload []byte) (Claims, error) {
	c := Claims{make(map[string][]byte, 16)}
	err := strictjson.EachMember(payload, maxDepth, func(name, value []byte) { c.members[string(name)] = value })
	switch {
	case err == strictjson.ErrKind && len(payload) > 0 && payload[0] == '"':
		return Claims{}, refuse("is one around another: send the inner one")
	case err != nil: // which may hold text of the token
		return Claims{}, refuse("has claims that are not a JSON object without duplicate members")
	}
	return c, nil
}

// At returns the value of a claim as it is spelt. A name that begins with / is a JSON Pointer (RFC
// 6901) into objects, such as /kubernetes.io/namespace; any other is that of a claim itself. A list
// is not entered.
func (c Claims) At(name string) (value []byte, is bool) {
	if !strings.HasPrefix(name, "/") {
		value, is = c.members[name]
		return value, is
	}
	members := c.members
	for parts := strings.Split(name[1:], "/"); ; parts = parts[1:] {
		value, is = members[unescape(parts[0])]
		if !is || len(parts) == 1 {
			return value, is
		}
		members = make(map[string][]byte)
		// an error is that of another kind: duplicates were refused when the claims were read
		if strictjson.EachMember(value, maxDepth, func(name, value []byte) { members[string(name)] = value }) != nil {
			return nil, false
		}
	}
}

var pointerEscapes = strings.NewReplacer("~1", "/", "~0", "~")

func unescape(part string) string { return pointerEscapes.Replace(part) }
