package service

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"attestd/crypto/assertion"
	"attestd/crypto/cred"
	"attestd/crypto/cred/details"
	"attestd/crypto/jose"
	"attestd/crypto/keys"
	"attestd/crypto/strictjson"
	"attestd/store"
)

// ownToken is a token of the company that is presented in an exchange, flattened.
type ownToken struct {
	cred.Delegation
	mayAct *party // nil for anybody
	// authorization details of what was presented with it
	limits []details.Details
	// this service alone is its audience: no other service received it
	ownAudience bool
	// the scope is a text that the maker of the delegation has chosen, and gives no role
	chosen bool
}

// party is a principal in a claim (RFC 8693 §4.1 and §4.4).
type party struct {
	Subject string `json:"sub"`
}

// UnverifiedIssuer returns iss and aud of a JWT, of which nothing is checked: "" where they are not
// texts. A list of one is a text.
func UnverifiedIssuer(compact string) (iss, aud string) {
	token, err := jose.Parse(compact, maxIssued)
	if err != nil {
		return "", ""
	}
	// what is malformed is refused later
	_ = strictjson.EachMember(token.Payload, MaxDepth, func(name, value []byte) {
		switch string(name) {
		case "iss":
			iss, _ = strictjson.AsString(value)
		case "aud":
			var ok bool
			if aud, ok = strictjson.AsString(value); !ok {
				if list, ok := strictjson.AsStrings(value); ok && len(list) == 1 {
					aud = list[0]
				}
			}
		}
	})
	return iss, aud
}

// readToken checks a token of the company, whichever of its kinds it is: an SVID or a delegation
// token, a JWT of the company's issuer, an agent's access token. A passport is none of them: it is
// for its verifier. A token that is bound to a key is good with that key alone.
func (t *Tokens) readToken(ctx context.Context, by store.Caller, r ExchangeRequest, field, text, kind, jkt string) (token ownToken, err error) {
	bound := ""
	iss, _ := UnverifiedIssuer(text)
	switch {
	case kind != TokenTypeJWT && kind != TokenTypeAccess:
		return token, refusedExchange(field + "_type must be " + TokenTypeJWT + " or " + TokenTypeAccess)
	case strings.Count(text, ".") != 2 && kind == TokenTypeAccess:
		token, bound, err = t.readOpaque(ctx, by, text)
	case iss == by.Company.Issuer.Domain.Issuer() && kind == TokenTypeJWT:
		token.Delegation, err = by.Company.Issuer.CheckDelegation(text, by.At)
		token.chosen, token.ownAudience = true, true
	default:
		token, bound, err = t.readJWT(ctx, by, text, kind)
	}
	var refused *cred.Error
	switch {
	case errors.As(err, &refused):
		return token, refusedExchange("Invalid " + field + ": " + refused.Message)
	case isInactive(err):
		return token, refusedExchange("Invalid " + field + ": it is no token of this company of its type, or has ended or been revoked")
	case err != nil:
		return token, err
	case bound != "" && bound != jkt:
		return token, refusedExchange("Invalid " + field + ": it is bound to a key, of which the request needs a DPoP proof")
	}
	var disabled *Error
	if err := t.Issuers.Agents.MayDelegate(ctx, by, token.Chain); errors.As(err, &disabled) {
		return token, refusedExchange("Invalid " + field + ": an agent that it names is disabled")
	} else if err != nil {
		return token, err
	}
	return token, nil
}

// readOpaque checks an access token of this API.
func (t *Tokens) readOpaque(ctx context.Context, by store.Caller, text string) (token ownToken, jkt string, err error) {
	found, err := t.Store.Credentials.Introspect(ctx, by, keys.HashSecret(text))
	// a client is no principal
	if errors.Is(err, store.ErrNotFound) || err == nil && found.Agent == "" {
		err = ErrNotIssued
	}
	if err != nil {
		return token, "", err
	}
	names := []string{by.Company.Issuer.AgentID(found.Agent)}
	if found.Delegation != "" {
		person, err := delegationOf(found)
		if err != nil {
			return token, "", err
		}
		names = person.Chain
	}
	token.Delegation = cred.NewDelegation(names, "", found.Scope.Names(found.Role))
	token.Ends, token.Details, token.ownAudience = found.Expires, found.Details, true
	return token, found.JKT, nil
}

// readJWT checks a token of the company's issuer: an access token, or with the type JWT one that
// says to the issuer itself who an agent is.
func (t *Tokens) readJWT(ctx context.Context, by store.Caller, text, kind string) (token ownToken, jkt string, err error) {
	c, d, err := t.checkJWT(ctx, by, text)
	if errors.Is(err, ErrNotIssued) && kind == TokenTypeJWT {
		if c, err = t.checkAgentToken(ctx, by, text); err == nil && !c.isForOwnIssuer() {
			err = ErrNotIssued
		}
		d = cred.NewDelegation([]string{c.Subject}, c.ID, "")
		d.Details = c.Details
	}
	if err != nil {
		return token, "", err
	}
	if !by.Company.Issuer.Domain.IsID(c.Subject) && !isPerson(c.Subject) {
		return token, "", ErrNotIssued
	}
	token = ownToken{Delegation: d, mayAct: c.MayAct, ownAudience: c.isForOwnIssuer()}
	token.Ends = time.Unix(c.Expires, 0)
	if c.Confirms != nil {
		jkt = c.Confirms.JKT
	}
	return token, jkt, nil
}

// checkJWT checks an access token in the form of a JWT (RFC 9068), and flattens its act. What was
// revoked is ErrNotIssued; isInactive knows this and the other errors that are not ours.
func (t *Tokens) checkJWT(ctx context.Context, by store.Caller, text string) (c accessClaims, d cred.Delegation, err error) {
	payload, err := t.Issuers.Check(ctx, by, text, TypeAccessToken)
	if err == nil {
		err = json.Unmarshal(payload, &c)
	}
	if err == nil {
		d, err = by.Company.Issuer.Domain.Standard(c.Subject, c.Act, c.ID, c.Scope, c.Details)
	}
	if err != nil {
		return c, d, err
	}
	return c, d, t.checkValid(ctx, by, c, d.Chain)
}

// checkAgentToken checks a token that says to this service who an agent is, and perhaps to others
// with it. Errors are those of checkJWT.
func (t *Tokens) checkAgentToken(ctx context.Context, by store.Caller, text string) (c accessClaims, err error) {
	payload, err := t.Issuers.Check(ctx, by, text, TypeJWT)
	if err == nil {
		err = json.Unmarshal(payload, &c)
	}
	if err == nil && !slices.Contains(c.Audience, c.Issuer) {
		err = ErrNotIssued
	}
	if err != nil {
		return c, err
	}
	return c, t.checkValid(ctx, by, c, []string{c.Subject})
}

// checkValid requires that a token of the company's issuer was not revoked, and holds.
func (t *Tokens) checkValid(ctx context.Context, by store.Caller, c accessClaims, chain []string) error {
	revoked, err := t.Store.Credentials.IsRevokedJWT(ctx, by, c.ID)
	switch {
	case err != nil:
		return err
	case revoked:
		return ErrNotIssued
	}
	return t.holds(ctx, by, c, chain)
}

// isInactive reports that a token counts no more: it is not of this issuer, has ended or been
// revoked, or its client, key or federation is gone, or an agent that it names disabled.
func isInactive(err error) bool {
	return slices.ContainsFunc([]error{ErrNotIssued, store.ErrNotFound, store.ErrBadClient, store.ErrDisabled},
		func(e error) bool { return errors.Is(err, e) })
}

// holds requires that the credential is there with which a token was asked for: the OAuth client,
// the agent's key, the federation, the API key or the person. And no agent that it names is
// disabled.
func (t *Tokens) holds(ctx context.Context, by store.Caller, c accessClaims, chain []string) error {
	if strings.HasPrefix(c.ClientID, assertion.ClientPrefix) {
		if err := t.Store.Credentials.CheckClient(ctx, c.ClientID, by.At); err != nil {
			return err
		}
	}
	if c.AgentKey != "" {
		if _, err := t.Store.AgentKeys.Live(ctx, by, c.AgentID, c.AgentKey); err != nil {
			return err
		}
	}
	if c.Federation != "" {
		if err := t.Store.Federations.Check(ctx, by, c.Federation, c.FederationSince); err != nil {
			return err
		}
	}
	if c.APIKey != "" {
		if err := t.Store.Credentials.CheckKey(ctx, by, c.APIKey); err != nil {
			return err
		}
	}
	if c.Person != "" {
		if err := t.Store.People.Lives(ctx, by, c.Person, time.Unix(c.IssuedAt, 0)); err != nil {
			return err
		}
	}
	for _, id := range chain {
		agent, own := by.Company.Issuer.OwnAgent(id)
		if !own {
			continue
		}
		// an agent need not be registered, unless it has signed in
		err := t.Store.Agents.Check(ctx, by, agent)
		if err != nil && (c.AgentKey != "" && agent == c.AgentID || !errors.Is(err, store.ErrNotFound)) {
			return err
		}
	}
	return nil
}

// delegation checks an access token with the nesting of RFC 8693 that an action is done with. bound
// says that it has act or may_act.
func (t *Tokens) delegation(ctx context.Context, by store.Caller, text string) (_ cred.Delegation, bound bool, err error) {
	c, d, err := t.checkJWT(ctx, by, text)
	wrong := func(why string) (cred.Delegation, bool, error) {
		return cred.Delegation{}, false, refuse(Invalid, "Invalid delegation: "+why)
	}
	switch {
	case errors.Is(err, store.ErrDisabled):
		if err := t.Issuers.Agents.MayDelegate(ctx, by, d.Chain); err != nil {
			return d, false, err // the same answer as elsewhere
		}
		return wrong("an agent that it names was disabled just now")
	case isInactive(err):
		return wrong("it is no token of this company, or has ended or been revoked")
	case err != nil:
		return cred.Delegation{}, false, err
	case !c.isForOwnIssuer():
		return wrong("it is an access token for another resource")
	case !by.Company.Issuer.Domain.IsID(c.Subject) && !isPerson(c.Subject):
		return wrong("its subject is no principal")
	case c.Confirms != nil && c.Confirms.JKT != by.JKT:
		return wrong("it is bound to a key: send the request with an access token that is bound to the same one")
	case c.MayAct != nil && c.MayAct.Subject != d.Chain[len(d.Chain)-1]:
		return wrong("who may act with it must exchange it first")
	}
	return d, c.Act != nil || c.MayAct != nil, nil
}

// isPerson reports whether a principal is a person whom another issuer has named, {issuer}#{sub},
// which no SPIFFE ID is.
func isPerson(id string) bool { return strings.Contains(id, "#") }
