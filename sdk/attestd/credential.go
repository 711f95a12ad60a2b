package attestd

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"attestd/crypto/cred/details"
)

// Credential is a [Key], what [OAuth] returns, or an [Identity].
type Credential interface {
	// bearer returns the bearer token to send. refused is the token that the service answered with
	// 401, or "". If bearer returns the same token again, there is no other.
	bearer(ctx context.Context, c *Client, refused string) (string, error)
}

// Key is an API key, or an access token that the caller refreshes.
type Key string

func (k Key) bearer(context.Context, *Client, string) (string, error) { return string(k), nil }

// Format prints a placeholder instead of the key.
func (k Key) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, "(key)") }

// OAuth returns the credential of an OAuth client (client credentials, RFC 6749 §4.4). It fetches
// an access token at the first call, a minute before the token expires, and when the service
// refuses the token. Several Clients of one service may share it.
func OAuth(clientID, secret string) Credential {
	return &oauth{id: clientID, secret: secret, turn: make(chan struct{}, 1)}
}

type oauth struct {
	id, secret string

	// a lock for the fields below, whose acquisition ends with the context
	turn    chan struct{}
	token   string
	expires time.Time
}

// early is how long before its expiry a token is replaced, at most half of its lifetime.
const early = time.Minute

func (o *oauth) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, "(OAuth client "+o.id+")") }

func (o *oauth) bearer(ctx context.Context, c *Client, refused string) (string, error) {
	select {
	case o.turn <- struct{}{}:
		defer func() { <-o.turn }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	if o.token != "" && o.token != refused && time.Now().Before(o.expires) {
		return o.token, nil
	}
	made, err := c.OAuthToken(ctx, o.id, o.secret)
	if err != nil {
		return "", err
	}
	life := time.Duration(made.ExpiresIn) * time.Second
	o.token, o.expires = made.AccessToken, time.Now().Add(life-min(early, life/2))
	return o.token, nil
}

// Token is an access token of an OAuth client. Role is the client's role.
type Token struct {
	AccessToken string `json:"access_token"`
	TokenType   string `json:"token_type"`
	ExpiresIn   int64  `json:"expires_in"` // seconds
	Scope       string `json:"scope,omitempty"`

	AuthorizationDetails details.Details `json:"authorization_details,omitzero"`
}

// OAuthToken gets an access token for a client's ID and secret. [OAuth] does so automatically.
func (c *Client) OAuthToken(ctx context.Context, clientID, secret string) (t Token, err error) {
	form := url.Values{"grant_type": {"client_credentials"}, "client_id": {clientID}, "client_secret": {secret}}
	err = c.do(ctx, request{
		method: http.MethodPost, route: "/v1/oauth/token", public: true, safe: true, status: http.StatusOK,
		body: []byte(form.Encode()), contentType: "application/x-www-form-urlencoded",
	}, &t)
	if err == nil && (t.AccessToken == "" || !strings.EqualFold(t.TokenType, "bearer")) {
		err = fmt.Errorf("the answer holds no bearer token")
	}
	return t, err
}
