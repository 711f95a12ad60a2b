package cred

import (
	"crypto/ed25519"
	"encoding/base64"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"attestd/crypto/jcs"
	"attestd/crypto/strictjson"
)

const (
	Algorithm    = "EdDSA"   // alg of every token
	TypeJWT      = "JWT"     // typ of SVIDs and delegation tokens
	TypePassport = "CAP+JWT" // typ of passports
	MaxTokenSize = 16 << 10  // bytes of a whole token; longer ones are neither issued nor read
	maxDepth     = 128       // of a claim or a header member; act with MaxActors is far from it
)

// token is a well-formed compact JWS. Nothing in it is verified yet.
type token struct {
	alg, typ, kid string // "" where absent or not a string
	signed        string // what the signature covers: the first two parts
	signature     []byte
	claims        claims
}

// parse makes the checks of form that a JWT library leaves out: three base64url parts without
// padding that encode back to themselves, strict JSON objects, and no header member that would
// change what is verified or with which key. ns is the name of the namespaced claim. All that it
// refuses is CodeMalformedToken.
func parse(compact, ns string) (token, error) {
	var t token
	malformed := func(message string) (token, error) { return token{}, refuse(CodeMalformedToken, message) }

	if len(compact) > MaxTokenSize {
		return malformed("token is longer than 16384 bytes")
	}
	head, rest, ok1 := strings.Cut(compact, ".")
	body, sig, ok2 := strings.Cut(rest, ".")
	if !ok1 || !ok2 || strings.Contains(sig, ".") {
		return malformed("token does not have three parts")
	}
	// The decoder refuses padding and stray bits, but skips line breaks.
	header, err1 := base64url.DecodeString(head)
	payload, err2 := base64url.DecodeString(body)
	signature, err3 := base64url.DecodeString(sig)
	if err1 != nil || err2 != nil || err3 != nil || strings.ContainsAny(compact, "\r\n") {
		return malformed("token is not base64url without padding")
	}

	forbidden := false
	err := strictjson.EachMember(header, maxDepth, func(name, value []byte) {
		switch string(name) {
		case "alg":
			t.alg, _ = strictjson.AsString(value)
		case "typ":
			t.typ, _ = strictjson.AsString(value)
		case "kid":
			t.kid, _ = strictjson.AsString(value)
		case "crit", "b64", "jwk", "jku", "x5u", "x5c":
			forbidden = true
		}
	})
	if err != nil {
		return malformed("token header is not a JSON object without duplicate members")
	}
	if forbidden {
		return malformed("token header has a member that is not allowed")
	}
	if t.claims, err = readClaims(payload, ns); err != nil {
		return malformed("token claims are not a JSON object without duplicate members")
	}
	t.signed, t.signature = compact[:len(head)+1+len(body)], signature
	return t, nil
}

// base64url refuses trailing bits that are not zero, so that a token has one spelling.
var base64url = base64.RawURLEncoding.Strict()

// open parses a token and requires the kind typ and a signature of the company. kid only selects
// one of the company's own keys.
func (i *Issuer) open(compact, typ string, now time.Time) (claims, error) {
	t, err := parse(compact, i.Domain.Service)
	switch {
	case err != nil:
		return claims{}, err
	case t.alg != Algorithm:
		return claims{}, refuse(CodeAlgorithmMismatch, "token is not signed with EdDSA")
	case t.typ != typ:
		return claims{}, refuse(CodeWrongTokenType, "token type is not "+typ)
	}
	switch key := i.keyNamed(t.kid, t.claims.iat, now); {
	case key == nil:
		return claims{}, refuse(CodeSignatureInvalid, "token names no key with which the company signed tokens at its time")
	case !i.signed(compact, t, key):
		return claims{}, refuse(CodeSignatureInvalid, "token signature is invalid")
	}
	return t.claims, nil
}

// signed reports whether t, parsed from compact, has a valid signature of a key. It is called for
// accepted keys only, so cached results of other keys are never used.
func (i *Issuer) signed(compact string, t token, key ed25519.PublicKey) bool {
	id := verifiedID(key, compact)
	if i.verified.has(id) {
		return true
	}
	if jwt.SigningMethodEdDSA.Verify(t.signed, t.signature, key) != nil {
		return false
	}
	i.verified.add(id)
	return true
}

// sign makes a token of an encoded header and claims. Its only error is that the token would be too
// long.
func (i *Issuer) sign(header string, claims []byte) (string, error) {
	size := len(header) + 1 + base64url.EncodedLen(len(claims)) + 1 + base64url.EncodedLen(ed25519.SignatureSize)
	if size > MaxTokenSize {
		return "", refuse(CodeMalformedToken, "token would be longer than 16384 bytes")
	}
	buf := make([]byte, 0, size)
	buf = append(buf, header...)
	buf = base64url.AppendEncode(append(buf, '.'), claims)
	signature, err := jwt.SigningMethodEdDSA.Sign(string(buf), i.key)
	if err != nil {
		panic("cred: " + err.Error()) // only for a key that is none of Ed25519
	}
	return string(base64url.AppendEncode(append(buf, '.'), signature)), nil
}

func encodeHeader(kid, typ string) string {
	header := jcs.AppendString([]byte(`{"alg":"EdDSA","kid":`), kid)
	header = jcs.AppendString(append(header, `,"typ":`...), typ)
	return base64url.EncodeToString(append(header, '}'))
}
