package attestd

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Credential is a [Key] or what [OAuth] returns.
type Credential interface {
	// bearer returns what to present. refused is what the service has answered with 401, "" at
	// first; the same once more means that there is nothing else.
	bearer(ctx context.Context, c *Client, refused string) (string, error)
}

// Key is an API key, or an access token that somebody else keeps fresh.
type Key string

func (k Key) bearer(context.Context, *Client, string) (string, error) { return string(k), nil }

// Format keeps the key out of whatever is printed.
func (k Key) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, "(key)") }

// OAuth returns the credential of an OAuth client (client credentials, RFC 6749 §4.4). It fetches
// an access token at the first call, another a minute before that expires, and another when the
// service refuses one. It may be used by several Clients of one service.
func OAuth(clientID, secret string) Credential {
	return &oauth{id: clientID, secret: secret, turn: make(chan struct{}, 1)}
}

type oauth struct {
	id, secret string

	// holds one while someone uses what follows; to wait for it ends with the context
	turn    chan struct{}
	token   string
	expires time.Time
}

// early is how long before its end a token is replaced, but at most half of its life.
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

// Token is the answer to an OAuth client. Role is that of the client.
type Token struct {
	AccessToken string `json:"access_token"`
	TokenType   string `json:"token_type"`
	ExpiresIn   int64  `json:"expires_in"` // seconds
	Scope       string `json:"scope,omitempty"`
}

// OAuthToken gets an access token for a client's ID and secret. [OAuth] does so by itself.
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
