package cred

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	"attestd/crypto/cred/details"
	"attestd/crypto/jcs"
	"attestd/crypto/strictjson"
)

// Delegation is the content of a verified delegation token or plain SVID (Act null, Chain only the
// subject). In JSON it is the DelegationInfo of the specification.
type Delegation struct {
	Subject string `json:"subject"`
	// Subject, then each actor; the last is the proximate actor
	Chain []string `json:"delegationChain"`
	// as it is spelt in the token; nil, in JSON null, when it carries none
	Act     json.RawMessage `json:"act"`
	TokenID string          `json:"tokenId"`
	Scope   string          `json:"-"` // "" when the token carries none
	Ends    time.Time       `json:"-"` // exp
	// authorization_details, which limit what is done with the token
	Details details.Details `json:"-"`
}

// Canonical returns the RFC 8785 form of the DelegationInfo with exactly its four members. Act must
// be nil or JSON, as it is in every Delegation that this package returns.
func (d Delegation) Canonical() []byte {
	dst := make([]byte, 0, 1024)
	dst = append(dst, `{"act":`...)
	if d.Act == nil {
		dst = append(dst, "null"...)
	} else {
		var err error
		if dst, err = jcs.Append(dst, d.Act, MaxActors); err != nil {
			panic("cred: Delegation.Act: " + err.Error())
		}
	}
	dst = appendStrings(append(dst, `,"delegationChain":`...), d.Chain)
	dst = jcs.AppendString(append(dst, `,"subject":`...), d.Subject)
	dst = jcs.AppendString(append(dst, `,"tokenId":`...), d.TokenID)
	return append(dst, '}')
}

// Hash is the SHA-256 of the canonical DelegationInfo in hex: what a statement of the agent names.
func (d Delegation) Hash() string { return hashOf(d.Canonical()) }

// HashInfo is [Delegation.Hash] of a DelegationInfo, as a record has it, in any spelling. The error
// is a *strictjson.Error for what has no RFC 8785 form.
func HashInfo(info []byte) (string, error) {
	canonical, err := jcs.Append(nil, info, maxDepth)
	if err != nil {
		return "", err
	}
	return hashOf(canonical), nil
}

func hashOf(canonical []byte) string {
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:])
}

// Delegate issues a token that adds actor to the delegation from, at the innermost place of act. It
// reads only Subject and Chain of from; an empty Chain means only the subject. scope "" issues no
// scope claim. The authorization details are those of from, or the issuer's, which must be
// narrower. The error is an *Error for wider ones, more than MaxActors actors, a principal that is
// no SPIFFE ID of the trust domain, or a token over the size limit.
func (i *Issuer) Delegate(from Delegation, actor, scope string, now time.Time) (token string, d Delegation, err error) {
	chain := make([]string, 0, len(from.Chain)+2)
	if len(from.Chain) == 0 {
		chain = append(chain, from.Subject)
	}
	chain = append(append(chain, from.Chain...), actor)
	if len(chain)-1 > MaxActors {
		return "", Delegation{}, refuse(CodeMalformedClaims, "delegation chain has more than 10 actors")
	}
	for _, id := range chain {
		if !i.Domain.IsID(id) {
			return "", Delegation{}, refuse(CodeInvalidSubject, "delegation names a principal that is no SPIFFE ID of this trust domain")
		}
	}
	limits, ok := details.Within(i.limits, from.Details)
	if !ok {
		return "", Delegation{}, refuse(CodeMalformedClaims, "authorization details are wider than those of the delegation")
	}
	d = Delegation{
		Subject: chain[0],
		Chain:   chain,
		Act:     appendAct(nil, chain[1:]),
		TokenID: NewID(),
		Scope:   scope,
		Ends:    time.Unix(i.end(now, SVIDLifetime), 0),
		Details: limits,
	}
	claims := i.appendSVID(nil, d.Subject, d.TokenID, limits, now)
	claims = append(append(claims, `,"act":`...), d.Act...)
	if scope != "" {
		claims = jcs.AppendString(append(claims, `,"scope":`...), scope)
	}
	if token, err = i.sign(i.jwtHeader, append(claims, '}')); err != nil {
		return "", Delegation{}, err
	}
	return token, d, nil
}

// appendAct appends the act claim of actors: {"sub":first,"act":{"sub":second,…}}.
func appendAct(dst []byte, actors []string) []byte {
	dst = jcs.AppendString(append(dst, `{"sub":`...), actors[0])
	if len(actors) > 1 {
		dst = appendAct(append(dst, `,"act":`...), actors[1:])
	}
	return append(dst, '}')
}

// CheckDelegation checks an SVID or delegation token of this company, offline; its errors are of
// type *Error. A passport is refused by its typ.
func (i *Issuer) CheckDelegation(token string, now time.Time) (Delegation, error) {
	c, err := i.open(token, TypeJWT, now)
	if err != nil {
		return Delegation{}, err
	}
	if err := i.checkCommon(c, i.Domain.Service, now); err != nil {
		return Delegation{}, err
	}
	sub, ok := strictjson.AsString(c.sub)
	if !ok || !i.Domain.IsID(sub) {
		return Delegation{}, refuse(CodeInvalidSubject, "token subject is no SPIFFE ID of this trust domain")
	}
	l, err := readLifetime(c, SVIDLifetime)
	if err != nil {
		return Delegation{}, err
	}
	d := Delegation{Subject: sub, Chain: []string{sub}, Act: c.act, TokenID: l.id, Ends: time.Unix(l.exp, 0)}
	if d.Details, err = readDetails(c.details); err != nil {
		return Delegation{}, err
	}
	if c.scope != nil {
		if d.Scope, ok = strictjson.AsString(c.scope); !ok {
			return Delegation{}, refuse(CodeMalformedClaims, "scope must be a string")
		}
	}
	if c.act != nil {
		if d.Chain, err = i.Domain.appendActors(d.Chain, c.act); err != nil {
			return Delegation{}, err
		}
	}
	return d, nil
}

// appendActors walks act inward and appends each sub, which is a SPIFFE ID of the trust domain.
func (d Domain) appendActors(chain []string, act []byte) ([]string, error) {
	return appendActors(chain, act, d.IsID)
}

// appendActors walks act inward and appends each sub.
func appendActors(chain []string, act []byte, isActor func(string) bool) ([]string, error) {
	for act != nil {
		var sub, inner []byte
		other := false
		err := strictjson.EachMember(act, maxDepth, func(name, value []byte) {
			switch string(name) {
			case "sub":
				sub = value
			case "act":
				inner = value
			default:
				other = true
			}
		})
		id, ok := strictjson.AsString(sub)
		switch {
		case err != nil || other || !ok:
			return nil, refuse(CodeMalformedClaims, "act must be an object of sub and perhaps act")
		case !isActor(id):
			return nil, refuse(CodeMalformedClaims, "act names an actor that is no SPIFFE ID of this trust domain")
		case len(chain) > MaxActors:
			return nil, refuse(CodeMalformedClaims, "delegation chain has more than 10 actors")
		}
		chain, act = append(chain, id), inner
	}
	return chain, nil
}

// RFC 8693 §4.1 nests the other way than the delegation tokens of this package: its outermost act
// is the current actor, and the ones before are nested inside. What has that nesting has another
// typ and another issuer, so that neither is read as the other. A Delegation knows one nesting
// alone, that of this package: a reader of the other one reverses it.

// StandardAct returns the act claim of RFC 8693 of a chain, which is the subject and then each
// actor. Where the chain is the subject alone, that acts for itself: an exchange always says who
// acts, so that its token is not taken for one of the subject's own.
func StandardAct(chain []string) []byte {
	if len(chain) < 2 {
		return appendAct(nil, chain)
	}
	actors := slices.Clone(chain[1:])
	slices.Reverse(actors)
	return appendAct(nil, actors)
}

// Standard returns the delegation of a subject and an act claim of RFC 8693, which is nil where
// no other party acts. The subject that acts for itself first is no second party of the chain. The
// subject is the caller's to check. The error is an *Error.
func (d Domain) Standard(subject string, act []byte, tokenID, scope string, limits details.Details) (Delegation, error) {
	chain, err := d.appendActors([]string{subject}, act)
	if err != nil {
		return Delegation{}, err
	}
	slices.Reverse(chain[1:])
	if len(chain) > 1 && chain[1] == subject {
		chain = slices.Delete(chain, 1, 2)
	}
	delegation := NewDelegation(chain, tokenID, scope)
	delegation.Details = limits
	return delegation, nil
}

// NewDelegation returns the delegation of a chain of at least the subject, without authorization
// details.
func NewDelegation(chain []string, tokenID, scope string) Delegation {
	d := Delegation{Subject: chain[0], Chain: chain, TokenID: tokenID, Scope: scope}
	if len(chain) > 1 {
		d.Act = appendAct(nil, chain[1:])
	}
	return d
}

// TypeAccessToken is the typ of access tokens in the form of a JWT (RFC 9068), whose act has the
// nesting of RFC 8693.
const TypeAccessToken = "at+jwt"

// ReadDelegation reads a token that an action is done with: an SVID or delegation token, or an
// access token, distinguished by typ. It makes of it the DelegationInfo that the record will have,
// and verifies nothing, which the service does. An agent needs it for what it signs with the token.
// The error is an *Error.
func ReadDelegation(compact string) (Delegation, error) {
	t, err := parse(compact, "")
	if err != nil {
		return Delegation{}, err
	}
	if t.Header.Type != TypeJWT && t.Header.Type != TypeAccessToken {
		return Delegation{}, refuse(CodeWrongTokenType, "token type is neither JWT nor at+jwt: with such a token no action is done")
	}
	sub, ok1 := strictjson.AsString(t.claims.sub)
	id, ok2 := strictjson.AsString(t.claims.jti)
	if !ok1 || !ok2 {
		return Delegation{}, refuse(CodeMalformedClaims, "token must have sub and jti")
	}
	chain, err := appendActors([]string{sub}, t.claims.act, func(string) bool { return true })
	if err != nil {
		return Delegation{}, err
	}
	if t.Header.Type == TypeAccessToken {
		slices.Reverse(chain[1:])
		return NewDelegation(chain, id, ""), nil
	}
	return Delegation{Subject: sub, Chain: chain, Act: t.claims.act, TokenID: id}, nil
}
