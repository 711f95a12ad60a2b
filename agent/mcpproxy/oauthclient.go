package mcpproxy

import (
	"errors"
	"net"
	"net/url"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

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

// configure sets how a handler identifies itself to the authorization server.
func (c OAuthClient) configure(h *auth.AuthorizationCodeHandlerConfig) {
	if c.ID == "" {
		h.DynamicClientRegistrationConfig = &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
			ClientName: "attestd", RedirectURIs: []string{h.RedirectURL}, TokenEndpointAuthMethod: "none",
			GrantTypes: []string{"authorization_code", "refresh_token"}, ResponseTypes: []string{"code"},
		}}
		return
	}
	h.PreregisteredClient = &oauthex.ClientCredentials{ClientID: c.ID, Issuer: c.Issuer}
	if c.Secret != "" {
		h.PreregisteredClient.ClientSecretAuth = &oauthex.ClientSecretAuth{ClientSecret: c.Secret}
		return
	}
	document, err := url.Parse(c.ID)
	// the library compares no issuer for a document
	if err == nil && c.Issuer == "" && document.Scheme == "https" && document.Host != "" && strings.Trim(document.Path, "/") != "" {
		h.ClientIDMetadataDocumentConfig = &auth.ClientIDMetadataDocumentConfig{URL: c.ID}
	}
}

// owns reports whether a grant was given to this client, by its authorization server.
func (c OAuthClient) owns(g grant) bool {
	return c.ID == "" && g.Issuer == "" || c.ID == g.ClientID && c.Issuer == g.Issuer
}
