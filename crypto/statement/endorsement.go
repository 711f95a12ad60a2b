package statement

import (
	"context"
	"strconv"
	"time"

	"attestd/crypto/jcs"
	"attestd/crypto/jose"
	"attestd/crypto/strictjson"
)

const (
	EndorsementType   = "agent-key+jwt" // typ of every endorsement
	MaxEndorsement    = 4096            // bytes of an endorsement
	MaxEndorsementAge = 5 * time.Minute // how long ago iat may be when the key is enrolled
)

// EndorsementClaims is what a key says about the key after it.
type EndorsementClaims struct {
	Issuer   string // iss, SPIFFE ID of the agent
	Audience string // aud, SPIFFE ID of the company
	IssuedAt int64  // iat
	Next     string // jkt, thumbprint of the next key
}

// Endorsement is an endorsement of the right form. Its signature is not checked.
type Endorsement struct {
	EndorsementClaims
	KeyID   string // kid, thumbprint of the key that endorses
	Compact string // the endorsement itself

	token jose.Token
}

// ParseEndorsement reads an endorsement. It requires the form alone. Every error of it, and of the
// checks below, is an *Error with CodeEndorsementInvalid.
func ParseEndorsement(compact string) (*Endorsement, error) {
	t, err := parseSigned(compact, EndorsementType, MaxEndorsement)
	if err != nil {
		return nil, refuseEndorsement(err.Error())
	}
	c, err := readEndorsement(t.Payload)
	if err != nil {
		return nil, err
	}
	if c.Next == t.Header.KeyID {
		return nil, refuseEndorsement("must name another key than its own as jkt")
	}
	return &Endorsement{EndorsementClaims: c, KeyID: t.Header.KeyID, Compact: compact, token: t}, nil
}

// readEndorsement reads the claims, these four and no others.
func readEndorsement(payload []byte) (EndorsementClaims, error) {
	var iss, aud, iat, jkt []byte
	hasUnknown := false
	err := strictjson.EachMember(payload, 1, func(name, value []byte) {
		switch string(name) {
		case "iss":
			iss = value
		case "aud":
			aud = value
		case "iat":
			iat = value
		case "jkt":
			jkt = value
		default:
			hasUnknown = true
		}
	})
	refused := func(message string) (EndorsementClaims, error) {
		return EndorsementClaims{}, refuseEndorsement(message)
	}
	if err != nil {
		return refused("claims are not a JSON object without duplicate members")
	}
	var c EndorsementClaims
	var ok [4]bool
	c.Issuer, ok[0] = asText(iss, MaxEndorsement, isVisible)
	c.Audience, ok[1] = asText(aud, MaxEndorsement, isVisible)
	c.IssuedAt, ok[2] = strictjson.AsInteger(iat)
	c.Next, ok[3] = strictjson.AsString(jkt)
	switch {
	case hasUnknown:
		return refused("has a claim that no endorsement has: iss, aud, iat and jkt are all")
	case !ok[0] || !isSPIFFE(c.Issuer):
		return refused("must have the SPIFFE ID of the agent as iss")
	case !ok[1] || !isSPIFFE(c.Audience):
		return refused("must have the SPIFFE ID of the company as aud, a string")
	case !ok[2] || c.IssuedAt > maxTime:
		return refused("must have whole Unix seconds as iat")
	case !ok[3] || !jose.IsThumbprint(c.Next):
		return refused("must have the thumbprint of the next key as jkt")
	}
	return c, nil
}

// MakeEndorsement signs that the key c.Next follows the key of s. It refuses what ParseEndorsement
// does. Every other error is the signer's.
func MakeEndorsement(ctx context.Context, s jose.Signer, c EndorsementClaims) (*Endorsement, error) {
	payload := c.append(nil)
	if _, err := readEndorsement(payload); err != nil {
		return nil, err
	}
	compact, err := jose.Sign(ctx, s, EndorsementType, payload)
	if err != nil {
		return nil, err
	}
	return ParseEndorsement(compact)
}

func (c EndorsementClaims) append(dst []byte) []byte {
	dst = jcs.AppendString(append(dst, `{"iss":`...), c.Issuer)
	dst = jcs.AppendString(append(dst, `,"aud":`...), c.Audience)
	dst = strconv.AppendInt(append(dst, `,"iat":`...), c.IssuedAt, 10)
	dst = jcs.AppendString(append(dst, `,"jkt":`...), c.Next)
	return append(dst, '}')
}

// Check goes on where ParseEndorsement ended: [Endorsement.Verify], [Endorsement.Match], then
// [Endorsement.CheckTime]. key is the one that KeyID names. want is what the endorsement must say;
// its IssuedAt is ignored.
func (e *Endorsement) Check(key *jose.Key, want EndorsementClaims, now time.Time) error {
	if err := e.Verify(key); err != nil {
		return err
	}
	if err := e.Match(want); err != nil {
		return err
	}
	return e.CheckTime(now)
}

// Verify requires that e is signed with key.
func (e *Endorsement) Verify(key *jose.Key) error {
	if key.Thumbprint != e.KeyID || key.Verify(e.token) != nil {
		return refuseEndorsement("signature is not of these claims with the key that kid names, and with its algorithm")
	}
	return nil
}

// Match requires that e is of an agent and names its next key. IssuedAt of want is ignored.
func (e *Endorsement) Match(want EndorsementClaims) error {
	switch {
	case e.Issuer != want.Issuer:
		return refuseEndorsement("iss is not the SPIFFE ID of the agent")
	case e.Audience != want.Audience:
		return refuseEndorsement("aud is not the SPIFFE ID of the company")
	case e.Next != want.Next:
		return refuseEndorsement("jkt is not the thumbprint of the next key")
	}
	return nil
}

// CheckTime requires that e was made just now, as seen by the clock of the enrolment.
func (e *Endorsement) CheckTime(now time.Time) error {
	switch made := time.Unix(e.IssuedAt, 0); {
	case made.After(now.Add(MaxAhead)):
		return refuseEndorsement("iat is more than 60 s ahead")
	case made.Before(now.Add(-MaxEndorsementAge)):
		return refuseEndorsement("iat is more than 5 minutes ago")
	}
	return nil
}

// CheckLife requires that e was made while its key lived: not before that was enrolled, as far as
// clocks agree, and before it expired. expires is zero for a key without an end.
func (e *Endorsement) CheckLife(enrolled, expires time.Time) error {
	switch made := time.Unix(e.IssuedAt, 0); {
	case made.Before(enrolled.Add(-MaxAhead)):
		return refuseEndorsement("iat is more than 60 s before its key was enrolled")
	case !expires.IsZero() && !made.Before(expires):
		return refuseEndorsement("iat is after its key had expired")
	}
	return nil
}

func refuseEndorsement(message string) *Error {
	return refuse(CodeEndorsementInvalid, "endorsement "+message)
}
