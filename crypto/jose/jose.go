// Package jose reads and makes what agents sign with keys of their own: public keys, private keys
// in files, and compact JWS. It has no clock and does no I/O.
//
// # Public key
//
// A JSON Web Key (RFC 7517), read by the strict parser, of at most 4096 bytes:
//
//	Ed25519 (RFC 8037 §2)        {"kty":"OKP","crv":"Ed25519","x"}
//	P-256   (RFC 7518 §6.2.1)    {"kty":"EC","crv":"P-256","x","y"}
//
// Every other kty and crv is refused. A coordinate is exactly 32 bytes in base64url without
// padding, in its one spelling. A P-256 point must be on the curve. An Ed25519 point must be on the
// curve, in its one encoding, and not of small order: everybody can sign for a point of small
// order.
//
// A member of a private or secret key (d, p, q, dp, dq, qi, oth, k) is refused, and so are the
// public members of another kind of key (n, e; y with OKP). Where they are there, use must be
// "sig", key_ops must be distinct strings with "verify" among them, and alg must be an algorithm of
// the key. All other members, kid among them, are ignored, as RFC 7517 §4 demands. Only kty, crv, x
// and y are stored and published; see [Key.JWK].
//
// A key is named by its thumbprint (RFC 7638): SHA-256 over {"crv","kty","x"[,"y"]}, base64url
// without padding, 43 characters.
//
// # Private key
//
// The same JWK with d (32 bytes: the seed of RFC 8032, or the scalar of RFC 7518 §6.2.2), alg and
// kid, on one line. The public members must be those of d, and key_ops, where it is there, must
// include "sign".
//
// # Algorithms
//
// An Ed25519 key signs EdDSA (RFC 8037 §3.1), a P-256 key ES256 (RFC 7518 §3.4). "Ed25519" is the
// name that RFC 9864 gives to the same algorithm, and some libraries write it: [Key.Verify] accepts
// it of an Ed25519 key. A signature is 64 bytes. For P-256 that is R then S, and it may be either
// of the two that (R, S) and (R, n-S) are: who sees an ES256 signature can write the other one. So
// two tokens say the same exactly when their first two parts are equal.
//
// # Compact JWS
//
// RFC 7515 §3.1 and §7.1: three parts, each base64url without padding in its one spelling, no line
// breaks, a header that is a strict JSON object. The header members crit and b64, which change what
// is verified, and jku, x5u and x5c, which say with which key, are refused. See [Parse] and
// [Key.Verify].
package jose

import (
	"encoding/base64"
	"errors"
	"strings"
)

// base64url refuses trailing bits that are not zero, so that bytes have one spelling.
var base64url = base64.RawURLEncoding.Strict()

// decode decodes base64url in its one spelling. The decoder refuses padding and stray bits, but
// skips line breaks.
func decode(text string) ([]byte, bool) {
	if strings.ContainsAny(text, "\r\n") {
		return nil, false
	}
	b, err := base64url.DecodeString(text)
	return b, err == nil
}

// ErrSignature reports that a token is not signed by a key: another algorithm than the key's, a
// signature of another length, or one that is not of these bytes.
var ErrSignature = errors.New("signature is invalid")
