package jose

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"attestd/crypto/jcs"
	"attestd/crypto/strictjson"
)

// maxDepth is how deep a member of a header may nest.
const maxDepth = 128

// Header has what is read of a JOSE header.
type Header struct {
	Algorithm string // alg; "" where absent or not a string, as the next two
	Type      string // typ
	KeyID     string // kid
	JWK       []byte // jwk as it is spelt; nil where absent
	Extra     int    // how many members it has apart from these four
}

// Token is a compact JWS of which the form is checked and nothing else.
type Token struct {
	Header    Header
	Payload   []byte
	Signed    string // what the signature covers: the first two parts
	Signature []byte
}

// Parse reads a compact JWS of at most maxSize bytes. It checks form alone: the algorithm is judged
// by [Key.Verify], type and payload by the caller. Its errors read well after the word token and
// contain no part of it.
func Parse(compact string, maxSize int) (Token, error) {
	if len(compact) > maxSize {
		return Token{}, fmt.Errorf("is longer than %d bytes", maxSize)
	}
	head, rest, ok1 := strings.Cut(compact, ".")
	body, sig, ok2 := strings.Cut(rest, ".")
	if !ok1 || !ok2 || strings.Contains(sig, ".") {
		return Token{}, errors.New("does not have three parts")
	}
	header, ok1 := decode(head)
	payload, ok2 := decode(body)
	signature, ok3 := decode(sig)
	if !ok1 || !ok2 || !ok3 {
		return Token{}, errors.New("is not base64url without padding")
	}
	t := Token{Payload: payload, Signed: compact[:len(head)+1+len(body)], Signature: signature}
	forbidden := false
	err := strictjson.EachMember(header, maxDepth, func(name, value []byte) {
		switch string(name) {
		case "alg":
			t.Header.Algorithm, _ = strictjson.AsString(value)
		case "typ":
			t.Header.Type, _ = strictjson.AsString(value)
		case "kid":
			t.Header.KeyID, _ = strictjson.AsString(value)
		case "jwk":
			t.Header.JWK = value
		case "crit", "b64", "jku", "x5u", "x5c":
			forbidden = true
		default:
			t.Header.Extra++
		}
	})
	switch {
	case err != nil: // which may hold text of the token
		return Token{}, errors.New("header is not a JSON object without duplicate members")
	case forbidden:
		return Token{}, errors.New("header has a member that is not allowed")
	}
	return t, nil
}

// Signer signs with a key that may be elsewhere: in memory ([PrivateKey]), a TPM, a keychain or a
// KMS.
type Signer interface {
	// Key is the public key with which the signatures verify. It is always the same one.
	Key() *Key

	// Sign signs input, the first two parts of a compact JWS. The signature is 64 bytes: that of
	// Ed25519 over input, or R and S of ECDSA over its SHA-256, 32 bytes each, big-endian. (A KMS
	// returns the latter in DER; its two integers are to be taken out.)
	Sign(ctx context.Context, input string) ([]byte, error)
}

// Sign makes a compact JWS with the header {"alg","typ"} and then kid, the thumbprint. payload is
// the text of the payload.
func Sign(ctx context.Context, s Signer, typ string, payload []byte) (string, error) {
	return sign(ctx, s, typ, jcs.AppendString([]byte(`,"kid":`), s.Key().Thumbprint), payload)
}

// SignWithJWK makes a compact JWS with the header {"alg","typ"} and then jwk, the public key.
func SignWithJWK(ctx context.Context, s Signer, typ string, payload []byte) (string, error) {
	return sign(ctx, s, typ, append([]byte(`,"jwk":`), s.Key().jwk...), payload)
}

// sign verifies what the signer returns, so that a signer of another key, or of another form, is
// found here and not by the verifier.
func sign(ctx context.Context, s Signer, typ string, naming, payload []byte) (string, error) {
	key := s.Key()
	header := jcs.AppendString([]byte(`{"alg":`), key.Algorithm)
	header = jcs.AppendString(append(header, `,"typ":`...), typ)
	header = append(append(header, naming...), '}')

	length := base64url.EncodedLen(len(header)) + 1 + base64url.EncodedLen(len(payload))
	buf := make([]byte, 0, length+1+base64url.EncodedLen(SignatureSize))
	buf = base64url.AppendEncode(buf, header)
	buf = base64url.AppendEncode(append(buf, '.'), payload)
	input := string(buf)
	signature, err := s.Sign(ctx, input)
	if err != nil {
		return "", fmt.Errorf("sign with key %s: %w", key.Thumbprint, err)
	}
	made := Token{Header: Header{Algorithm: key.Algorithm}, Signed: input, Signature: signature}
	if key.Verify(made) != nil {
		return "", errors.New("the signer of key " + key.Thumbprint + " returned what is no signature of it: " +
			"64 bytes are due, of Ed25519, or R and S of ES256")
	}
	return string(base64url.AppendEncode(append(buf, '.'), signature)), nil
}

// NumericDate reads seconds since 1970 from a claim (RFC 7519 §2), up to the year 9999, and drops
// their fraction. Some libraries write a fraction or an exponent.
func NumericDate(value []byte) (seconds int64, ok bool) {
	const longest, last = 32, 253402300799
	if len(value) == 0 || len(value) > longest || value[0] < '0' || value[0] > '9' {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(value), 64)
	return int64(f), err == nil && f <= last
}

// IsID reports whether a jti is 1 to 128 visible ASCII characters, as every token of an agent's has
// it.
func IsID(jti string) bool {
	for i := range len(jti) {
		if jti[i] <= ' ' || jti[i] > '~' {
			return false
		}
	}
	return len(jti) >= 1 && len(jti) <= 128
}
