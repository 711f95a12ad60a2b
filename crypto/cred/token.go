package cred

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"

	"attestd/crypto/cred/details"
	"attestd/crypto/jcs"
	"attestd/crypto/jose"
	"attestd/crypto/strictjson"
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

// claims are the claims of a token as they are spelt there, each valid JSON; nil where absent.
// Members with other names are ignored (RFC 7519 section 4).
type claims struct {
	iss, sub, aud, jti, iat, nbf, exp []byte
	act, scope, details               []byte
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
		case "authorization_details":
			c.details = value
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

// appendDetails appends the claim of authorization details, if there are any.
func appendDetails(dst []byte, limits details.Details) []byte {
	if limits.IsZero() {
		return dst
	}
	return append(append(dst, `,"authorization_details":`...), limits.String()...)
}

// readDetails reads that claim. What it refuses is CodeMalformedClaims: a token with a limit that
// is not understood must not pass for one without.
func readDetails(src []byte) (details.Details, error) {
	if src == nil {
		return details.Details{}, nil
	}
	limits, err := details.Parse(src)
	if err != nil {
		return limits, refuse(CodeMalformedClaims, "authorization_details are not understood")
	}
	return limits, nil
}

// asTime reads a NumericDate in whole seconds, up to the year 9999.
func asTime(value []byte) (int64, bool) {
	const last = 253402300799
	n, ok := strictjson.AsInteger(value)
	return n, ok && n <= last
}

// Codes of Error, in the order of the checks. A token that fails several checks gets the code of
// the first.
const (
	// not three strict base64url parts of strict JSON, too long, or a header member that is not
	// allowed
	CodeMalformedToken    = "MALFORMED_TOKEN"
	CodeAlgorithmMismatch = "ALGORITHM_MISMATCH" // alg is not EdDSA
	CodeWrongTokenType    = "WRONG_TOKEN_TYPE"   // typ is another kind's
	// not signed by the key of this company that kid names, or kid names none, or one that had
	// ended before iat
	CodeSignatureInvalid = "SIGNATURE_INVALID"
	CodeTokenExpired     = "TOKEN_EXPIRED"       // exp <= now
	CodeTokenNotYetValid = "TOKEN_NOT_YET_VALID" // nbf > now
	CodeAudienceMismatch = "AUDIENCE_MISMATCH"   // aud is not exactly the one of this kind
	CodeInvalidIssuer    = "INVALID_ISSUER"      // iss is not the CA of the trust domain
	// sub is not a SPIFFE ID that this kind may carry
	CodeInvalidSubject = "INVALID_SUBJECT"
	// a claim is missing, of another type, or contradicts another
	CodeMalformedClaims    = "MALFORMED_CLAIMS"
	CodeUnsupportedVersion = "UNSUPPORTED_VERSION" // v is not 1
	CodeChainIncoherent    = "CHAIN_INCOHERENT"    // the last of delegationChain is not sub
	CodeScopeDenied        = "SCOPE_DENIED"        // no scope covers the tool
	CodeDetailsDenied      = "DETAILS_DENIED"      // no authorization details cover the call
	CodePassportRevoked    = "PASSPORT_REVOKED"    // returned by the caller, who knows
	CodeVerificationError  = "VERIFICATION_ERROR"  // anything unexpected; returned by the caller
)

// Codes returns all codes in the order of the checks.
func Codes() []string {
	return []string{
		CodeMalformedToken, CodeAlgorithmMismatch, CodeWrongTokenType, CodeSignatureInvalid, CodeTokenExpired,
		CodeTokenNotYetValid, CodeAudienceMismatch, CodeInvalidIssuer, CodeInvalidSubject, CodeMalformedClaims,
		CodeUnsupportedVersion, CodeChainIncoherent, CodeScopeDenied, CodeDetailsDenied, CodePassportRevoked, CodeVerificationError,
	}
}

// Error is the reason why a token is refused. Message never contains any part of the token, so it
// can be sent and logged.
type Error struct {
	Code    string // one of Codes
	Message string
}

func (e *Error) Error() string { return e.Message }

func refuse(code, message string) *Error { return &Error{Code: code, Message: message} }

// maxVerified bounds a Verified to a few megabytes.
const maxVerified = 1 << 16

// Verified caches which tokens have a valid signature. Verifying a signature costs ten times all
// other checks, and the same tokens are presented repeatedly. It caches nothing else: claims, times
// and revocation are checked at each use. It is safe for concurrent use; a nil Verified caches
// nothing.
type Verified struct {
	mu   sync.RWMutex
	seen map[[sha256.Size]byte]struct{} // SHA-256 of key and token
}

func (v *Verified) has(id [sha256.Size]byte) bool {
	if v == nil {
		return false
	}
	v.mu.RLock()
	defer v.mu.RUnlock()
	_, ok := v.seen[id]
	return ok
}

// add caches a token. A full cache is cleared first, which costs one signature check per token. It
// is no bounded.Map, because crypto imports none of our packages outside it.
func (v *Verified) add(id [sha256.Size]byte) {
	if v == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.seen == nil || len(v.seen) >= maxVerified {
		v.seen = make(map[[sha256.Size]byte]struct{})
	}
	v.seen[id] = struct{}{}
}

// verifiedID is a hash of a complete compact token and its key. The key has a fixed length, so the
// hashed text is unambiguous.
func verifiedID(key ed25519.PublicKey, compact string) [sha256.Size]byte {
	buf := make([]byte, 0, 1024)
	return sha256.Sum256(append(append(buf, key...), compact...))
}
