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
	"attestd/crypto/keys"
	"attestd/internal/keysets"
	"attestd/service/decide"
	"attestd/store"
)

// Tokens are access tokens (RFC 6749), which OAuth clients and agents get for an hour.
type Tokens struct {
	Store   *store.Store
	Keys    *AgentKeys
	Nonces  *Nonces
	Issuers *Issuers
	Sets    *keysets.Sets

	Authorizations *Authorizations

	// what is wrong with a URL of a key set, or nil
	CheckURL func(url string) error
}

// TokenRequest is what a client or an agent asks for.
type TokenRequest struct {
	Scope       string // "" for all that it may do
	Details     details.Details
	Proof       string // DPoP: the token is bound to its key; "" for a bearer token
	Method, URL string // of the request, for the proof
	// for which the token is a JWT that others verify (RFC 8707); none for one of this API
	Resources []string
	Issuer    string // see IssuerOf
	// the names of this API as a resource: a JWT for these alone opens it
	Own []string
}

// isForOwnIssuer reports whether the token is asked for with names of this API alone.
func (r *TokenRequest) isForOwnAPI() bool { return len(r.Resources) > 0 && OnlyOf(r.Own, r.Resources) }

// OnlyOf reports whether all of some resources are among our own.
func OnlyOf(own, resources []string) bool {
	return !slices.ContainsFunc(resources, func(r string) bool { return !slices.Contains(own, r) })
}

// Token is an access token that was issued.
type Token struct {
	Text  string
	Scope store.Scope // "" where none was asked for
	// authorization details; none where none were asked for or inherited
	Details details.Details
	Bound   bool
	Ends    time.Time
}

// ErrInvalidScope reports that more was asked for than there is, or an unknown scope.
var ErrInvalidScope = errors.New("invalid_scope")

// lifetimeOfToken is how long an access token counts at most.
const lifetimeOfToken = time.Hour

// ErrDenied reports a token that the policies of the company do not allow.
var ErrDenied = errors.New("access_denied")

// mayHave asks the decision point whether an agent may have a token for audiences of others. The
// first one that is denied counts. code is why the token is refused already, "" where it is not,
// and then the denial is recorded alone. A client that is no agent is not decided about.
func (t *Tokens) mayHave(ctx context.Context, by store.Caller, agent string, audiences []string, c decision.Context, code string) error {
	if asked, err := t.Authorizations.asked(ctx, by); agent == "" || err != nil || !asked {
		return err
	}
	c.Door = decide.DoorToken
	for _, audience := range audiences {
		made, err := t.Authorizations.Decide(ctx, by, Question{AgentID: agent, Action: decide.Token, Resource: audience, Code: code, Context: c})
		if err != nil {
			return err
		}
		if made.Verdict != decision.Allow {
			return errors.Join(ErrDenied, errors.New("the policies of the company do not allow the agent a token for "+audience))
		}
	}
	return nil
}

// refusedFor records that an agent is refused a token for a reason of its rights, and returns err.
// A token for this API has the company as its audience.
func (t *Tokens) refusedFor(ctx context.Context, by store.Caller, audiences []string, code string, err error) error {
	audience := by.Company.Issuer.CompanyID()
	if len(audiences) > 0 {
		audience = audiences[0]
	}
	if failed := t.mayHave(ctx, by, by.Agent, []string{audience}, decision.Context{}, code); failed != nil && !errors.Is(failed, ErrDenied) {
		return failed
	}
	return err
}

// Issue issues an access token to a client or an agent that has authenticated. An agent's is bound
// to no other key than that with which it has signed in. The policies of the company decide about
// one for others. The errors are ErrInvalidClient, ErrInvalidProof, ErrInvalidScope, ErrDenied and
// *NonceError where the other side is at fault.
func (t *Tokens) Issue(ctx context.Context, by store.Caller, once []store.UsedProof, r TokenRequest) (Token, error) {
	token := Token{Bound: r.Proof != ""}
	grant := store.TokenGrant{Proofs: once}
	if r.Proof != "" {
		proof, err := t.Nonces.checkProof(ctx, r.Proof, dpop.Request{Method: r.Method, URL: r.URL}, by.Key, by.At)
		if err != nil {
			return Token{}, err
		}
		grant.JKT, grant.Proofs = proof.Key.Thumbprint, append(grant.Proofs, UsedProof(&proof))
	}
	if r.Scope != "" {
		var ok bool
		if token.Scope, ok = store.ParseScope(r.Scope, by.Role); !ok {
			return Token{}, t.refusedFor(ctx, by, r.Resources, decision.ScopeDenied, ErrInvalidScope)
		}
		grant.Scope = token.Scope
	}
	var ok bool
	if token.Details, ok = details.Within(r.Details, by.Details); !ok {
		return Token{}, t.refusedFor(ctx, by, r.Resources, decision.DetailsDenied, ErrInvalidDetails)
	}
	grant.Details = token.Details
	var err error
	if r.isForOwnAPI() {
		err = boundResources(r.Resources)
	} else {
		err = checkResources(r.Resources)
		if err == nil {
			err = t.mayHave(ctx, by, by.Agent, r.Resources, decision.Context{Scopes: strings.Fields(string(token.Scope))}, "")
		}
	}
	switch {
	case err != nil:
	case r.isForOwnAPI():
		token.Scope = store.Scope(grant.Scope.Names(by.Role))
		grant.Text = func(ends time.Time) (string, error) { return t.signAccess(ctx, by, r, grant, ends) }
		token.Text, token.Ends, err = t.Store.Credentials.IssueToken(ctx, by, grant, lifetimeOfToken)
	case len(r.Resources) > 0:
		token.Scope = store.Scope(grant.Scope.Names(by.Role))
		token.Text, token.Ends, err = t.issueJWT(ctx, by, r, grant)
	default:
		token.Text, token.Ends, err = t.Store.Credentials.IssueToken(ctx, by, grant, lifetimeOfToken)
	}
	switch {
	case errors.Is(err, store.ErrUsed):
		err = replayed(err, once, refusedClient(errors.New("client_assertion was used before")))
	case errors.Is(err, store.ErrBadClient):
		err = ErrInvalidClient
	case errors.Is(err, store.ErrNotFound):
		err = unknownAgent(err)
	}
	return token, err
}

// replayed is the answer to something that counts once and was used before: other if that is one
// of some that were presented, and otherwise ErrInvalidProof, because it is the DPoP proof.
func replayed(err error, once []store.UsedProof, other error) error {
	var used *store.UsedError
	if errors.As(err, &used) && slices.Contains(once, used.Proof) {
		return other
	}
	return errProofUsed
}

// ActiveToken is what is known of an access token that counts.
type ActiveToken struct {
	Issuer, Subject, ClientID, AgentID, Scope, JKT, ID string
	Audience                                           []string
	IssuedAt, Expires                                  int64 // Unix seconds
	Details                                            details.Details
	// it says who an agent is, and gives no access
	NoAccess bool
	// of an exchange, as in the token
	Act    json.RawMessage
	MayAct *party
}

// Introspect returns what an access token of the caller's company is good for. Nothing is active
// that is unknown, has ended or is of another company. issuer is the company's, which means this
// API as the audience of tokens that are no JWTs; "" where we do not know our name.
func (t *Tokens) Introspect(ctx context.Context, by store.Caller, issuer, text string) (a ActiveToken, active bool, err error) {
	if strings.Count(text, ".") == 2 {
		return t.introspectJWT(ctx, by, text)
	}
	found, err := t.Store.Credentials.Introspect(ctx, by, keys.HashSecret(text))
	if errors.Is(err, store.ErrNotFound) {
		return a, false, nil
	}
	if err != nil {
		return a, false, err
	}
	a = ActiveToken{
		Issuer: issuer, Subject: found.Client, ClientID: found.Client, AgentID: found.Agent, Scope: found.Scope.Names(found.Role), JKT: found.JKT,
		Expires: found.Expires.Unix(), Details: found.Details,
	}
	if issuer != "" {
		a.Audience = []string{issuer}
	}
	if found.Agent != "" {
		a.Subject = by.Company.Issuer.AgentID(found.Agent)
		a.ClientID = a.Subject
	}
	if found.Delegation != "" {
		d, err := delegationOf(found)
		if err != nil {
			return ActiveToken{}, false, err
		}
		a.Subject, a.ClientID, a.Act = d.Subject, found.Client, cred.StandardAct(d.Chain)
	}
	return a, true, nil
}

// ErrNotItsToken reports a token of the caller's company that is another's.
var ErrNotItsToken = errors.New("unauthorized_client")

// Revoke ends an access token of the caller's company: its own, or for an admin anybody's.
// What is no such token has ended already.
func (t *Tokens) Revoke(ctx context.Context, by store.Caller, text string) error {
	found, active, err := t.Introspect(ctx, by, "", text)
	own := by.Agent == "" && by.Client != "" && found.ClientID == by.Client || by.Agent != "" && found.AgentID == by.Agent
	switch {
	case err != nil || !active:
		return err
	case !by.Role.Covers(store.Admin) && !own:
		return ErrNotItsToken
	case found.ID != "":
		if err := t.Store.Credentials.RevokeJWT(ctx, by, found.ID, time.Unix(found.Expires, 0)); err != nil {
			return err
		}
		// one for this API has a row too
		if _, err := t.Store.Credentials.Introspect(ctx, by, keys.HashSecret(text)); errors.Is(err, store.ErrNotFound) {
			return nil
		}
	}
	return t.Store.Credentials.RevokeToken(ctx, by, keys.HashSecret(text))
}

// Use uses up what counts once of what a client has presented; ErrInvalidClient where it was
// used before.
func (t *Tokens) Use(ctx context.Context, once store.UsedProof, now time.Time) error {
	err := t.Store.Credentials.Use(ctx, once, now)
	if errors.Is(err, store.ErrUsed) {
		err = refusedClient(errors.New("client_assertion was used before"))
	}
	return err
}
