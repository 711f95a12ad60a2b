package cred

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"

	"attestd/crypto/cred/details"
	"attestd/crypto/jcs"
	"attestd/crypto/keys"
)

const (
	SVIDLifetime   = time.Hour      // of SVIDs and delegation tokens
	MaxPassportTTL = 24 * time.Hour // no token lasts longer
	MaxScopes      = 100
	MaxActors      = 10 // in a delegation chain, the subject not counted
)

// NewID returns an ID for a token that is recorded: a UUID of version 7. It begins with the time,
// so what is issued together has neighbouring rows on disk, and the cost of issuing does not grow
// with the number of tokens.
func NewID() string { return uuid.Must(uuid.NewV7()).String() }

// Issuer issues and checks the tokens of one company. It is immutable and safe for concurrent use.
type Issuer struct {
	Domain  Domain
	Company string      // companyId
	Public  keys.Public // of the key that signs

	key         ed25519.PrivateKey
	until       int64 // no token ends later: Unix seconds; 0 for no bound
	limits      details.Details
	former      []formerKey // the newest first
	verified    *Verified
	jwtHeader   string // encoded header of SVIDs and delegation tokens
	capHeader   string // encoded header of passports
	issuer      string // Domain.Issuer
	companyID   string // SPIFFE ID
	passportAud string
}

// Former is a retired key of a company that was not declared compromised.
type Former struct {
	Key   ed25519.PublicKey
	Ended time.Time
}

// formerKey is a Former whose tokens have an iat no later than its end, and are valid before until
// at most.
type formerKey struct {
	keys.Public
	ended, until time.Time
}

// NewIssuer returns an Issuer for a company's key. d MUST pass Check, company MUST pass
// CheckSegment, and key MUST be a complete Ed25519 private key. Issuers may share one cache of
// verified signatures, or have none. The former keys are ordered from newest to oldest. Their
// tokens with an iat no later than the key's end are accepted until they expire.
func NewIssuer(d Domain, company string, key ed25519.PrivateKey, verified *Verified, former ...Former) *Issuer {
	if len(key) != ed25519.PrivateKeySize {
		panic(fmt.Sprintf("cred: an Ed25519 private key of %d bytes", len(key)))
	}
	i := NewChecker(d, company, key.Public().(ed25519.PublicKey), former...)
	i.key, i.verified = key, verified
	i.jwtHeader, i.capHeader = encodeHeader(i.Public.KID, TypeJWT), encodeHeader(i.Public.KID, TypePassport)
	return i
}

// NewChecker returns an Issuer that has only public keys. It verifies tokens and panics when asked
// to sign.
func NewChecker(d Domain, company string, key ed25519.PublicKey, former ...Former) *Issuer {
	var before []formerKey
	for _, f := range former {
		before = append(before, formerKey{keys.Describe(f.Key), f.Ended, f.Ended.Add(MaxPassportTTL)})
	}
	return &Issuer{
		former:      before,
		Domain:      d,
		Company:     company,
		Public:      keys.Describe(key),
		issuer:      d.Issuer(),
		companyID:   d.CompanyID(company),
		passportAud: d.PassportAudience(),
	}
}

// CompanyID is the SPIFFE ID of the issuer's company.
func (i *Issuer) CompanyID() string { return i.companyID }

// AgentID is the SPIFFE ID of an agent of the issuer's company. agent must pass CheckSegment.
func (i *Issuer) AgentID(agent string) string { return i.Domain.AgentID(i.Company, agent) }

// OwnAgent returns the agent ID in a SPIFFE ID, if the agent belongs to the issuer's company.
func (i *Issuer) OwnAgent(id string) (agent string, ok bool) {
	company, agent, ok := i.Domain.splitID(id)
	return agent, ok && company == i.Company && agent != ""
}

// Keys returns the keys whose tokens may be valid at a time: the one that signs first.
func (i *Issuer) Keys(now time.Time) []keys.Public {
	accepted := []keys.Public{i.Public}
	for _, f := range i.former {
		if now.Before(f.until) {
			accepted = append(accepted, f.Public)
		}
	}
	return accepted
}

// keyNamed returns the company's key with a kid. It is nil when there is none, when all its tokens
// have expired, or when it was retired before iat.
func (i *Issuer) keyNamed(kid string, iat []byte, now time.Time) ed25519.PublicKey {
	if kid == i.Public.KID {
		return i.Public.Key
	}
	for _, f := range i.former {
		if kid == f.KID && now.Before(f.until) {
			if at, ok := asTime(iat); ok && at > f.ended.Unix() {
				return nil
			}
			return f.Key
		}
	}
	return nil
}

// Until returns an issuer like i whose tokens end by a time at the latest, in whole seconds. It
// MUST be later than they are issued; the zero time is no bound.
func (i *Issuer) Until(ends time.Time) *Issuer {
	if ends.IsZero() {
		return i
	}
	bounded := *i
	bounded.until = ends.Unix()
	return &bounded
}

// Limited returns an issuer like i whose tokens have these authorization details; none are no
// limit. An SVID has them too, so that what it is exchanged for keeps them.
func (i *Issuer) Limited(limits details.Details) *Issuer {
	if limits.IsZero() && i.limits.IsZero() {
		return i
	}
	limited := *i
	limited.limits = limits
	return &limited
}

// end returns when a token ends that is issued for a lifetime at most: Unix seconds.
func (i *Issuer) end(now time.Time, lifetime time.Duration) int64 {
	end := now.Unix() + int64(lifetime/time.Second)
	if i.until != 0 {
		end = min(end, i.until)
	}
	return end
}

// Sign signs the 32 raw bytes of a digest (OCSP) with the company key, base64url without padding.
func (i *Issuer) Sign(digest [32]byte) string {
	return base64.RawURLEncoding.EncodeToString(ed25519.Sign(i.key, digest[:]))
}

// SVID issues a JWT-SVID for sub, a SPIFFE ID, that lasts for SVIDLifetime at most. EdDSA is not
// among the algorithms that the JWT-SVID specification lists, so other SPIFFE implementations may
// refuse it.
func (i *Issuer) SVID(sub string, now time.Time) string {
	token, err := i.sign(i.jwtHeader, append(i.appendSVID(nil, sub, uuid.NewString(), i.limits, now), '}'))
	if err != nil {
		panic("cred: a SPIFFE ID that is too long: " + err.Error())
	}
	return token
}

// appendSVID appends the claims of an SVID without the closing brace.
func (i *Issuer) appendSVID(dst []byte, sub, jti string, limits details.Details, now time.Time) []byte {
	if dst == nil {
		dst = make([]byte, 0, 512)
	}
	at := now.Unix()
	dst = jcs.AppendString(append(dst, `{"iss":`...), i.issuer)
	dst = jcs.AppendString(append(dst, `,"sub":`...), sub)
	dst = jcs.AppendString(append(dst, `,"aud":[`...), i.Domain.Service)
	dst = strconv.AppendInt(append(dst, `],"iat":`...), at, 10)
	dst = strconv.AppendInt(append(dst, `,"nbf":`...), at, 10)
	dst = strconv.AppendInt(append(dst, `,"exp":`...), i.end(now, SVIDLifetime), 10)
	return appendDetails(jcs.AppendString(append(dst, `,"jti":`...), jti), limits)
}

// appendStrings appends a JSON array of strings.
func appendStrings(dst []byte, list []string) []byte {
	dst = append(dst, '[')
	for n, s := range list {
		if n > 0 {
			dst = append(dst, ',')
		}
		dst = jcs.AppendString(dst, s)
	}
	return append(dst, ']')
}
