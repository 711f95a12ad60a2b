package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"attestd/crypto/keys"
	"attestd/server/httpapi"
	"attestd/server/stream"
	"attestd/service"
	"attestd/store"
)

// Credentials are the API keys of a company, and the list of all credentials.
type Credentials struct {
	Store *store.Store
	Hub   *stream.Hub
	Most  func() int // how many a company may have
}

type createKeyRequest struct {
	Label     *string    `json:"label" must:"name"`
	Role      store.Role `json:"role" must:"role" default:"admin"`
	ExpiresAt time.Time  `json:"expiresAt" must:"time"`
}

// newGrant returns the grant of a credential that is requested at a time. A zero expires means
// never.
func newGrant(role store.Role, expires, at time.Time) (store.Grant, error) {
	if !expires.IsZero() && !expires.After(at) {
		return store.Grant{}, httpapi.Invalid("expiresAt", "must be in the future")
	}
	return store.Grant{Role: role, Expires: expires}, nil
}

type keyCreated struct {
	Key       string `json:"key"`
	CreatedAt string `json:"createdAt"`
}

func (s *Credentials) CreateKey(ctx context.Context, by store.Caller, r createKeyRequest) (keyCreated, error) {
	grant, err := newGrant(r.Role, r.ExpiresAt, by.At)
	if err != nil {
		return keyCreated{}, err
	}
	most := s.Most()
	k, err := s.Store.Credentials.CreateKey(ctx, by, r.Label, grant, most)
	if errors.Is(err, store.ErrTooMany) {
		return keyCreated{}, service.TooMany("API keys", most)
	}
	return keyCreated{k.Key, k.CreatedAt}, err
}

type keyBody struct {
	Key       string  `json:"key"`
	Label     *string `json:"label"`
	CreatedAt string  `json:"createdAt"`
}

func newKeyBody(k store.APIKey) keyBody { return keyBody{k.Key, k.Label, k.CreatedAt} }

func (s *Credentials) ListKeys(ctx context.Context, by store.Caller, _ httpapi.None) (httpapi.List[keyBody], error) {
	return httpapi.List[keyBody]{Name: "keys", Items: service.Map(s.Store.Credentials.Keys(ctx, by), newKeyBody)}, nil
}

type deleteKeyRequest struct {
	Key string `path:"key"`
}

type deletion struct {
	Deleted bool `json:"deleted"`
}

func (s *Credentials) DeleteKey(ctx context.Context, by store.Caller, r deleteKeyRequest) (deletion, error) {
	err := s.Store.Credentials.DeleteKey(ctx, by, r.Key)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return deletion{}, httpapi.Fail(http.StatusNotFound, "API key not found")
	case errors.Is(err, store.ErrLastKey):
		return deletion{}, &httpapi.Error{Status: http.StatusConflict, Code: "LAST_API_KEY",
			Message: "The last API key of a company of the role admin that does not expire cannot be deleted; create another one first"}
	}
	// even if the outcome is unknown: a client with a valid key reconnects
	s.Hub.End(keys.Fingerprint(keys.HashSecret(r.Key)))
	return deletion{err == nil}, err
}

type credentialsRequest struct {
	MadeBy string `query:"madeBy" must:"fingerprint"`
}

type credentialBody struct {
	Kind        string     `json:"kind"` // apiKey or oauthClient
	Fingerprint string     `json:"fingerprint"`
	ClientID    string     `json:"clientId,omitempty"`
	Label       *string    `json:"label,omitempty"`
	CreatedAt   string     `json:"createdAt"`
	MadeBy      string     `json:"madeBy,omitempty"`
	LastUsedAt  string     `json:"lastUsedAt,omitempty"`
	Role        store.Role `json:"role"`
	ExpiresAt   string     `json:"expiresAt,omitempty"`
}

func newCredentialBody(c store.Credential) credentialBody {
	return credentialBody{c.Kind, c.Fingerprint, c.ClientID, c.Label, c.CreatedAt, c.MadeBy, c.LastUsedAt, c.Role,
		c.ExpiresAt}
}

// ListCredentials is an addition to the specification: API keys and OAuth clients without their
// secrets, and the creator of each.
func (s *Credentials) ListCredentials(
	ctx context.Context, by store.Caller, r credentialsRequest,
) (httpapi.List[credentialBody], error) {
	return httpapi.List[credentialBody]{Name: "credentials",
		Items: service.Map(s.Store.Credentials.List(ctx, by, r.MadeBy), newCredentialBody)}, nil
}
