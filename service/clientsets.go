package service

import (
	"context"
	"encoding/json"
	"errors"
	"iter"

	"attestd/chain"
	"attestd/crypto/assertion"
	"attestd/crypto/idtoken"
	"attestd/internal/keysets"
	"attestd/store"
)

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
