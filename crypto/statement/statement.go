// Package statement makes and checks what an agent signs: statements of its actions, and
// endorsements of its next key. It has no clock and remembers nothing.
//
// # Form
//
// A statement is a compact JWS of at most 4096 bytes, as package jose reads one, with these header
// members and no others:
//
//	alg  EdDSA or ES256, as the key is
//	typ  agent-statement+jwt
//	kid  the thumbprint of the key (RFC 7638)
//
// and these claims and no others:
//
//	iss          SPIFFE ID of the agent
//	aud          SPIFFE ID of the company: a string, not a list
//	iat          Unix seconds
//	jti          1 to 128 visible ASCII characters, never twice for a key
//	action_hash  64 hex digits; see below
//	delegation   jti of the delegation token, 1 to 128 visible ASCII characters; there exactly when
//	             one is sent
//	sid          session: 1 to 128 characters of A-Z, a-z, 0-9, '.', '_', '~' and '-'
//	seq          place in the session, from 0 to 2⁵³-1; sid and seq are both there or neither
//	prev         64 hex digits: SHA-256 of the compact JWS at seq-1; there exactly when seq > 0
//	end          true: nothing follows in this session; only beside sid and seq, else absent
//
// Header and claims are strict JSON. A SPIFFE ID begins with spiffe:// and is visible ASCII.
// Numbers are spelt as integers, without fraction and exponent; iat is at most 253402300799, the
// end of the year 9999. Hex digits are lower-case. null is no value of anything. A signature is 64
// bytes. It covers kid, so it cannot be claimed for another key under which it would verify too.
//
// # Action
//
// action_hash is the SHA-256 of the RFC 8785 form of
//
//	{"actionType","agentId","companyId","payload"}
//
// as the record of the action will have them. That is the canonical form of the record's payload
// object without its member statement. What package jcs refuses has no hash.
//
// # Check
//
// In this order, each with its code; see [Parse] and [Statement.Check]:
//
//	STATEMENT_MALFORMED          not of this form
//	STATEMENT_KEY_UNKNOWN        kid names no live key of the agent; the caller knows
//	STATEMENT_SIGNATURE_INVALID  not signed with that key and its algorithm
//	STATEMENT_MISMATCH           iss, aud, action_hash or delegation are not those of the action
//	STATEMENT_TIME               iat is more than 60 s ahead of the clock, or more than 30 days ago
//	STATEMENT_REUSED             another statement has this jti, or this sid and seq; the caller knows
//
// # Which statements are the same
//
// Who sees an ES256 signature can write another valid one of the same text. So two statements say
// the same exactly when [Statement.Signed] is equal: an agent has contradicted itself only when it
// differs. prev names the whole statement, the signature included.
//
// # Endorsement
//
// With an endorsement an agent's key says which key follows it. It is a compact JWS of at most 4096
// bytes with the header members alg, typ and kid as above, typ being agent-key+jwt, and these
// claims and no others:
//
//	iss  SPIFFE ID of the agent
//	aud  SPIFFE ID of the company: a string, not a list
//	iat  Unix seconds; when the next key is enrolled, at most 60 s ahead and 5 minutes ago
//	jkt  thumbprint of the next key, which is not kid
//
// What is wrong with one is ENDORSEMENT_INVALID; see [ParseEndorsement] and [Endorsement.Check].
package statement

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"attestd/crypto/jose"
	"attestd/crypto/strictjson"
)

const (
	Type    = "agent-statement+jwt" // typ of every statement
	MaxSize = 4096                  // bytes of a statement
	MaxSeq  = 1<<53 - 1             // last place in a session

	MaxAhead = 60 * time.Second    // how far iat may be ahead of the clock
	MaxAge   = 30 * 24 * time.Hour // how long ago iat may be

	maxName = 128          // characters of jti, delegation and sid
	maxTime = 253402300799 // the last second of the year 9999
)

// Claims is what an agent states. Parse returns them only in the form that the package comment
// demands.
type Claims struct {
	Issuer     string // iss
	Audience   string // aud
	IssuedAt   int64  // iat
	ID         string // jti
	ActionHash string // action_hash
	Delegation string // "" without one
	Session    string // sid; "" outside a session
	Seq        int64  // seq; 0 outside a session
	Previous   string // prev; "" where Seq is 0
	End        bool   // end
}

// Statement is a statement of the right form. Its signature is not checked.
type Statement struct {
	Claims
	Algorithm string // EdDSA or ES256
	KeyID     string // kid, a thumbprint
	Compact   string // the statement itself

	token jose.Token
}

// Parse reads a statement. It requires the form alone, and every error is an *Error with
// CodeMalformed. Which key KeyID names is the caller's to find out; then [Statement.Check] goes on.
func Parse(compact string) (*Statement, error) {
	t, err := parseSigned(compact, Type)
	if err != nil {
		return nil, refuse(CodeMalformed, "statement "+err.Error())
	}
	c, err := readClaims(t.Payload)
	if err != nil {
		return nil, err
	}
	return &Statement{Claims: c, Algorithm: t.Header.Algorithm, KeyID: t.Header.KeyID, Compact: compact, token: t}, nil
}

// parseSigned reads a compact JWS of this package, of a type. Its errors read well after the name
// of the type.
func parseSigned(compact, typ string) (jose.Token, error) {
	t, err := jose.Parse(compact, MaxSize)
	if err != nil {
		return t, err
	}
	switch h := t.Header; {
	case h.Algorithm != jose.EdDSA && h.Algorithm != jose.ES256:
		err = errors.New("header must have alg EdDSA or ES256")
	case h.Type != typ:
		err = errors.New("header must have typ " + typ)
	case !jose.IsThumbprint(h.KeyID):
		err = errors.New("header must have the thumbprint of a key as kid")
	case h.JWK != nil || h.Others != 0:
		err = errors.New("header must have alg, typ and kid, and nothing else")
	case len(t.Signature) != jose.SignatureSize:
		err = errors.New("signature must be 64 bytes")
	}
	return t, err
}

// Signed is what the signature covers: the first two parts of the statement.
func (s *Statement) Signed() string { return s.token.Signed }

// Hash is prev of the statement that follows s in its session.
func (s *Statement) Hash() string { return Hash(s.Compact) }

// Hash is the SHA-256 of a compact JWS in hex.
func Hash(compact string) string {
	sum := sha256.Sum256([]byte(compact))
	return hex.EncodeToString(sum[:])
}

// readClaims reads the claims, these and no others.
func readClaims(payload []byte) (Claims, error) {
	var iss, aud, iat, jti, hash, delegation, sid, seq, prev, end []byte
	others := false
	err := strictjson.EachMember(payload, 1, func(name, value []byte) {
		switch string(name) {
		case "iss":
			iss = value
		case "aud":
			aud = value
		case "iat":
			iat = value
		case "jti":
			jti = value
		case "action_hash":
			hash = value
		case "delegation":
			delegation = value
		case "sid":
			sid = value
		case "seq":
			seq = value
		case "prev":
			prev = value
		case "end":
			end = value
		default:
			others = true
		}
	})
	malformed := func(message string) (Claims, error) { return Claims{}, refuse(CodeMalformed, "statement "+message) }
	if err != nil {
		return malformed("claims are not a JSON object without duplicate members")
	}
	var c Claims
	var ok [4]bool
	c.Issuer, ok[0] = asText(iss, MaxSize, isVisible)
	c.Audience, ok[1] = asText(aud, MaxSize, isVisible)
	c.IssuedAt, ok[2] = strictjson.AsInteger(iat)
	c.ID, ok[3] = asID(jti)
	switch {
	case others:
		return malformed("has a claim that no statement has: iss, aud, iat, jti, action_hash, delegation, sid, seq, prev and end are all")
	case !ok[0] || !isSPIFFE(c.Issuer):
		return malformed("must have the SPIFFE ID of the agent as iss")
	case !ok[1] || !isSPIFFE(c.Audience):
		return malformed("must have the SPIFFE ID of the company as aud, a string")
	case !ok[2] || c.IssuedAt > maxTime:
		return malformed("must have whole Unix seconds as iat")
	case !ok[3]:
		return malformed("must have a jti of 1 to 128 visible ASCII characters")
	}
	var good bool
	if c.ActionHash, good = asHash(hash); !good {
		return malformed("must have 64 lower-case hex digits as action_hash")
	}
	if c.Delegation, good = asID(delegation); delegation != nil && !good {
		return malformed("has a delegation that is not 1 to 128 visible ASCII characters")
	}
	err = c.readPlace(sid, seq, prev, end)
	return c, err
}

// readPlace reads the claims about the session.
func (c *Claims) readPlace(sid, seq, prev, end []byte) error {
	malformed := func(message string) error { return refuse(CodeMalformed, "statement "+message) }
	switch {
	case (sid == nil) != (seq == nil):
		return malformed("must have both sid and seq, or neither")
	case sid == nil && (prev != nil || end != nil):
		return malformed("has prev or end without a session")
	case sid == nil:
		return nil
	}
	var ok1, ok2 bool
	c.Session, ok1 = asText(sid, maxName, isSessionByte)
	c.Seq, ok2 = strictjson.AsInteger(seq)
	switch {
	case !ok1:
		return malformed("must have 1 to 128 characters of A-Z, a-z, 0-9, '.', '_', '~' and '-' as sid")
	case !ok2 || c.Seq > MaxSeq:
		return malformed("must have a whole number from 0 to 9007199254740991 as seq")
	case (prev != nil) != (c.Seq > 0):
		return malformed("must have prev exactly when seq is above 0")
	}
	if prev != nil {
		if c.Previous, ok1 = asHash(prev); !ok1 {
			return malformed("must have 64 lower-case hex digits as prev")
		}
	}
	if c.End = end != nil; c.End && string(end) != "true" {
		return malformed("has an end that is not true")
	}
	return nil
}

// asID reads a jti.
func asID(value []byte) (string, bool) {
	s, ok := strictjson.AsString(value)
	return s, ok && jose.IsID(s)
}

func asText(value []byte, longest int, allowed func(byte) bool) (string, bool) {
	s, ok := strictjson.AsString(value)
	if !ok || len(s) < 1 || len(s) > longest {
		return "", false
	}
	for i := range len(s) {
		if !allowed(s[i]) {
			return "", false
		}
	}
	return s, true
}

func asHash(value []byte) (string, bool) {
	s, ok := asText(value, 2*sha256.Size, isHex)
	return s, ok && len(s) == 2*sha256.Size
}

func isSPIFFE(id string) bool { return strings.HasPrefix(id, "spiffe://") }

func isVisible(c byte) bool { return ' ' < c && c <= '~' }
func isHex(c byte) bool     { return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' }
func isSessionByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("._~-", c) >= 0
}
