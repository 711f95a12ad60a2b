package service

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"attestd/chain/decision"
	"attestd/crypto/cred"
	"attestd/crypto/dpop"
	"attestd/crypto/keys"
	"attestd/service/decide"
	"attestd/store"
)

// Forwards decides requests to other services, which a proxy in front of them describes.
type Forwards struct {
	Store          *store.Store
	Nonces         *Nonces
	Tokens         *Tokens
	Passports      *Passports
	Authorizations *Authorizations
}

// Forwarded is a request to another service. Its agent shows a passport, or else a token.
type Forwarded struct {
	URL      decide.URL
	Sent     string // the URL as it was sent, without its query: a proof is about that
	Passport string // "" without one
	Token    string // an access token or a JWT-SVID, "" without one
	ByDPoP   bool   // the token came by the scheme DPoP
	Proof    string // of DPoP, "" without one
}

// Admission is the answer to a request that was decided.
type Admission struct {
	decision.Decision
	AgentID, SPIFFEID string // "" where the agent is not known
	Index             int64  // of the record of the decision, negative without one
	// why a credential is missing or does not count, for its sender; nil where it does
	Refused *RefusedCredential
}

// RefusedCredential is an error of the sender's credential.
type RefusedCredential struct {
	Code    string // of the decision
	Message string
	Nonce   string // that the next proof has to repeat, "" for none
	Proof   bool   // it is the DPoP proof that does not count
}

func (e *RefusedCredential) Error() string { return e.Message }

func refusedCredential(message string) error {
	return &RefusedCredential{Code: decision.CredentialRefused, Message: message}
}

// principal is who sends a request, and by which right.
type principal struct {
	agent, passport string
	context         decision.Context
	code            string // why the right does not cover the request, "" where it does
}

// Decide decides whether an agent of the company may send a request. by is the proxy. What is wrong
// with the credential of the agent is in the answer; an error is one of the storage.
func (f *Forwards) Decide(ctx context.Context, by store.Caller, r Forwarded) (Admission, error) {
	q := Question{Subject: Named{"credential", noAgent}, Action: decide.HTTP, Resource: r.URL.String(), Method: r.URL.Method}
	p, err := f.identify(ctx, by, r)
	var refused *RefusedCredential
	switch {
	case errors.As(err, &refused):
		q.Code = refused.Code
	case err != nil:
		return Admission{}, err
	default:
		q.AgentID, q.Passport, q.Context, q.Code = p.agent, p.passport, p.context, p.code
	}
	q.Context.Door = decide.DoorForward
	made, index, err := f.Authorizations.DecideOnRecord(ctx, by, q)
	if err != nil {
		return Admission{}, err
	}
	a := Admission{Decision: made, AgentID: q.AgentID, Index: index, Refused: refused}
	if a.AgentID != "" {
		a.SPIFFEID = by.Company.Issuer.AgentID(a.AgentID)
	}
	return a, nil
}

// identify returns who sends a request. What is wrong with the credential is a *RefusedCredential.
func (f *Forwards) identify(ctx context.Context, by store.Caller, r Forwarded) (p principal, err error) {
	jkt := ""
	switch {
	case r.Passport != "":
		return f.byPassport(ctx, by, r)
	case r.Token == "":
		return p, &RefusedCredential{Code: decision.CredentialRequired, Message: "the request has no credential of an agent: send a passport, or an access token"}
	case strings.Count(r.Token, ".") == 2:
		p, jkt, err = f.byJWT(ctx, by, r)
	default:
		p, jkt, err = f.byOpaque(ctx, by, r.Token)
	}
	if isInactive(err) {
		err = refusedCredential("the token is none of an agent of this company for this service, or has ended or been revoked")
	}
	if err != nil {
		return p, err
	}
	return p, f.prove(ctx, by, r, jkt)
}

// byPassport returns the agent of a passport.
func (f *Forwards) byPassport(ctx context.Context, by store.Caller, r Forwarded) (p principal, err error) {
	claims, err := by.Company.Issuer.CheckPassport(r.Passport, by.At)
	if err == nil {
		err = f.Passports.inForce(ctx, by, claims)
	}
	if err == nil {
		err = f.Passports.proven(ctx, by, r.Passport, claims, ToolCall{Method: r.URL.Method, URL: r.Sent, Proof: r.Proof})
	}
	var refused *cred.Error
	if errors.As(err, &refused) {
		return p, &RefusedCredential{Code: refused.Code, Message: refused.Message, Proof: refused.Code == codeNotProven}
	}
	if err != nil {
		return p, err
	}
	p.agent, p.passport, p.context.Scopes = claims.AgentID, claims.ID, claims.Scopes
	limited(&p.context, claims.Details)
	if _, err := claims.GrantHTTP(r.URL.Method); errors.As(err, &refused) {
		p.code = refused.Code
	}
	return p, nil
}

// byOpaque returns the agent of an access token of this API, and the key that it is bound to.
func (f *Forwards) byOpaque(ctx context.Context, by store.Caller, token string) (p principal, jkt string, err error) {
	found, err := f.Store.Credentials.Introspect(ctx, by, keys.HashSecret(token))
	if err == nil && found.Agent == "" { // a client is no agent
		err = ErrNotIssued
	}
	if err != nil {
		return p, "", err
	}
	p.agent, p.context.Scopes = found.Agent, strings.Fields(string(found.Scope))
	limited(&p.context, found.Details)
	if found.Delegation != "" {
		err = delegated(&p.context, []byte(found.Delegation))
	}
	return p, found.JKT, err
}

// byJWT returns the agent of an access token or a JWT-SVID for this service or for the one to which
// the request goes, and the key that it is bound to.
func (f *Forwards) byJWT(ctx context.Context, by store.Caller, r Forwarded) (p principal, jkt string, err error) {
	c, d, err := f.Tokens.checkJWT(ctx, by, r.Token)
	if errors.Is(err, ErrNotIssued) {
		d = cred.Delegation{}
		if c, err = f.svid(ctx, by, r.Token); err == nil {
			d.Chain, d.Details = []string{c.Subject}, c.Details
		}
	}
	if err != nil {
		return p, "", err
	}
	agent, own := by.Company.Issuer.OwnAgent(d.Chain[len(d.Chain)-1])
	origin := r.URL.Scheme + "://" + r.URL.Host
	isForIt := c.isForOwnIssuer() || slices.ContainsFunc(c.Audience, func(aud string) bool { return strings.TrimSuffix(aud, "/") == origin })
	if !own || !isForIt {
		return p, "", ErrNotIssued
	}
	p.agent, p.context.Scopes = agent, strings.Fields(c.Scope)
	limited(&p.context, d.Details)
	if len(d.Chain) > 1 {
		p.context.Delegation = d.Chain
		if !by.Company.Issuer.Domain.IsID(d.Chain[0]) {
			p.context.Person = d.Chain[0]
		}
	}
	if c.Confirms != nil {
		jkt = c.Confirms.JKT
	}
	return p, jkt, nil
}

// svid checks a JWT-SVID of an agent. One for this service may have been revoked.
func (f *Forwards) svid(ctx context.Context, by store.Caller, text string) (c accessClaims, err error) {
	payload, err := f.Tokens.Issuers.Check(ctx, by, text, TypeJWT)
	if err == nil {
		err = json.Unmarshal(payload, &c)
	}
	if err == nil && c.ID != "" {
		err = f.Tokens.checkValid(ctx, by, c, []string{c.Subject})
	}
	return c, err
}

// prove requires a proof of the key that a token is bound to. A proof counts once.
func (f *Forwards) prove(ctx context.Context, by store.Caller, r Forwarded, jkt string) error {
	wrong := func(why string) error {
		return &RefusedCredential{Code: decision.CredentialRefused, Message: why, Proof: true}
	}
	switch {
	case jkt == "" && !r.ByDPoP:
		return nil
	case jkt == "":
		return wrong("the token is bound to no key: send it by the scheme Bearer")
	case !r.ByDPoP:
		return wrong("the token is bound to a key: send it with a proof, by the scheme DPoP")
	}
	proof, err := dpop.Check(r.Proof, dpop.Request{Method: r.URL.Method, URL: r.Sent, AccessToken: r.Token}, jkt, by.At)
	if err != nil {
		return wrong(err.Error())
	}
	var nonce *NonceError
	if err := f.Nonces.Check(ctx, proof.Nonce, by.At); errors.As(err, &nonce) {
		return &RefusedCredential{Code: decision.CredentialRefused, Message: nonce.Error(), Nonce: nonce.Nonce, Proof: true}
	} else if err != nil {
		return err
	}
	err = f.Store.Credentials.Use(ctx, UsedProof(&proof), by.At)
	if errors.Is(err, store.ErrUsed) {
		return wrong("the proof was used before: make one for each request")
	}
	return err
}
