package service

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"time"

	"attestd/crypto/cred"
	"attestd/crypto/cred/details"
	"attestd/crypto/jcs"
	"attestd/crypto/tokenkey"
	"attestd/store"
)

// ErrInvalidTarget reports resources for which no token is issued (RFC 8707 §2).
var ErrInvalidTarget = errors.New("invalid_target")

const (
	maxResources    = 8
	maxResourceSize = 1024
)

// boundResources requires that they are not too many.
func boundResources(resources []string) error {
	if len(resources) > maxResources {
		return ErrInvalidTarget
	}
	return nil
}

// checkResources requires absolute URLs of https without a fragment.
func checkResources(resources []string) error {
	if err := boundResources(resources); err != nil {
		return err
	}
	for _, text := range resources {
		visible := strings.IndexFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
		u, err := url.Parse(text)
		if err != nil || !visible || u.Scheme != "https" || u.Host == "" || u.User != nil || strings.Contains(text, "#") || len(text) > maxResourceSize {
			return ErrInvalidTarget
		}
	}
	return nil
}

// accessClaims are those of an access token in the form of a JWT (RFC 9068 §2.2).
type accessClaims struct {
	Issuer   string   `json:"iss"`
	Subject  string   `json:"sub"`
	Audience audience `json:"aud"`
	ClientID string   `json:"client_id"`
	AgentID  string   `json:"agent_id,omitempty"`
	requester
	Org      string    `json:"org"`
	Scope    string    `json:"scope"`
	IssuedAt int64     `json:"iat"`
	Expires  int64     `json:"exp"`
	ID       string    `json:"jti"`
	Confirms *confirms `json:"cnf,omitempty"`
	// RFC 9396 §9.1
	Details details.Details `json:"authorization_details,omitzero"`
	// of an exchange (RFC 8693 §4): the current actor is the outermost
	Act    json.RawMessage `json:"act,omitempty"`
	MayAct *party          `json:"may_act,omitempty"`
}

// isForOwnIssuer reports whether the company's issuer, which is we, is alone to take the token.
func (c *accessClaims) isForOwnIssuer() bool {
	return len(c.Audience) == 1 && c.Audience[0] == c.Issuer
}

// requester is the credential with which a token was requested, apart from the OAuth client. Where
// that is gone, the token counts no more.
type requester struct {
	// thumbprint of the key with which the agent has signed in
	AgentKey string `json:"agent_key,omitempty"`
	// name of the federation by which it has, and when that was made: another one of the name is
	// not the same
	Federation      string `json:"federation,omitempty"`
	FederationSince string `json:"federation_since,omitempty"`
	// fingerprint of an API key
	APIKey string `json:"api_key,omitempty"`
	// ID of a person in session, who lives on when the session has ended
	Person string `json:"person,omitempty"`
}

// requestedBy returns the requester that a caller is.
func requestedBy(by store.Caller) (a requester) {
	switch {
	case by.Federation != "":
		a.Federation, a.FederationSince = by.Federation, by.FederatedSince
	case by.Key != "":
		a.AgentKey = by.Key
	case by.Person != "":
		a.Person = by.Person
	case by.Agent == "" && by.Client == "":
		a.APIKey = by.Credential
	}
	return a
}

// append appends the members to those of an object.
func (a requester) append(claims []byte) []byte {
	for _, m := range [][2]string{
		{"agent_key", a.AgentKey}, {"federation", a.Federation}, {"federation_since", a.FederationSince}, {"api_key", a.APIKey}, {"person", a.Person},
	} {
		if m[1] != "" {
			claims = jcs.AppendString(append(append(append(claims, `,"`...), m[0]...), `":`...), m[1])
		}
	}
	return claims
}

type confirms struct {
	JKT string `json:"jkt"`
}

// audience is one text, or several.
type audience []string

// MarshalJSON writes one as a string: some verifiers know no other form.
func (a audience) MarshalJSON() ([]byte, error) {
	if len(a) == 1 {
		return json.Marshal(a[0])
	}
	return json.Marshal([]string(a))
}

// UnmarshalJSON reads what MarshalJSON writes.
func (a *audience) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] == '[' {
		return json.Unmarshal(text, (*[]string)(a))
	}
	*a = make(audience, 1)
	return json.Unmarshal(text, &(*a)[0])
}

// issueJWT signs an access token for others, who need not ask us. It has no row: what was presented
// once is used up before.
func (t *Tokens) issueJWT(ctx context.Context, by store.Caller, r TokenRequest, g store.TokenGrant) (text string, ends time.Time, err error) {
	for _, proof := range g.Proofs {
		if err := t.Store.Credentials.Use(ctx, proof, by.At); err != nil {
			return "", ends, err
		}
	}
	if by.Agent != "" {
		if _, err := t.Store.AgentKeys.Live(ctx, by, by.Agent, by.Key); err != nil {
			return "", ends, err
		}
	}
	if ends, err = endOf(by, lifetimeOfToken); err != nil {
		return "", ends, ErrInvalidClient
	}
	text, err = t.signAccess(ctx, by, r, g, ends)
	return text, ends, err
}

// signAccess signs the JWT of an access token (RFC 9068).
func (t *Tokens) signAccess(ctx context.Context, by store.Caller, r TokenRequest, g store.TokenGrant, ends time.Time) (string, error) {
	if !ends.After(by.At) {
		return "", ErrInvalidClient
	}
	claims := accessClaims{
		Issuer: r.Issuer, Subject: by.Client, Audience: r.Resources, ClientID: by.Client, AgentID: by.Agent, requester: requestedBy(by), Org: by.Company.ID,
		Scope: g.Scope.Names(by.Role), Details: g.Details, IssuedAt: by.At.Unix(), Expires: ends.Unix(), ID: cred.NewID(),
	}
	if by.Agent != "" {
		claims.Subject = by.Company.Issuer.AgentID(by.Agent)
		claims.ClientID = claims.Subject
	}
	if g.JKT != "" {
		claims.Confirms = &confirms{g.JKT}
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	return t.Issuers.Sign(ctx, by, tokenkey.ES256, TypeAccessToken, payload)
}

// IsJWT reports whether an access token has the form of one that says something itself.
func IsJWT(text string) bool { return strings.Count(text, ".") == 2 }

// CheckOwn requires of a JWT that authenticates its caller by its row that it counts as
// introspection says: its key is not compromised, it was not revoked, and its requester is there. A
// token that does not is [store.ErrNotFound].
func (t *Tokens) CheckOwn(ctx context.Context, by store.Caller, text string) error {
	_, _, err := t.checkJWT(ctx, by, text)
	if isInactive(err) {
		err = store.ErrNotFound
	}
	return err
}

// introspectJWT returns what a JWT of the company's issuer says, while it is valid: it was not
// revoked, and its holder is there. It is an access token, or says to this service who an agent is.
func (t *Tokens) introspectJWT(ctx context.Context, by store.Caller, text string) (a ActiveToken, active bool, err error) {
	c, _, err := t.checkJWT(ctx, by, text)
	if errors.Is(err, ErrNotIssued) {
		if c, err = t.checkAgentToken(ctx, by, text); err == nil {
			a.NoAccess = true
		}
	}
	if isInactive(err) {
		return a, false, nil
	}
	if err != nil {
		return a, false, err
	}
	a = ActiveToken{
		NoAccess: a.NoAccess, Issuer: c.Issuer, Subject: c.Subject, Audience: c.Audience, ClientID: c.ClientID, AgentID: c.AgentID, Scope: c.Scope,
		IssuedAt: c.IssuedAt, Expires: c.Expires, ID: c.ID, Act: c.Act, MayAct: c.MayAct, Details: c.Details,
	}
	if c.Confirms != nil {
		a.JKT = c.Confirms.JKT
	}
	return a, true, nil
}
