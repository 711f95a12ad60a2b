package cred

import (
	"crypto/ed25519"
	"encoding/base64"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"attestd/crypto/jcs"
	"attestd/crypto/jose"
)

const (
	Algorithm    = "EdDSA"   // alg of every token
	TypeJWT      = "JWT"     // typ of SVIDs and delegation tokens
	TypePassport = "CAP+JWT" // typ of passports
	MaxTokenSize = 16 << 10  // bytes of a whole token; longer ones are neither issued nor read
	maxDepth     = 128       // of a claim; act with MaxActors is far from it
)

// token is a well-formed compact JWS. Nothing in it is verified yet.
type token struct {
	jose.Token
	claims claims
}

// parse makes the checks of form that a JWT library leaves out: those of package jose, no key in
// the header, and strict JSON claims. ns is the name of the namespaced claim. All that it refuses
// is CodeMalformedToken.
func parse(compact, ns string) (token, error) {
	t, err := jose.Parse(compact, MaxTokenSize)
	switch {
	case err != nil:
		return token{}, refuse(CodeMalformedToken, "token "+err.Error())
	case t.Header.JWK != nil:
		return token{}, refuse(CodeMalformedToken, "token header has a member that is not allowed")
	}
	c, err := readClaims(t.Payload, ns)
	if err != nil {
		return token{}, refuse(CodeMalformedToken, "token claims are not a JSON object without duplicate members")
	}
	return token{t, c}, nil
}

// base64url is how the parts of a token are encoded.
var base64url = base64.RawURLEncoding

// open parses a token and requires the kind typ and a signature of the company. kid only selects
// one of the company's own keys.
func (i *Issuer) open(compact, typ string, now time.Time) (claims, error) {
	t, err := parse(compact, i.Domain.Service)
	switch {
	case err != nil:
		return claims{}, err
	case t.Header.Algorithm != Algorithm:
		return claims{}, refuse(CodeAlgorithmMismatch, "token is not signed with EdDSA")
	case t.Header.Type != typ:
		return claims{}, refuse(CodeWrongTokenType, "token type is not "+typ)
	}
	switch key := i.keyNamed(t.Header.KeyID, t.claims.iat, now); {
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
	if jwt.SigningMethodEdDSA.Verify(t.Signed, t.Signature, key) != nil {
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
