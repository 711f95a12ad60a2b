// Package dpop checks and makes DPoP proofs (RFC 9449): that whoever sends a request holds a
// private key. It has no clock and remembers nothing.
//
// # Form
//
// A proof is a compact JWS of at most 8192 bytes, as package jose reads one (RFC 9449 §4.2):
//
//	header  typ  dpop+jwt
//	        alg  EdDSA, Ed25519 or ES256, as the key is
//	        jwk  the public key; see package jose for what is refused
//	claims  jti  1 to 128 visible ASCII characters
//	        htm  the method of the request
//	        htu  the URL of the request
//	        iat  Unix seconds, perhaps with a fraction, which is dropped
//	        ath  base64url without padding of the SHA-256 of the access token, where one is sent
//
// Other header members are ignored, except those that package jose refuses. Of the other claims
// exp and nbf count, as RFC 7519 demands: a proof is refused from exp on, and when nbf is more than
// 5 minutes ahead. All the rest is ignored, and so is an ath beside which no token is sent. Claims
// are strict JSON.
//
// # Check
//
// In this order, after RFC 9449 §4.3: form, type, key, signature, claims, htm, htu, iat, exp, nbf,
// ath, the thumbprint of the key. htm is compared as it is spelt. iat may be 5 minutes before or
// after the clock.
//
// htu and the URL of the request are compared without query and fragment, in normal form (RFC 3986
// §6.2.2 and §6.2.3): scheme and host in lower case, no default port, unreserved characters
// decoded, other escapes in upper case, dot segments removed, no empty path. Both must be absolute
// URLs of http or https in ASCII, of at most 4096 bytes, without user information, and with a host
// that has no escapes but of unreserved characters.
//
// Three checks are the caller's: that the request has one DPoP header alone, that the nonce is one
// that it has handed out, where it demands one, and that a key has not used the jti before. A jti
// must be remembered for as long as its proof is accepted: see [Proof].
package dpop

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"time"

	"github.com/google/uuid"

	"attestd/crypto/jcs"
	"attestd/crypto/jose"
)

const (
	Type   = "dpop+jwt"      // typ of every proof
	Window = 5 * time.Minute // how far iat may be from the clock, either way

	MaxSize  = 8192 // bytes of a proof
	MaxURL   = 4096 // bytes of htu and of the URL of a request
	MaxNonce = 256  // bytes of a nonce
	maxDepth = 128  // of a claim
)

// Request is what a proof is for.
type Request struct {
	Method      string // e.g. POST
	URL         string // absolute; its query and fragment do not count
	AccessToken string // what the proof is sent with; "" without one
	Nonce       string // what the server demands, for Make; "" for none
}

// Proof is a proof that passed all checks.
type Proof struct {
	Key      *jose.Key
	ID       string    // jti
	Nonce    string    // "" without one
	IssuedAt time.Time // iat; Check accepts the proof until Window after that second
}

// Error is the reason why a proof is refused. It contains nothing of the proof but a distance in
// time, so it can be sent and logged.
type Error struct{ Message string }

func (e *Error) Error() string { return e.Message }

func refuse(message string) error { return &Error{"DPoP proof " + message} }

// Check checks a proof for a request. thumbprint is that of the key to which the access token, or
// whatever the proof is about, is bound; "" accepts any key. Every error is an *Error.
func Check(proof string, r Request, thumbprint string, now time.Time) (Proof, error) {
	t, err := jose.Parse(proof, MaxSize)
	switch {
	case err != nil:
		return Proof{}, refuse(err.Error())
	case t.Header.Type != Type:
		return Proof{}, refuse("is not of typ " + Type)
	case t.Header.JWK == nil:
		return Proof{}, refuse("has no jwk")
	}
	key, err := jose.ParseKey(t.Header.JWK)
	if err != nil {
		return Proof{}, refuse("is refused: its jwk " + err.Error())
	}
	if key.Verify(t) != nil {
		return Proof{}, refuse("is not signed with the key of its jwk, or not with that key's algorithm")
	}
	c, err := readClaims(t.Payload)
	if err != nil {
		return Proof{}, err
	}
	if err := c.fit(r, now); err != nil {
		return Proof{}, err
	}
	if thumbprint != "" && thumbprint != key.Thumbprint {
		return Proof{}, refuse("is of another key than the one that is bound")
	}
	return Proof{Key: key, ID: c.id, Nonce: c.nonce, IssuedAt: time.Unix(c.iat, 0)}, nil
}

// fit checks the claims against the request and the clock.
func (c claims) fit(r Request, now time.Time) error {
	at, window := now.Unix(), int64(Window/time.Second)
	htu, ok1 := normalize(c.url)
	url, ok2 := normalize(r.URL)
	switch {
	case c.method != r.Method:
		return refuse("has an htm that is not the method of the request")
	case !ok1:
		return refuse("has an htu that is no absolute URL of http or https")
	case !ok2 || htu != url:
		return refuse("has an htu that is not the URL of the request")
	case c.iat < at-window:
		return refuse("has an iat " + strconv.FormatInt(at-c.iat, 10) + " s ago: make a new proof for each request")
	case c.iat > at+window:
		return refuse("has an iat " + strconv.FormatInt(c.iat-at, 10) + " s ahead: set the clock")
	case c.exp != nil && *c.exp <= at:
		return refuse("has expired by its exp")
	case c.nbf != nil && *c.nbf > at+window:
		return refuse("is not valid yet by its nbf")
	case r.AccessToken != "" && c.ath == "":
		return refuse("has no ath, which it needs beside an access token")
	case r.AccessToken != "" && c.ath != hashOf(r.AccessToken):
		return refuse("has an ath that is not of the access token")
	}
	return nil
}

// hashOf is the ath of an access token.
func hashOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// Make makes a proof for a request. Each request needs a new one.
func Make(ctx context.Context, s jose.Signer, r Request, now time.Time) (string, error) {
	htu, ok := normalize(r.URL)
	if !ok {
		return "", refuse("needs an absolute URL of http or https")
	}
	if r.Method == "" {
		return "", refuse("needs a method")
	}
	payload := jcs.AppendString([]byte(`{"jti":`), uuid.NewString())
	payload = jcs.AppendString(append(payload, `,"htm":`...), r.Method)
	payload = jcs.AppendString(append(payload, `,"htu":`...), htu)
	payload = strconv.AppendInt(append(payload, `,"iat":`...), now.Unix(), 10)
	if r.AccessToken != "" {
		payload = jcs.AppendString(append(payload, `,"ath":`...), hashOf(r.AccessToken))
	}
	if r.Nonce != "" {
		payload = jcs.AppendString(append(payload, `,"nonce":`...), r.Nonce)
	}
	return jose.SignWithJWK(ctx, s, Type, append(payload, '}'))
}
