// Package dpop checks and makes DPoP proofs (RFC 9449): that the sender of a request holds a
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
// 5 minutes ahead. All the rest is ignored, and so is an ath in a request without a token. Claims
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
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"attestd/crypto/jcs"
	"attestd/crypto/jose"
	"attestd/crypto/strictjson"
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
		return refuse("has no ath, which is required with an access token")
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

// claims are those of a proof that are read.
type claims struct {
	id, method, url, ath, nonce string
	iat                         int64
	exp, nbf                    *int64
}

func readClaims(payload []byte) (claims, error) {
	var jti, htm, htu, iat, ath, exp, nbf, nonce []byte
	err := strictjson.EachMember(payload, maxDepth, func(name, value []byte) {
		switch string(name) {
		case "jti":
			jti = value
		case "htm":
			htm = value
		case "htu":
			htu = value
		case "iat":
			iat = value
		case "ath":
			ath = value
		case "exp":
			exp = value
		case "nbf":
			nbf = value
		case "nonce":
			nonce = value
		}
	})
	if err != nil {
		return claims{}, refuse("claims are not a JSON object without duplicate members")
	}
	var c claims
	var ok [8]bool
	c.id, ok[0] = strictjson.AsString(jti)
	c.method, ok[1] = strictjson.AsString(htm)
	c.url, ok[2] = strictjson.AsString(htu)
	c.iat, ok[3] = jose.NumericDate(iat)
	c.ath, ok[4] = strictjson.AsString(ath)
	c.exp, ok[5] = asTimeOrNone(exp)
	c.nbf, ok[6] = asTimeOrNone(nbf)
	c.nonce, ok[7] = strictjson.AsString(nonce)
	switch {
	case !ok[0] || !jose.IsID(c.id):
		return claims{}, refuse("has no jti of 1 to 128 visible ASCII characters")
	case !ok[1] || c.method == "":
		return claims{}, refuse("has no htm, the method of the request")
	case !ok[2]:
		return claims{}, refuse("has no htu, the URL of the request")
	case !ok[3]:
		return claims{}, refuse("has no iat in Unix seconds")
	case ath != nil && !ok[4]:
		return claims{}, refuse("has an ath that is no string")
	case !ok[5] || !ok[6]:
		return claims{}, refuse("has an exp or nbf that is no number of Unix seconds")
	case nonce != nil && (!ok[7] || len(c.nonce) > MaxNonce):
		return claims{}, refuse("has a nonce that is no string of at most 256 bytes")
	}
	return c, nil
}

func asTimeOrNone(value []byte) (*int64, bool) {
	if value == nil {
		return nil, true
	}
	seconds, ok := jose.NumericDate(value)
	return &seconds, ok
}

// normalize returns the normal form of an absolute URL of http or https, without query and
// fragment.
func normalize(raw string) (string, bool) {
	if len(raw) > MaxURL {
		return "", false
	}
	raw, ok := normalizeEscapes(raw)
	if !ok {
		return "", false
	}
	u, err := url.Parse(raw)
	if err != nil || u.Opaque != "" || u.User != nil || u.Hostname() == "" || !isPlain(u.Host) {
		return "", false
	}
	standard := map[string]uint64{"http": 80, "https": 443}[u.Scheme] // Parse made it lower case
	if standard == 0 {
		return "", false
	}
	host := strings.ToLower(u.Host)
	if port := u.Port(); port != "" {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			return "", false
		}
		host = strings.TrimSuffix(host, ":"+port)
		if n != standard {
			host += ":" + strconv.FormatUint(n, 10)
		}
	}
	host = strings.TrimSuffix(host, ":") // of an empty port
	// A reference with a scheme is used as it is, with its dot segments removed (RFC 3986 §5.2.4).
	path := u.ResolveReference(u).EscapedPath()
	if path == "" {
		path = "/"
	}
	return u.Scheme + "://" + host + path, true
}

// normalizeEscapes decodes the escapes of unreserved characters and writes the others in upper
// case. An unreserved character separates nothing, so this changes no other part of a URL. It
// refuses what is not visible ASCII and what is no escape.
func normalizeEscapes(raw string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case c <= ' ' || c > '~' || c == '\\':
			return "", false
		case c != '%':
			b.WriteByte(c)
		case i+2 >= len(raw):
			return "", false
		default:
			n, err := strconv.ParseUint(raw[i+1:i+3], 16, 8)
			if err != nil {
				return "", false
			}
			if decoded := byte(n); isUnreserved(decoded) {
				b.WriteByte(decoded)
			} else {
				b.WriteString(strings.ToUpper(raw[i : i+3]))
			}
			i += 2
		}
	}
	return b.String(), true
}

// isPlain reports whether a host, as Parse decodes it, was visible ASCII without escapes. (No name
// needs them, and the zone of an IPv6 address means something on one machine alone.)
func isPlain(host string) bool {
	return strings.IndexFunc(host, func(r rune) bool { return r <= ' ' || r > '~' || r == '%' }) < 0
}

// isUnreserved is that of RFC 3986 §2.3.
func isUnreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~", c) >= 0
}
