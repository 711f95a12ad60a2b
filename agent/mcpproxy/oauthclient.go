package mcpproxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/oauth2"

	"attestd/agent/localhttp"
)

// OAuthClient is a client that somebody has registered with the authorization server. The zero
// value is none: the proxy then registers one itself (RFC 7591).
type OAuthClient struct {
	// ID is what the authorization server has given, or the URL of a client ID metadata document.
	ID     string
	Secret string // "" for a public client
	// Issuer is the authorization server. It is required with Secret: the upstream names its
	// authorization server, so a secret could go to any.
	Issuer   string
	Redirect *url.URL // the registered one, by ParseRedirect; nil for a free port and /callback
}

// ParseRedirect parses a redirect URI of this machine. Without a port it stands for each port, as
// in RFC 8252 §7.3.
func ParseRedirect(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" || !localhttp.IsLoopback(u.Hostname()) || u.User != nil || u.Opaque != "" || strings.ContainsAny(text, "?#") {
		return nil, errors.New("must be an http URL of this machine without a query, such as http://127.0.0.1:8765/callback")
	}
	return u, nil
}

// listen listens for the browser, and returns the address to which it is redirected.
func (c OAuthClient) listen() (net.Listener, *url.URL, error) {
	redirect := url.URL{Scheme: "http", Host: "127.0.0.1", Path: "/callback"}
	if c.Redirect != nil {
		redirect = *c.Redirect
	}
	host, port := redirect.Hostname(), redirect.Port()
	at := host
	if at == "localhost" {
		at = "127.0.0.1"
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(at, port))
	if err == nil && (port == "" || port == "0") {
		_, port, _ = net.SplitHostPort(listener.Addr().String())
		redirect.Host = net.JoinHostPort(host, port)
	}
	return listener, &redirect, err
}

// configure returns how a client identifies itself to the authorization server. Without a
// registered one it registers one.
func (c OAuthClient) configure(ctx context.Context, d *discovery, s serverMetadata, redirect string) (*oauth2.Config, error) {
	config := &oauth2.Config{
		ClientID: c.ID, ClientSecret: c.Secret, RedirectURL: redirect,
		// a client without a secret names itself in the body
		Endpoint: oauth2.Endpoint{AuthURL: s.AuthorizationEndpoint, TokenURL: s.TokenEndpoint, AuthStyle: oauth2.AuthStyleInParams},
	}
	switch {
	case c.Issuer != "" && !sameIssuer(c.Issuer, s.Issuer):
		return nil, fmt.Errorf("authorization server issuer %q does not match pre-registered credentials issuer %q", s.Issuer, c.Issuer)
	case c.ID != "":
		if c.Secret != "" && !slices.Contains(s.AuthMethods, "client_secret_post") {
			config.Endpoint.AuthStyle = oauth2.AuthStyleAutoDetect
			if slices.Contains(s.AuthMethods, "client_secret_basic") {
				config.Endpoint.AuthStyle = oauth2.AuthStyleInHeader
			}
		}
		return config, nil
	case s.RegistrationEndpoint == "":
		return nil, errors.New("the authorization server registers no clients by itself: register one and name it with --client-id")
	}
	got, err := d.register(ctx, s.RegistrationEndpoint, redirect)
	if err != nil {
		return nil, fmt.Errorf("%w (where clients cannot register themselves, register one and name it with --client-id)", err)
	}
	config.ClientID, config.ClientSecret = got.ClientID, got.ClientSecret
	if got.ClientSecret != "" && got.AuthMethod != "client_secret_post" && got.AuthMethod != "none" {
		config.Endpoint.AuthStyle = oauth2.AuthStyleInHeader // the default of RFC 7591 section 2
	}
	return config, nil
}

// owns reports whether a grant was given to this client, by its authorization server.
func (c OAuthClient) owns(g grant) bool {
	return c.ID == "" && g.Issuer == "" || c.ID == g.ClientID && c.Issuer == g.Issuer
}
