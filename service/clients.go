package service

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"attestd/chain"
	"attestd/crypto/assertion"
	"attestd/crypto/idtoken"
	"attestd/crypto/jcs"
	"attestd/crypto/jose"
	"attestd/crypto/strictjson"
	"attestd/internal/keysets"
	"attestd/store"
)

// Presented is what an OAuth client, or an agent with a key of its own, shows at an OAuth endpoint
// to say who it is: its secret (RFC 6749 §2.3.1), or an assertion (RFC 7523).
type Presented struct {
	ClientID, Secret string // with an assertion, ClientID is "" or its subject
	Assertion        string
	Audiences        []string // of an assertion: each is us
}

// ErrInvalidClient reports that what was presented is no good. Of an assertion the reason is its
// text; see Reason.
var ErrInvalidClient = errors.New("invalid_client")

// Authenticate returns who presents itself, and which of its credentials count once: a caller that
// acts on that must use it up. An error is ErrInvalidClient or ErrKeysPending where the other side
// is at fault. It says nothing of which clients, agents and keys there are, except of a client
// whose key set cannot be fetched. With ErrInvalidClient the caller has a company alone: that at
// which it was refused, where that is known.
func (t *Tokens) Authenticate(ctx context.Context, p Presented, now time.Time) (by store.Caller, once []store.UsedProof, err error) {
	if p.Assertion != "" {
		return t.authenticateByAssertion(ctx, p, now)
	}
	by, err = t.Store.Credentials.AuthenticateClient(ctx, p.ClientID, p.Secret, now)
	if errors.Is(err, store.ErrBadClient) {
		err = ErrInvalidClient
	}
	return by, nil, err
}

func (t *Tokens) authenticateByAssertion(ctx context.Context, p Presented, now time.Time) (by store.Caller, once []store.UsedProof, err error) {
	signed, err := assertion.Parse(p.Assertion)
	if err != nil {
		return by, nil, refusedClient(err)
	}
	if p.ClientID != "" && p.ClientID != signed.Subject {
		return by, nil, refusedClient(errors.New("client_id is not the sub of client_assertion"))
	}
	if !signed.IsAgent() {
		return t.authenticateByClientKey(ctx, signed, p.Audiences, now)
	}
	companyID, agentID, ok := t.Store.Domain().SplitAgentID(signed.Subject)
	if !ok {
		return by, nil, refusedClient(errors.New("client_assertion is of no agent of this trust domain"))
	}
	company, err := t.Store.Companies.Get(ctx, companyID)
	if err != nil {
		return by, nil, unknownAgent(err)
	}
	by = store.Caller{Company: company, Role: store.ActsAsAgent, Agent: agentID, Key: signed.KeyID, At: now}
	key, err := t.Keys.live(ctx, by, agentID, signed.KeyID)
	if err == nil {
		err = t.Store.Agents.Check(ctx, by, agentID)
	}
	if err == nil {
		var own store.AgentKey
		own, err = t.Store.AgentKeys.Live(ctx, by, agentID, signed.KeyID)
		by.Expires, by.HolderExpires = own.ExpiresAt, own.ExpiresAt
	}
	if err != nil {
		return store.Caller{Company: company}, nil, unknownAgent(err)
	}
	if err := signed.Check(key.Public, p.Audiences, now); err != nil {
		return store.Caller{Company: company}, nil, refusedClient(err)
	}
	return by, usedAssertion(signed.KeyID, signed), nil
}

// authenticateByClientKey requires that an assertion is signed by a key of the client (RFC 7523).
func (t *Tokens) authenticateByClientKey(ctx context.Context, signed *assertion.Assertion, audiences []string, now time.Time) (by store.Caller, once []store.UsedProof, err error) {
	by, has, err := t.Store.Credentials.ClientKeys(ctx, signed.Subject, now)
	if errors.Is(err, store.ErrBadClient) {
		err = refusedClient(assertion.ErrNoClientKey)
	}
	if err == nil {
		err = t.withClientKeys(ctx, by, has, func(set *idtoken.KeySet) error { return signed.CheckClient(set, audiences, now) })
	}
	if err != nil {
		return store.Caller{Company: by.Company}, nil, err
	}
	return by, usedAssertion(signed.Subject, signed), nil
}

// usedAssertion names an assertion by whose it is and its jti, for as long as it would be accepted.
func usedAssertion(holder string, signed *assertion.Assertion) []store.UsedProof {
	return []store.UsedProof{{
		Name: sha256.Sum256([]byte("client assertion\n" + holder + "\n" + signed.ID)), Ends: signed.Ends,
	}}
}

func refusedClient(why error) error { return errors.Join(ErrInvalidClient, why) }

// unknownAgent refuses an agent that is not there, is disabled or has no such key, in one way.
func unknownAgent(err error) error {
	if slices.ContainsFunc([]error{store.ErrNotFound, store.ErrDisabled}, func(e error) bool { return errors.Is(err, e) }) {
		return refusedClient(errors.New("client_assertion is signed with no live key of an agent"))
	}
	return err
}

// maxClientKeys is how many keys an OAuth client may have: a present one and the next, for a few
// machines.
const maxClientKeys = 8

// ParseClientKeys reads the JWK set (RFC 7517 §5) of an OAuth client and returns the one form in
// which it is stored. A kid is taken as it is; where it is there, no two keys have the same.
func ParseClientKeys(jwks []byte) (stored string, err error) {
	keys, err := readClientKeys(jwks)
	if err != nil {
		return "", refuse(Invalid, "Invalid field: jwks "+err.Error())
	}
	text, err := json.Marshal(map[string]any{"keys": keys})
	if err == nil {
		text, err = jcs.Append(nil, text, 8)
	}
	return string(text), err
}

// readClientKeys returns the members of each key that are stored.
func readClientKeys(jwks []byte) (keys []map[string]json.RawMessage, err error) {
	var list []byte
	if err := strictjson.EachMember(jwks, MaxDepth, func(name, value []byte) {
		if string(name) == "keys" {
			list = value
		}
	}); err != nil {
		return nil, errors.New("is not a JSON object without duplicate members")
	}
	var texts []json.RawMessage
	if err := json.Unmarshal(list, &texts); err != nil || len(texts) == 0 || len(texts) > maxClientKeys {
		return nil, fmt.Errorf("must have keys, 1 to %d of them", maxClientKeys)
	}
	names := make(map[string]bool)
	for i, text := range texts {
		jwk, thumbprint, err := parseClientKey(text)
		if err != nil {
			return nil, fmt.Errorf("has a key, number %d, that %w", i, err)
		}
		given := []byte("null")
		// parseClientKey has read it, so there is no error
		_ = strictjson.EachMember(text, MaxDepth, func(name, value []byte) {
			if string(name) == "kid" {
				given = value
			}
		})
		kid, ok := strictjson.AsString(given)
		if string(given) != "null" && (!ok || kid == "" || len(kid) > 128) {
			return nil, fmt.Errorf("has a key, number %d, whose kid is not a text of 1 to 128 bytes", i)
		}
		if names[kid] && kid != "" || names[thumbprint] {
			return nil, fmt.Errorf("has key number %d twice, or two keys with one kid", i)
		}
		names[kid], names[thumbprint] = true, true
		members := make(map[string]json.RawMessage)
		if err := json.Unmarshal([]byte(jwk), &members); err != nil {
			return nil, err
		}
		if kid != "" {
			members["kid"] = jcs.AppendString(nil, kid)
		}
		keys = append(keys, members)
	}
	return keys, nil
}

// parseClientKey reads one key: of the kinds that agents have, or of RSA.
func parseClientKey(text []byte) (jwk, thumbprint string, err error) {
	if idtoken.IsRSA(text) {
		return idtoken.ParseRSA(text, assertion.ClientAlgorithms)
	}
	key, err := jose.ParseKey(text)
	if err != nil {
		return "", "", err
	}
	return key.JWK(), key.Thumbprint, nil
}

// NewClient is what an OAuth client is to be: one with a secret, unless it has keys.
type NewClient struct {
	Grant   store.Grant
	JWKS    json.RawMessage // nil without
	JWKSURI *string         // nil without
	Most    int             // of a company
}

// CreateClient creates an OAuth client, and begins to fetch its key set where it has a URL.
func (t *Tokens) CreateClient(ctx context.Context, by store.Caller, n NewClient) (client store.OAuthClient, secret string, err error) {
	has, err := t.checkClientKeys(n)
	switch {
	case err != nil:
		return client, "", err
	case has == store.ClientKeys{}:
		client, secret, err = t.Store.Credentials.CreateClient(ctx, by, n.Grant, n.Most)
	default:
		client, err = t.Store.Credentials.CreateKeyClient(ctx, by, n.Grant, has, n.Most)
	}
	if errors.Is(err, store.ErrTooMany) {
		err = TooMany("OAuth clients", n.Most)
	}
	if err == nil && has.JWKSURI != "" {
		t.Sets.Prepare(by.Company.Chain, keysets.Source{URL: has.JWKSURI})
	}
	return client, secret, err
}

func (t *Tokens) checkClientKeys(n NewClient) (has store.ClientKeys, err error) {
	wrong := func(what string) (store.ClientKeys, error) {
		return store.ClientKeys{}, &Error{Kind: Invalid, Message: "Invalid field: jwksUri " + what, Pointer: "/jwksUri"}
	}
	switch {
	case n.JWKS != nil && n.JWKSURI != nil:
		return wrong("must not stand beside jwks: one of them has the keys")
	case n.JWKS != nil:
		has.JWKS, err = ParseClientKeys(n.JWKS)
	case n.JWKSURI != nil:
		if err := t.CheckURL(*n.JWKSURI); err != nil {
			return wrong(err.Error())
		}
		has.JWKSURI = *n.JWKSURI
	}
	return has, err
}

// Client is an OAuth client as it is listed.
type Client struct {
	ClientID  string       `json:"clientId"`
	CreatedAt string       `json:"createdAt"`
	JWKSURI   string       `json:"jwksUri,omitempty"`
	Keys      *FetchedKeys `json:"keys,omitempty"` // of a client with jwksUri
}

// DeleteClient deletes a client with its tokens. The fingerprint of its secret, or of its key set,
// is "" where nothing was deleted, and known even if the outcome is not.
func (t *Tokens) DeleteClient(ctx context.Context, by store.Caller, id string) (fingerprint string, err error) {
	fingerprint, err = t.Store.Credentials.DeleteClient(ctx, by, id)
	if errors.Is(err, store.ErrNotFound) {
		err = refuse(NotFound, "OAuth client not found")
	}
	return fingerprint, err
}

// Clients yields the OAuth clients of a company in the order of their creation.
func (t *Tokens) Clients(ctx context.Context, by store.Caller) iter.Seq2[Client, error] {
	return Map(t.Store.Credentials.Clients(ctx, by), func(c store.OAuthClient) Client {
		shown := Client{ClientID: c.ID, CreatedAt: c.CreatedAt, JWKSURI: c.JWKSURI}
		if c.JWKSURI != "" {
			keys := fetchedKeys(t.Sets.State(by.Company.Chain, keysets.Source{URL: c.JWKSURI}))
			shown.Keys = &keys
		}
		return shown
	})
}

// FetchedKeys is what this server has of a key set that it fetches.
type FetchedKeys struct {
	Count     int     `json:"count"`             // 0 while none can be used
	FetchedAt *string `json:"fetchedAt"`         // null for keys that were not fetched
	Failure   string  `json:"failure,omitempty"` // of the last attempt to fetch them
}

func fetchedKeys(state keysets.State) FetchedKeys {
	keys := FetchedKeys{Count: state.Keys, Failure: state.Failure}
	if !state.Fetched.IsZero() {
		at := chain.FormatTime(state.Fetched)
		keys.FetchedAt = &at
	}
	return keys
}

// withClientKeys calls check with the keys of a client; see keysets.Sets.Check for those that are
// fetched. Its error is ErrInvalidClient or ErrKeysPending where the client is at fault.
func (t *Tokens) withClientKeys(ctx context.Context, by store.Caller, has store.ClientKeys, check func(*idtoken.KeySet) error) error {
	if has.JWKS == "" {
		return keysError(t.Sets.Check(ctx, by.Company.Chain, keysets.Source{URL: has.JWKSURI}, check), ErrInvalidClient, "client_assertion")
	}
	set, err := idtoken.ParseKeySet([]byte(has.JWKS))
	if err != nil {
		return err
	}
	return keysError(check(set), ErrInvalidClient, "client_assertion")
}

// keysError is the answer to an error of keysets.Sets.Check: that keys are on their way, or refused
// with the reason why what was presented is not accepted, or cannot be checked.
func keysError(err, refused error, what string) error {
	var unavailable *keysets.Unavailable
	var ofClient *assertion.Error
	var ofIssuer *idtoken.Error
	switch {
	case errors.As(err, &unavailable) && unavailable.Soon:
		return errors.Join(ErrKeysPending, err)
	case errors.As(err, &unavailable):
		return errors.Join(refused, errors.New(what+" cannot be checked: "+unavailable.Error()))
	case errors.As(err, &ofClient), errors.As(err, &ofIssuer):
		return errors.Join(refused, err)
	}
	return err
}
