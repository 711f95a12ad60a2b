package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"attestd/chain"
	"attestd/crypto/cred"
	"attestd/crypto/jcs"
	"attestd/crypto/jose"
	"attestd/crypto/strictjson"
	"attestd/crypto/tokenkey"
	"attestd/store"
)

// The types of the tokens that a company's issuer signs, the typ of their headers.
const (
	TypeJWT         = "JWT" // says who an agent is
	TypeAccessToken = cred.TypeAccessToken
)

// maxIssued bounds a token that is checked, in bytes.
const maxIssued = 16 << 10

// Issuers sign tokens for others, each company as an issuer of its own, with keys that sign nothing
// else.
type Issuers struct {
	Store  *store.Store
	Agents *Agents
}

// IssuerOf is the issuer of a company's tokens for others (RFC 8414 §2). base is the public address
// of the service.
func IssuerOf(base, companyID string) string { return base + "/o/" + companyID }

// Sign makes a token with claims, the text of a JSON object, whose exp MUST be no later than
// [store.TokenLife] after the caller's time.
func (i *Issuers) Sign(ctx context.Context, by store.Caller, algorithm, typ string, claims []byte) (string, error) {
	if err := i.Store.Tables.Changeable(ctx, by); err != nil {
		return "", err
	}
	key, err := i.Store.TokenKeys.Signer(ctx, by, algorithm)
	if err != nil {
		return "", err
	}
	return key.Sign(typ, claims)
}

// ErrNotIssued reports a token that the company has not signed as one of this type, or that has
// ended.
var ErrNotIssued = errors.New("not a valid token of this issuer")

// Check returns the claims of a token of the caller's company that is valid at the caller's time:
// signed by a published key before its end, of the type, by an issuer of the company's name.
// The caller checks its audience, and whether it was revoked.
func (i *Issuers) Check(ctx context.Context, by store.Caller, compact, typ string) (claims []byte, err error) {
	token, err := jose.Parse(compact, maxIssued)
	if err != nil || token.Header.Type != typ || token.Header.Extra != 0 || token.Header.JWK != nil {
		return nil, ErrNotIssued
	}
	published, err := i.Store.TokenKeys.Published(ctx, by)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(published.Keys, func(k store.TokenKey) bool { return k.KID == token.Header.KeyID })
	if at < 0 || published.Keys[at].Public.Verify(token) != nil {
		return nil, ErrNotIssued
	}
	var iss string
	var iat, nbf, exp int64
	err = strictjson.EachMember(token.Payload, 128, func(name, value []byte) {
		switch string(name) {
		case "iss":
			iss, _ = strictjson.AsString(value)
		case "iat":
			iat, _ = jose.NumericDate(value)
		case "nbf":
			nbf, _ = jose.NumericDate(value)
		case "exp":
			exp, _ = jose.NumericDate(value)
		}
	})
	now := by.At.Unix()
	if err != nil || !strings.HasSuffix(iss, IssuerOf("", by.Company.ID)) || exp <= now || nbf > now || !published.Keys[at].MayDate(time.Unix(iat, 0)) {
		return nil, ErrNotIssued
	}
	return token.Payload, nil
}

// KeySet returns the keys with which a company's tokens verify, and makes them before anybody has
// read them.
func (i *Issuers) KeySet(ctx context.Context, by store.Caller) (*tokenkey.Set, error) {
	published, err := i.Store.TokenKeys.Publish(ctx, by)
	if err != nil {
		return nil, err
	}
	return published.Set, nil
}

// AgentTokenRequest asks for a token that says who an agent is.
type AgentTokenRequest struct {
	AgentID   string
	Issuer    string // see IssuerOf
	Audience  []string
	Algorithm string // of tokenkey
	TTL       time.Duration
}

// AgentToken is a token that says who an agent is.
type AgentToken struct {
	Token     string `json:"token"`
	TokenType string `json:"tokenType"`
	ExpiresAt string `json:"expiresAt"`
}

// Token issues a token for the audience that it names (RFC 7523 §3): to clouds, and other
// authorization servers. It ends with the caller's credential at the latest. Where the caller's own
// token is bound to a key of the agent, this one names the key.
func (i *Issuers) Token(ctx context.Context, by store.Caller, r AgentTokenRequest) (AgentToken, error) {
	claims, ends, err := i.claims(ctx, by, r)
	if err != nil {
		return AgentToken{}, err
	}
	claims = strconv.AppendInt(append(claims, `,"nbf":`...), by.At.Unix(), 10)
	if !r.isForOwnIssuer() {
		claims = jcs.AppendString(append(claims, `,"jti":`...), uuid.NewString())
		claims = jcs.AppendString(append(claims, `,"agent_id":`...), r.AgentID)
	}
	claims = jcs.AppendString(append(claims, `,"org":`...), by.Company.ID)
	if by.Agent != "" && by.JKT != "" {
		claims = append(jcs.AppendString(append(claims, `,"cnf":{"jkt":`...), by.JKT), '}')
	}
	token, err := i.Sign(ctx, by, r.Algorithm, TypeJWT, append(claims, '}'))
	if err != nil {
		return AgentToken{}, err
	}
	return AgentToken{token, TokenTypeJWT, chain.FormatTime(ends)}, nil
}

// svidTTL is the life of a JWT-SVID for one audience.
const svidTTL = 5 * time.Minute

// SVID issues a JWT-SVID (SPIFFE's JWT-SVID §3) for one audience.
func (i *Issuers) SVID(ctx context.Context, by store.Caller, r AgentTokenRequest) (AgentSVID, error) {
	r.TTL = svidTTL
	claims, ends, err := i.claims(ctx, by, r)
	if err != nil {
		return AgentSVID{}, err
	}
	token, err := i.Sign(ctx, by, r.Algorithm, TypeJWT, append(claims, '}'))
	if err != nil {
		return AgentSVID{}, err
	}
	return AgentSVID{AgentID: r.AgentID, SPIFFEID: by.Company.Issuer.AgentID(r.AgentID), SVID: token, ExpiresAt: chain.FormatTime(ends)}, nil
}

// isForOwnIssuer reports whether the company's issuer, which is this service, accepts the token.
func (r AgentTokenRequest) isForOwnIssuer() bool { return slices.Contains(r.Audience, r.Issuer) }

// claims returns what every token of an agent says, without the closing brace, and when it ends. An
// audience of one is a string: some verifiers know no other form. A token for us says more: what it
// is revoked by, and which credential it ends with.
func (i *Issuers) claims(ctx context.Context, by store.Caller, r AgentTokenRequest) (claims []byte, ends time.Time, err error) {
	if !slices.Contains(tokenkey.Algorithms, r.Algorithm) {
		return nil, ends, refuse(Invalid, fmt.Sprintf("Invalid field: alg must be one of %s", strings.Join(tokenkey.Algorithms, ", ")))
	}
	if err := i.Agents.Check(ctx, by, r.AgentID); err != nil {
		return nil, ends, err
	}
	if ends, err = endOf(by, r.TTL); err != nil {
		return nil, ends, err
	}
	claims = jcs.AppendString([]byte(`{"iss":`), r.Issuer)
	claims = jcs.AppendString(append(claims, `,"sub":`...), by.Company.Issuer.AgentID(r.AgentID))
	claims = append(claims, `,"aud":`...)
	if len(r.Audience) == 1 {
		claims = jcs.AppendString(claims, r.Audience[0])
	} else {
		for n, audience := range r.Audience {
			claims = jcs.AppendString(append(claims, "[,"[min(n, 1)]), audience)
		}
		claims = append(claims, ']')
	}
	claims = strconv.AppendInt(append(claims, `,"iat":`...), by.At.Unix(), 10)
	claims = strconv.AppendInt(append(claims, `,"exp":`...), ends.Unix(), 10)
	if r.isForOwnIssuer() {
		claims = jcs.AppendString(append(claims, `,"jti":`...), uuid.NewString())
		claims = jcs.AppendString(append(claims, `,"agent_id":`...), r.AgentID)
		claims = jcs.AppendString(append(claims, `,"client_id":`...), clientOf(by))
		claims = requestedBy(by).append(claims)
	}
	if !by.Details.IsZero() { // what it is exchanged for keeps them
		claims = append(append(claims, `,"authorization_details":`...), by.Details.String()...)
	}
	return claims, ends, nil
}
