package service

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"attestd/chain/decision"
	"attestd/crypto/cred"
	"attestd/crypto/cred/details"
	"attestd/crypto/dpop"
	"attestd/crypto/tokenkey"
	"attestd/store"
)

// The types of tokens of RFC 8693 §3 that are exchanged.
const (
	TokenTypeJWT    = "urn:ietf:params:oauth:token-type:jwt"
	TokenTypeAccess = "urn:ietf:params:oauth:token-type:access_token"
)

// ExchangeRequest is a token exchange (RFC 8693 §2.1) of the company's own tokens.
type ExchangeRequest struct {
	Subject, SubjectType string
	Actor, ActorType     string // "" where the caller acts, or no one
	RequestedType        string // "" for what fits
	Scope                string // "" for that of the subject token
	Details              details.Details
	MayAct               string // who alone may act with the token (§4.4); "" for anybody
	Resources, Audiences []string
	Proof, Method, URL   string // see TokenRequest
	Issuer               string // of the company; see IssuerOf
}

// ExchangedToken is what a token exchange gives.
type ExchangedToken struct {
	Token
	Type string // TokenTypeJWT is for the next exchange and for a delegation here
}

var (
	// ErrInvalidExchange reports that a token cannot be exchanged (RFC 8693 §2.2.2). Its text, the
	// reason, names the check.
	ErrInvalidExchange = errors.New("invalid_request")
	// ErrInvalidDetails reports authorization details that are wider than there are (RFC 9396 §5).
	ErrInvalidDetails = errors.New(details.Code + ": authorization_details " + widerDetails)
	// ErrMayNotExchange reports a client whose role is too low.
	ErrMayNotExchange = errors.New("may not exchange")
)

func refusedExchange(why string) error {
	return errors.Join(ErrInvalidExchange, errors.New(why))
}

// Exchange exchanges a token of the company for one with which an actor acts for all whom that
// names. The new token always says who acts: a service that takes it for one of its subject's own
// has not read it. It has the nesting of RFC 8693, at most the scope of the subject token, and ends
// with both tokens at the latest. An agent acts for itself alone, an admin for any.
func (t *Tokens) Exchange(ctx context.Context, by store.Caller, r ExchangeRequest) (token ExchangedToken, err error) {
	if by.Agent == "" && !by.Role.Covers(store.Admin) {
		return token, ErrMayNotExchange
	}
	jkt, err := t.boundTo(ctx, by, r)
	if err != nil {
		return token, err
	}
	subject, err := t.readToken(ctx, by, r, "subject_token", r.Subject, r.SubjectType, jkt)
	if err != nil {
		return token, err
	}
	if err := forPerson(by, subject); err != nil {
		return token, err
	}
	if err := t.addActor(ctx, by, r, &subject, jkt); err != nil {
		return token, err
	}
	scope, ok := narrower(subject.Scope, r.Scope)
	if !ok {
		return token, ErrInvalidScope
	}
	if subject.chosen && store.NamesRole(scope) {
		return token, errors.Join(ErrInvalidScope, errors.New("the scope of subject_token names a role of this API, which a delegation does not give: ask for a part of it without that"))
	}
	audience, toSelf, err := r.target()
	if err == nil && !toSelf {
		actor, own := by.Company.Issuer.OwnAgent(subject.Chain[len(subject.Chain)-1])
		if !own {
			actor = by.Agent
		}
		c := decision.Context{Delegation: subject.Chain, Scopes: strings.Fields(scope)}
		if !strings.HasPrefix(subject.Chain[0], "spiffe://") {
			c.Person = subject.Chain[0]
		}
		if err = t.mayLeave(ctx, by, audience); errors.Is(err, ErrInvalidTarget) {
			if failed := t.mayHave(ctx, by, actor, audience[:1], c, decision.AudienceDenied); failed != nil && !errors.Is(failed, ErrDenied) {
				err = failed
			}
		} else if err == nil {
			err = t.mayHave(ctx, by, actor, audience, c, "")
		}
	}
	if err == nil {
		token.Type, err = r.issuedType(toSelf)
	}
	if err == nil && !toSelf {
		err = ofCompany(by, subject.Chain)
	}
	if err != nil {
		return token, err
	}
	ends, err := endOf(by, lifetimeOfToken)
	if subject.Ends.Before(ends) {
		ends = subject.Ends.Truncate(time.Second)
	}
	if err != nil || !ends.After(by.At) {
		return token, refusedExchange("subject_token, or a token presented with it, has ended")
	}
	limits, ok := details.Within(r.Details, append(subject.limits, subject.Details, by.Details)...)
	if !ok {
		return token, ErrInvalidDetails
	}
	claims := accessClaims{
		Issuer: r.Issuer, Subject: subject.Chain[0], Audience: audience, ClientID: clientOf(by), requester: requestedBy(by), Org: by.Company.ID, Scope: scope, Details: limits,
		IssuedAt: by.At.Unix(), Expires: ends.Unix(), ID: cred.NewID(), Act: cred.StandardAct(subject.Chain), MayAct: subject.mayAct,
	}
	if agent, own := by.Company.Issuer.OwnAgent(subject.Chain[len(subject.Chain)-1]); own {
		claims.AgentID = agent
	}
	if jkt != "" {
		claims.Confirms = &confirms{jkt}
	}
	payload, err := json.Marshal(claims)
	if err == nil {
		token.Text, err = t.Issuers.Sign(ctx, by, tokenkey.ES256, TypeAccessToken, payload)
	}
	if err == nil && len(token.Text) > maxIssued {
		err = refusedExchange("the token would be longer than 16384 bytes")
	}
	token.Scope, token.Details, token.Bound, token.Ends = store.Scope(scope), limits, jkt != "", ends
	return token, err
}

// boundTo returns the thumbprint of the key that the request proves, or "". An agent that has
// signed in with a key proves no other.
func (t *Tokens) boundTo(ctx context.Context, by store.Caller, r ExchangeRequest) (jkt string, err error) {
	if by.JKT != "" || r.Proof == "" { // the proof was that of the caller's own token
		return by.JKT, nil
	}
	proof, err := t.Nonces.checkProof(ctx, r.Proof, dpop.Request{Method: r.Method, URL: r.URL}, by.Key, by.At)
	if err != nil {
		return "", err
	}
	err = t.Store.Credentials.Use(ctx, UsedProof(&proof), by.At)
	if errors.Is(err, store.ErrUsed) {
		err = errProofUsed
	}
	return proof.Key.Thumbprint, err
}

// addActor adds to a subject who comes to act: the one of the actor token, or the agent that asks.
// A token that somebody else may have been handed is good for the one alone whom its may_act names:
// otherwise a server could become with it what its sender is elsewhere.
func (t *Tokens) addActor(ctx context.Context, by store.Caller, r ExchangeRequest, subject *ownToken, jkt string) error {
	actor := ""
	if by.Agent != "" {
		actor = by.Company.Issuer.AgentID(by.Agent)
	}
	if r.Actor != "" {
		presented, err := t.readToken(ctx, by, r, "actor_token", r.Actor, r.ActorType, jkt)
		switch {
		case err != nil:
			return err
		case !presented.ownAudience:
			return refusedExchange("actor_token is for another audience: it must be for the company's issuer alone")
		case len(presented.Chain) > 1:
			return refusedExchange("actor_token must be the actor's own, without act")
		case actor != "" && actor != presented.Subject:
			return refusedExchange("actor_token is another's: an agent acts for itself alone")
		}
		actor, subject.limits = presented.Subject, append(subject.limits, presented.Details)
		if presented.Ends.Before(subject.Ends) {
			subject.Ends = presented.Ends
		}
	}
	last := subject.Chain[len(subject.Chain)-1]
	switch {
	case !subject.ownAudience && (subject.mayAct == nil || subject.mayAct.Subject != actor):
		return refusedExchange("subject_token is for another audience, and has no may_act for who comes to act: it must be for the company's issuer alone")
	case actor == "" && len(subject.Chain) == 1:
		return refusedExchange("actor_token is required: an exchange makes a token with which somebody acts")
	}
	if r.MayAct != "" {
		_, own := by.Company.Issuer.OwnAgent(r.MayAct)
		switch {
		case !own:
			return refusedExchange("may_act must be the SPIFFE ID of an agent of the company")
		case subject.mayAct == nil:
			defer func() { subject.mayAct = &party{r.MayAct} }() // it is about who acts next
		case subject.mayAct.Subject != r.MayAct:
			return refusedExchange("subject_token has another may_act")
		}
	}
	switch {
	case actor == "" || actor == last:
		return nil // who acts already
	case subject.mayAct != nil && subject.mayAct.Subject != actor:
		return refusedExchange("the actor is not the one that may_act of subject_token names")
	case len(subject.Chain) > cred.MaxActors:
		return refusedExchange("delegation chain has more than 10 actors")
	}
	subject.Chain = append(slices.Clone(subject.Chain), actor)
	return nil
}

// forPerson requires of an agent that has signed in for a person that it goes on for that person.
func forPerson(by store.Caller, subject ownToken) error {
	if by.Delegation == "" {
		return nil
	}
	person, err := delegationOf(by)
	if err == nil && person.Subject != subject.Subject {
		err = refusedExchange("the access token is for a person, and subject_token names another subject")
	}
	return err
}

// clientOf is the client_id of a token that a caller asks for: the OAuth client, the agent, or for
// an API key the company.
func clientOf(by store.Caller) string {
	switch {
	case by.Client != "":
		return by.Client
	case by.Agent != "":
		return by.Company.Issuer.AgentID(by.Agent)
	}
	return by.Company.Issuer.CompanyID()
}

// narrower returns the scope that is asked for of a token that has one (RFC 6749 §3.3). A token
// without scope says nothing of what it is good for, so no part of that is given.
func narrower(has, asked string) (scope string, ok bool) {
	if asked == "" {
		return has, true
	}
	var given []string
	names := strings.Split(has, " ")
	for _, name := range strings.Split(asked, " ") {
		if name == "" || !slices.Contains(names, name) {
			return "", false
		}
		if !slices.Contains(given, name) {
			given = append(given, name)
		}
	}
	return strings.Join(given, " "), true
}

// target returns for whom the token is: what is asked for, or else the company's issuer,
// which is this service.
func (r ExchangeRequest) target() (audience []string, toSelf bool, err error) {
	wrong := func(why string) ([]string, bool, error) {
		return nil, false, errors.Join(ErrInvalidTarget, errors.New(why))
	}
	for _, asked := range slices.Concat(r.Resources, r.Audiences) {
		if !slices.Contains(audience, asked) {
			audience = append(audience, asked)
		}
	}
	switch {
	case len(audience) == 0 || len(audience) == 1 && audience[0] == r.Issuer:
		return []string{r.Issuer}, true, nil
	case slices.Contains(audience, r.Issuer):
		return wrong("the issuer of the company must be the only audience: another audience could send the token back here")
	case len(audience) > maxResources:
		return wrong("a token is for 8 resources and audiences at most")
	}
	for _, name := range r.Audiences { // a URL, or any name that is named
		if !isVisible(name) || len(name) > maxResourceSize {
			return wrong("audience must be 1 to 1024 visible ASCII characters")
		}
	}
	return audience, false, checkResources(r.Resources)
}

// mayLeave requires that an admin has named each audience for exchanges. Those who verify tokens of
// other issuers read the subject, and most of them neither the type of the token nor act: they
// would take the actor for the subject.
func (t *Tokens) mayLeave(ctx context.Context, by store.Caller, audience []string) error {
	for _, name := range audience {
		named, err := t.Store.Policies.MayExchange(ctx, by, name)
		if err != nil {
			return err
		}
		if !named {
			return errors.Join(ErrInvalidTarget, errors.New("the company exchanges no token for this resource or audience: an admin names those in exchangeAudiences of its policy"))
		}
	}
	return nil
}

// issuedType is the type of the token: this API accepts no JWT as access token, others do.
func (r ExchangeRequest) issuedType(toSelf bool) (string, error) {
	switch {
	case r.RequestedType == TokenTypeJWT || r.RequestedType == "" && toSelf:
		return TokenTypeJWT, nil
	case r.RequestedType == "" || r.RequestedType == TokenTypeAccess && !toSelf:
		return TokenTypeAccess, nil
	case r.RequestedType == TokenTypeAccess:
		return "", refusedExchange("requested_token_type " + TokenTypeAccess + " needs the resource or audience that takes it; without one it is " + TokenTypeJWT)
	}
	return "", refusedExchange("requested_token_type must be " + TokenTypeJWT + " or " + TokenTypeAccess)
}

// ofCompany requires that a token for others names the company's own principals, and persons alone:
// it is signed by the company's issuer, which vouches for no other issuer's.
func ofCompany(by store.Caller, chain []string) error {
	for _, id := range chain {
		if _, own := by.Company.Issuer.OwnAgent(id); !own && id != by.Company.Issuer.CompanyID() && !isPerson(id) {
			return refusedExchange("subject_token names a principal of another company: it is good for a delegation here alone")
		}
	}
	return nil
}
