// Package assertion checks and makes client assertions (RFC 7523 §2.2 and §3): with one, an agent
// or an OAuth client signs in at the token endpoint with a key of its own. It has no clock and
// remembers nothing.
//
// # Form
//
// An assertion is a compact JWS of at most 4096 bytes, as package jose reads one:
//
//	header  alg  EdDSA, Ed25519 or ES256, as the key is; of a client RS256 or PS256 too
//	        kid  of an agent the thumbprint of the key (RFC 7638); of a client that, its name in
//	             the client's key set, or absent
//	        typ  absent, JWT or client-authentication+jwt
//	claims  iss  SPIFFE ID of the agent, or ID of the client, which begins with cc_
//	        sub  the same
//	        aud  the token endpoint or the issuer: a string, or a list of exactly one
//	        jti  1 to 128 visible ASCII characters, once for a key
//	        exp  Unix seconds, of an agent at most 5 minutes ahead, of a client at most an hour and
//	             a minute, for its clock; a fraction is dropped
//
// nbf counts where it is there, and iat must not be more than 60 s ahead; other claims are ignored.
// Claims are strict JSON.
//
// Two checks are the caller's: that the keys are those of the agent or client and live, and that a
// jti was not used before. A jti must be remembered until exp.
package assertion

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"attestd/crypto/jcs"
	"attestd/crypto/jose"
	"attestd/crypto/strictjson"
)

const (
	// Type is client_assertion_type at the token endpoint.
	Type = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

	MaxSize     = 4096            // bytes of an assertion
	MaxLifetime = 5 * time.Minute // how far exp of an agent may be ahead of the clock
	MaxAhead    = time.Minute     // how far iat and nbf may be ahead of it

	// MaxClientLifetime is how far exp of a client may be ahead of the clock of the client. That
	// may itself be ahead by MaxAhead. Libraries make assertions for an hour.
	MaxClientLifetime = time.Hour

	maxDepth = 128 // of a claim
)

// Assertion is an assertion of the right form. Its signature is not checked.
type Assertion struct {
	Subject string // sub and iss: the SPIFFE ID of the agent, or the ID of the client
	KeyID   string // kid: of an agent a thumbprint, of a client anything, or ""
	ID      string // jti
	Ends    time.Time

	audience      string
	issued, valid int64 // iat and nbf; 0 where absent
	token         jose.Token
}

// Error is the reason why an assertion is refused. It contains nothing of the assertion, so it can
// be sent and logged.
type Error struct {
	Message string
	cause   error
}

func (e *Error) Error() string { return e.Message }

func (e *Error) Unwrap() error { return e.cause }

func refuse(message string) error { return &Error{Message: "client_assertion " + message} }

// Parse reads an assertion. It requires the form alone; every error is an *Error.
func Parse(compact string) (*Assertion, error) {
	t, err := jose.Parse(compact, MaxSize)
	if err != nil {
		return nil, refuse(err.Error())
	}
	switch t.Header.Type {
	case "", "JWT", "jwt", "client-authentication+jwt":
	default:
		return nil, refuse("header must have typ JWT, or none")
	}
	if t.Header.JWK != nil {
		return nil, refuse("header must not have a jwk: kid names the key")
	}
	a, err := readClaims(t.Payload)
	if a.IsAgent() && !jose.IsThumbprint(t.Header.KeyID) {
		return nil, refuse("header must have the thumbprint of a key as kid")
	}
	if err != nil {
		return nil, err
	}
	a.KeyID, a.token = t.Header.KeyID, t
	return a, nil
}

// ClientPrefix begins the ID of an OAuth client.
const ClientPrefix = "cc_"

// IsAgent reports whether an agent says this, and no client.
func (a *Assertion) IsAgent() bool { return !strings.HasPrefix(a.Subject, ClientPrefix) }

// readClaims returns what it has read with an error too.
func readClaims(payload []byte) (*Assertion, error) {
	a := &Assertion{}
	claims := make(map[string][]byte, 8)
	err := strictjson.EachMember(payload, maxDepth, func(name, value []byte) {
		switch string(name) {
		case "iss", "sub", "aud", "jti", "exp", "iat", "nbf":
			claims[string(name)] = value
		}
	})
	if err != nil {
		return a, refuse("claims are not a JSON object without duplicate members")
	}
	iss, ok1 := strictjson.AsString(claims["iss"])
	sub, ok2 := strictjson.AsString(claims["sub"])
	a.Subject = sub
	if !ok1 || !ok2 || iss != sub || !strings.HasPrefix(sub, "spiffe://") && !strings.HasPrefix(sub, ClientPrefix) {
		return a, refuse("must have the SPIFFE ID of the agent, or the ID of the client, as iss and as sub")
	}
	if a.audience, ok1 = strictjson.AsString(claims["aud"]); !ok1 {
		list, ok := strictjson.AsStrings(claims["aud"])
		if !ok || len(list) != 1 {
			return a, refuse("must have one aud")
		}
		a.audience = list[0]
	}
	if a.ID, ok1 = strictjson.AsString(claims["jti"]); !ok1 || !jose.IsID(a.ID) {
		return a, refuse("must have a jti of 1 to 128 visible ASCII characters")
	}
	ends, ok1 := jose.NumericDate(claims["exp"])
	if !ok1 {
		return a, refuse("must have exp in Unix seconds")
	}
	a.Ends = time.Unix(ends, 0)
	for name, into := range map[string]*int64{"iat": &a.issued, "nbf": &a.valid} {
		if value, given := claims[name]; given {
			if *into, ok1 = jose.NumericDate(value); !ok1 {
				return a, refuse("has an " + name + " that is not in Unix seconds")
			}
		}
	}
	return a, nil
}

// Check requires that a is of an agent and signed with key, which must be the one that KeyID names,
// that it is for one of some audiences, and that it counts now. Every error is an *Error.
func (a *Assertion) Check(key *jose.Key, audiences []string, now time.Time) error {
	if !a.IsAgent() || key.Thumbprint != a.KeyID || key.Verify(a.token) != nil {
		return refuse("is not signed with the key that kid names, or not with that key's algorithm")
	}
	return a.checkClaims(audiences, now, MaxLifetime, "5 minutes")
}

// ClientAlgorithms are those that OAuth clients may sign with.
var ClientAlgorithms = []string{"ES256", "RS256", "PS256", "EdDSA", "Ed25519"}

// ClientKeys are the public keys of an OAuth client.
type ClientKeys interface {
	// Verify reports whether a token is signed by one of the keys, with one of some algorithms.
	Verify(t jose.Token, algorithms []string) bool
}

// ErrNoClientKey reports an assertion that is not signed with a key of the client. It is
// [jose.ErrSignature], because a newer key set of the client may have the key.
var ErrNoClientKey error = &Error{"client_assertion is signed with no key of a client", jose.ErrSignature}

// CheckClient requires that a is of a client and signed with one of its keys, that it is for one of
// some audiences, and that it counts now. Every error is an *Error.
func (a *Assertion) CheckClient(keys ClientKeys, audiences []string, now time.Time) error {
	if a.IsAgent() || !keys.Verify(a.token, ClientAlgorithms) {
		return ErrNoClientKey
	}
	return a.checkClaims(audiences, now, MaxClientLifetime+MaxAhead, "an hour")
}

func (a *Assertion) checkClaims(audiences []string, now time.Time, lifetime time.Duration, lifetimeText string) error {
	switch ahead := now.Add(MaxAhead).Unix(); {
	case !slices.Contains(audiences, a.audience):
		return refuse("must have the URL of the token endpoint, or the issuer, as aud")
	case !now.Before(a.Ends):
		return refuse("has ended")
	case a.Ends.After(now.Add(lifetime)):
		return refuse("has an exp more than " + lifetimeText + " ahead")
	case a.issued > ahead:
		return refuse("has an iat more than 60 s ahead")
	case a.valid > ahead:
		return refuse("is not valid yet")
	}
	return nil
}

// Make signs an assertion of an agent for an audience, which counts for a minute.
func Make(ctx context.Context, s jose.Signer, agent, audience string, now time.Time) (string, error) {
	p := jcs.AppendString([]byte(`{"iss":`), agent)
	p = jcs.AppendString(append(p, `,"sub":`...), agent)
	p = jcs.AppendString(append(p, `,"aud":`...), audience)
	p = jcs.AppendString(append(p, `,"jti":`...), uuid.NewString())
	p = strconv.AppendInt(append(p, `,"iat":`...), now.Unix(), 10)
	p = strconv.AppendInt(append(p, `,"exp":`...), now.Add(MaxAhead).Unix(), 10)
	return jose.Sign(ctx, s, "JWT", append(p, '}'))
}
