// Package statement makes and checks what an agent signs: statements of its actions, and
// endorsements of its next key. It has no clock and remembers nothing.
//
// # Form
//
// A statement is a compact JWS of at most 32,768 bytes, as package jose reads one, with these
// header members and no others:
//
//	alg  EdDSA or ES256, as the key is
//	typ  agent-statement+jwt
//	kid  the thumbprint of the key (RFC 7638)
//
// and these claims and no others:
//
//	iss          SPIFFE ID of the agent
//	aud          SPIFFE ID of the company: a string, not a list
//	log          origin of the company's log of actions, 1 to 255 visible ASCII characters
//	iat          Unix seconds
//	jti          1 to 128 visible ASCII characters, never twice for a key
//	action_hash  64 hex digits; see below
//	delegation   64 hex digits; see below; there exactly when the record has a delegation
//	sid          session: 1 to 128 characters of A-Z, a-z, 0-9, '.', '_', '~' and '-'
//	seq          place in the session, from 0 to 2⁵³-1; sid and seq are both there or neither
//	prev         64 hex digits: SHA-256 of the compact JWS at seq-1; there exactly when seq > 0
//	refused      earlier places whose statement the service refused; see below; only when seq > 0
//	continues    the session that this one goes on from; see below; only when seq is 0
//	end          true: nothing follows in this session; only beside sid and seq, else absent
//
// Header and claims are strict JSON. A SPIFFE ID begins with spiffe:// and is visible ASCII.
// Numbers are spelt as integers, without fraction and exponent; iat is at most 253402300799, the
// end of the year 9999. Hex digits are lower-case. null is no value of anything. A signature is 64
// bytes. It covers kid, so it cannot be claimed for another key under which it would verify too.
//
// refused is an array of 1 to 100 objects with exactly the members seq, hash and code: a place
// below the statement's own seq, in strictly ascending order; 64 hex digits, the SHA-256 of the
// compact JWS of that place; 1 to 64 characters of A-Z, 0-9 and '_'. An entry of the place before
// the statement's own has the hash that prev is.
//
// continues is an object with exactly the members sid, kid and hash: a session, the thumbprint of
// its key, and 64 hex digits, the SHA-256 of the compact JWS that was the last one in it. It names
// another session or another key than the statement's own.
//
// # Versions
//
// What is above is version 2. A statement without log is of version 1. Its delegation is the jti of
// the delegation token, 1 to 128 visible ASCII characters, and refused and continues are no claims
// of it. Which version a key may sign is the caller's to know; see [Statement.Version].
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
// # Delegation
//
// delegation is the SHA-256 of the RFC 8785 form of the record's delegation,
//
//	{"act","delegationChain","subject","tokenId"}
//
// so it covers who acts for whom and not the ID of the token alone. Package cred computes it, from
// a token and from a record.
//
// # Places
//
// A place that has left the process is used for good: a signer never makes two statements for one
// place. What the service has refused for certain is named in refused of the next statement, the
// rest of more than 100 in the ones after it. A run that goes on after its end, or under the next
// key, is a new session whose first statement has continues.
//
// # Check
//
// In this order, each with its code; see [Parse] and [Statement.Check]:
//
//	STATEMENT_MALFORMED          not of this form
//	STATEMENT_KEY_UNKNOWN        kid names no live key of the agent; the caller knows
//	STATEMENT_SIGNATURE_INVALID  not signed with that key and its algorithm
//	STATEMENT_MISMATCH           iss, aud, log, action_hash or delegation are not those of the action
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
//	iat  Unix seconds; when the next key is enrolled, at most 60 s ahead and 5 minutes ago; within
//	     the life of the key that signs
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
	Type       = "agent-statement+jwt" // typ of every statement
	MaxSize    = 32 << 10              // bytes of a statement
	MaxSeq     = 1<<53 - 1             // last place in a session
	MaxRefused = 100                   // entries in refused

	MaxAhead = 60 * time.Second    // how far iat may be ahead of the clock
	MaxAge   = 30 * 24 * time.Hour // how long ago iat may be

	maxName = 128          // characters of jti, sid, and delegation of version 1
	maxLog  = 255          // characters of log
	maxCode = 64           // characters of a code in refused
	maxTime = 253402300799 // the last second of the year 9999
)

// Claims is what an agent states. Parse returns them only in the form that the package comment
// demands.
type Claims struct {
	Issuer     string     // iss
	Audience   string     // aud
	Log        string     // log; "" in version 1
	IssuedAt   int64      // iat
	ID         string     // jti
	ActionHash string     // action_hash
	Delegation string     // "" without one; a hash, or the jti in version 1
	Session    string     // sid; "" outside a session
	Seq        int64      // seq; 0 outside a session
	Previous   string     // prev; "" where Seq is 0
	Refused    []Refused  // refused; nil without
	Continues  *Continues // continues; nil without
	End        bool       // end
}

// Refused is an earlier place of a session whose statement the service has refused for certain.
type Refused struct {
	Seq  int64
	Hash string // of its compact JWS; see Hash
	Code string // of the refusal; HTTP_<status> where it had none
}

// Continues names the session that another one goes on from.
type Continues struct {
	Session string // its sid
	KeyID   string // its kid, a thumbprint
	Hash    string // of the compact JWS of its last statement
}

// Version is 2, or 1 for a statement that does not say for which log it was made.
func (c *Claims) Version() int {
	if c.Log == "" {
		return 1
	}
	return 2
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
	t, err := parseSigned(compact, Type, MaxSize)
	if err != nil {
		return nil, refuse(CodeMalformed, "statement "+err.Error())
	}
	c, err := readClaims(t.Payload, t.Header.KeyID)
	if err != nil {
		return nil, err
	}
	return &Statement{Claims: c, Algorithm: t.Header.Algorithm, KeyID: t.Header.KeyID, Compact: compact, token: t}, nil
}

// parseSigned reads a compact JWS of this package, of a type and of at most maxSize bytes. Its
// errors read well after the name of the type.
func parseSigned(compact, typ string, maxSize int) (jose.Token, error) {
	t, err := jose.Parse(compact, maxSize)
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
	case h.JWK != nil || h.Extra != 0:
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

// members are the claims of a statement as they are spelt there; nil where absent.
type members struct {
	iss, aud, log, iat, jti, hash, delegation, sid, seq, prev, refused, continues, end []byte

	hasUnknown bool // there are claims that no statement has
}

// readMembers reads the claims of a payload. An entry of refused nests two deep.
func readMembers(payload []byte) (m members, err error) {
	err = strictjson.EachMember(payload, 2, func(name, value []byte) {
		switch string(name) {
		case "iss":
			m.iss = value
		case "aud":
			m.aud = value
		case "log":
			m.log = value
		case "iat":
			m.iat = value
		case "jti":
			m.jti = value
		case "action_hash":
			m.hash = value
		case "delegation":
			m.delegation = value
		case "sid":
			m.sid = value
		case "seq":
			m.seq = value
		case "prev":
			m.prev = value
		case "refused":
			m.refused = value
		case "continues":
			m.continues = value
		case "end":
			m.end = value
		default:
			m.hasUnknown = true
		}
	})
	return m, err
}

// readClaims reads the claims, these and no others, of a statement of a key.
func readClaims(payload []byte, kid string) (Claims, error) {
	m, err := readMembers(payload)
	if err != nil {
		return Claims{}, malformed("claims are not a JSON object without duplicate members")
	}
	var c Claims
	var ok [4]bool
	c.Issuer, ok[0] = asText(m.iss, MaxSize, isVisible)
	c.Audience, ok[1] = asText(m.aud, MaxSize, isVisible)
	c.IssuedAt, ok[2] = strictjson.AsInteger(m.iat)
	c.ID, ok[3] = asID(m.jti)
	switch {
	case m.hasUnknown:
		return Claims{}, malformed("has a claim that no statement has: iss, aud, log, iat, jti, action_hash, delegation, sid, seq, prev, " +
			"refused, continues and end are all")
	case !ok[0] || !isSPIFFE(c.Issuer):
		return Claims{}, malformed("must have the SPIFFE ID of the agent as iss")
	case !ok[1] || !isSPIFFE(c.Audience):
		return Claims{}, malformed("must have the SPIFFE ID of the company as aud, a string")
	case !ok[2] || c.IssuedAt > maxTime:
		return Claims{}, malformed("must have whole Unix seconds as iat")
	case !ok[3]:
		return Claims{}, malformed("must have a jti of 1 to 128 visible ASCII characters")
	}
	var good bool
	if c.ActionHash, good = asHash(m.hash); !good {
		return Claims{}, malformed("must have 64 lower-case hex digits as action_hash")
	}
	if err := c.readVersion(&m); err != nil {
		return Claims{}, err
	}
	if err := c.readPlace(&m); err != nil {
		return Claims{}, err
	}
	return c, c.readLinks(&m, kid)
}

// readVersion reads log, and the delegation that a statement with it has, or without.
func (c *Claims) readVersion(m *members) error {
	var good bool
	if m.log == nil {
		if c.Delegation, good = asID(m.delegation); m.delegation != nil && !good {
			return malformed("without log has a delegation that is not 1 to 128 visible ASCII characters")
		}
		if m.refused != nil || m.continues != nil {
			return malformed("has refused or continues, and no log")
		}
		return nil
	}
	if c.Log, good = asText(m.log, maxLog, isVisible); !good {
		return malformed("must have the origin of the log of actions as log, 1 to 255 visible ASCII characters")
	}
	if c.Delegation, good = asHash(m.delegation); m.delegation != nil && !good {
		return malformed("must have 64 lower-case hex digits as delegation, the SHA-256 of the record's delegation")
	}
	return nil
}

// readPlace reads the claims about the place in a session.
func (c *Claims) readPlace(m *members) error {
	switch {
	case (m.sid == nil) != (m.seq == nil):
		return malformed("must have both sid and seq, or neither")
	case m.sid == nil && (m.prev != nil || m.refused != nil || m.continues != nil || m.end != nil):
		return malformed("has prev, refused, continues or end without a session")
	case m.sid == nil:
		return nil
	}
	var ok1, ok2 bool
	c.Session, ok1 = asSession(m.sid)
	c.Seq, ok2 = strictjson.AsInteger(m.seq)
	switch {
	case !ok1:
		return malformed("must have 1 to 128 characters of A-Z, a-z, 0-9, '.', '_', '~' and '-' as sid")
	case !ok2 || c.Seq > MaxSeq:
		return malformed("must have a whole number from 0 to 9007199254740991 as seq")
	case (m.prev != nil) != (c.Seq > 0):
		return malformed("must have prev exactly when seq is above 0")
	}
	if m.prev != nil {
		if c.Previous, ok1 = asHash(m.prev); !ok1 {
			return malformed("must have 64 lower-case hex digits as prev")
		}
	}
	if c.End = m.end != nil; c.End && string(m.end) != "true" {
		return malformed("has an end that is not true")
	}
	return nil
}

// readLinks reads the claims about other statements of the agent: refused and continues.
func (c *Claims) readLinks(m *members, kid string) error {
	if m.refused != nil {
		if c.Seq == 0 {
			return malformed("has refused at seq 0, before which there is no place")
		}
		var ok bool
		if c.Refused, ok = asRefused(m.refused); !ok {
			return malformed("must have 1 to 100 objects of seq, hash and code as refused")
		}
		if err := c.checkRefused(); err != nil {
			return err
		}
	}
	if m.continues != nil {
		if c.Seq != 0 {
			return malformed("has continues, which only the first of a session has")
		}
		var ok bool
		if c.Continues, ok = asContinues(m.continues); !ok {
			return malformed("must have an object of sid, kid and hash as continues")
		}
		if c.Continues.Session == c.Session && c.Continues.KeyID == kid {
			return malformed("has continues that names its own session")
		}
	}
	return nil
}

// checkRefused checks the order of the places that were refused, and the one before c.
func (c *Claims) checkRefused() error {
	before := int64(-1)
	for _, r := range c.Refused {
		switch {
		case r.Seq <= before:
			return malformed("must have the places of refused in ascending order")
		case r.Seq >= c.Seq:
			return malformed("has a place in refused that is not before its own")
		case r.Seq == c.Seq-1 && r.Hash != c.Previous:
			return malformed("has another hash in refused for the place before than as prev")
		}
		before = r.Seq
	}
	return nil
}

// asRefused reads the entries of refused, each by its form alone.
func asRefused(value []byte) (list []Refused, ok bool) {
	ok = true
	count := 0
	err := strictjson.EachElement(value, 1, func(element []byte) {
		if count++; count > MaxRefused || !ok {
			return
		}
		var seq, hash, code []byte
		hasUnknown := false
		err := strictjson.EachMember(element, 0, func(name, value []byte) {
			switch string(name) {
			case "seq":
				seq = value
			case "hash":
				hash = value
			case "code":
				code = value
			default:
				hasUnknown = true
			}
		})
		var r Refused
		var good [3]bool
		r.Seq, good[0] = strictjson.AsInteger(seq)
		r.Hash, good[1] = asHash(hash)
		r.Code, good[2] = asText(code, maxCode, isCodeByte)
		ok = err == nil && !hasUnknown && good == [3]bool{true, true, true} && r.Seq <= MaxSeq
		list = append(list, r)
	})
	return list, ok && err == nil && 1 <= count && count <= MaxRefused
}

// asContinues reads continues.
func asContinues(value []byte) (*Continues, bool) {
	var sid, kid, hash []byte
	hasUnknown := false
	err := strictjson.EachMember(value, 0, func(name, value []byte) {
		switch string(name) {
		case "sid":
			sid = value
		case "kid":
			kid = value
		case "hash":
			hash = value
		default:
			hasUnknown = true
		}
	})
	c := new(Continues)
	var good [3]bool
	c.Session, good[0] = asSession(sid)
	c.KeyID, good[1] = strictjson.AsString(kid)
	c.Hash, good[2] = asHash(hash)
	return c, err == nil && !hasUnknown && good == [3]bool{true, true, true} && jose.IsThumbprint(c.KeyID)
}

func malformed(message string) *Error { return refuse(CodeMalformed, "statement "+message) }

// asID reads a jti.
func asID(value []byte) (string, bool) {
	s, ok := strictjson.AsString(value)
	return s, ok && jose.IsID(s)
}

func asSession(value []byte) (string, bool) { return asText(value, maxName, isSessionByte) }

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

func isVisible(c byte) bool  { return ' ' < c && c <= '~' }
func isHex(c byte) bool      { return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' }
func isCodeByte(c byte) bool { return 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' }
func isSessionByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("._~-", c) >= 0
}

// Codes of Error, in the order of the checks; the last one is that of endorsements.
const (
	CodeMalformed        = "STATEMENT_MALFORMED"
	CodeKeyUnknown       = "STATEMENT_KEY_UNKNOWN" // returned by the caller, who knows the keys
	CodeSignatureInvalid = "STATEMENT_SIGNATURE_INVALID"
	CodeMismatch         = "STATEMENT_MISMATCH"
	CodeTime             = "STATEMENT_TIME"
	CodeReused           = "STATEMENT_REUSED" // returned by the caller, who knows the records

	CodeEndorsementInvalid = "ENDORSEMENT_INVALID"
)

// Error is the reason why a statement or an endorsement is refused. Message contains no part of it,
// so it can be sent and logged.
type Error struct {
	Code    string
	Message string
}

func (e *Error) Error() string { return e.Message }

func refuse(code, message string) *Error { return &Error{Code: code, Message: message} }
