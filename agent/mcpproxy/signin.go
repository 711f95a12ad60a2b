package mcpproxy

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"

	"attestd/agent/localhttp"
)

const (
	signInTime  = 5 * time.Minute // for the user
	signInPause = time.Minute     // after a failure, so that no browser opens again and again
	oauthTime   = 30 * time.Second
)

// SignIn gets tokens for a server by the authorization code flow with PKCE, in which the user signs
// in with a browser. All fields but OAuth are required.
type SignIn struct {
	OAuth OAuthClient
	// Load returns what Save has stored, or "". It is private to the user.
	Load func() (string, error)
	Save func(text string) error
	// Browse shows the user an address.
	Browse func(address string)

	upstream *url.URL // set with Remote.SetSignIn

	mu     sync.Mutex // held while the user signs in
	failed time.Time

	source sync.Mutex
	loaded bool
	tokens oauth2.TokenSource // nil for none
}

// NewSignIn returns a SignIn.
func NewSignIn(load func() (string, error), save func(string) error, browse func(string)) *SignIn {
	return &SignIn{Load: load, Save: save, Browse: browse}
}

// grant is what is stored of a sign-in: all that a new token needs, but for a secret that is read
// from a file.
type grant struct {
	ClientID     string           `json:"clientId"`
	ClientSecret string           `json:"clientSecret,omitempty"`
	Issuer       string           `json:"issuer,omitempty"` // that of OAuthClient
	TokenURL     string           `json:"tokenUrl"`
	AuthStyle    oauth2.AuthStyle `json:"authStyle"`
	Token        *oauth2.Token    `json:"token"`
}

// token returns an access token, or "" if the user has to sign in.
func (s *SignIn) token() (string, error) {
	s.source.Lock()
	defer s.source.Unlock()
	if !s.loaded {
		text, err := s.Load()
		if err != nil {
			return "", fmt.Errorf("read the stored tokens: %w", err)
		}
		var g grant
		s.loaded = true
		if text != "" && json.Unmarshal([]byte(text), &g) == nil && g.Token != nil && s.OAuth.owns(g) && checkTokenType(g.Token.TokenType) == nil {
			if s.OAuth.ID != "" {
				g.ClientSecret = s.OAuth.Secret
			}
			s.tokens = s.renewing(newDiscovery(s.upstream, s.OAuth.Issuer), &oauth2.Config{
				ClientID: g.ClientID, ClientSecret: g.ClientSecret, Endpoint: oauth2.Endpoint{TokenURL: g.TokenURL, AuthStyle: g.AuthStyle},
			}, g.Token)
		}
	}
	if s.tokens == nil {
		return "", nil
	}
	t, err := s.tokens.Token()
	if err != nil {
		s.tokens = nil // the text of the error may hold what the authorization server has answered
		return "", nil
	}
	return t.AccessToken, nil
}

// renewing returns a source of tokens that stores each new one.
func (s *SignIn) renewing(d *discovery, c *oauth2.Config, first *oauth2.Token) oauth2.TokenSource {
	return &storing{sign: s, config: c, last: first.AccessToken, source: c.TokenSource(d.forTokens(context.Background()), first)}
}

type storing struct {
	sign   *SignIn
	config *oauth2.Config
	source oauth2.TokenSource
	last   string // the token that is stored; SignIn.source or SignIn.mu is held
}

func (s *storing) Token() (*oauth2.Token, error) {
	t, err := s.source.Token()
	if err != nil || t.AccessToken == s.last {
		return t, err
	}
	s.last = t.AccessToken
	return t, s.sign.store(s.config, t)
}

func (s *SignIn) store(c *oauth2.Config, t *oauth2.Token) error {
	secret := c.ClientSecret
	if s.OAuth.ID != "" {
		secret = "" // it is in a file of the user
	}
	text, err := json.Marshal(grant{c.ClientID, secret, s.OAuth.Issuer, c.Endpoint.TokenURL, c.Endpoint.AuthStyle, t})
	if err != nil {
		return err
	}
	return s.Save(string(text) + "\n")
}

// authorize has the user sign in after a response that asks for it. Concurrent requests wait for
// one sign-in.
func (s *SignIn) authorize(ctx context.Context, resp *http.Response) error {
	used := resp.Request.Header.Get("Authorization")
	done := make(chan error, 1)
	go func() { // it goes on when the client does not wait
		s.mu.Lock()
		defer s.mu.Unlock()
		if now, err := s.token(); err == nil && now != "" && "Bearer "+now != used {
			done <- nil // another request has signed in meanwhile
			return
		}
		if time.Since(s.failed) < signInPause {
			done <- errors.New("the last sign-in has failed; it can be tried again in a minute")
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), signInTime)
		defer cancel()
		err := s.flow(ctx, resp)
		if err != nil {
			s.failed = time.Now()
		}
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// flow signs in.
func (s *SignIn) flow(ctx context.Context, resp *http.Response) error {
	defer drained(resp)
	listener, redirect, err := s.OAuth.listen()
	if err != nil {
		return err
	}
	port, back := redirect.Port(), newCallback(cmp.Or(redirect.Path, "/"))
	server := &http.Server{Handler: localhttp.Only(port, nil, back), ReadHeaderTimeout: oauthTime,
		MaxHeaderBytes: 64 << 10}
	go func() { _ = server.Serve(listener) }() // until Close
	defer server.Close()
	return s.signIn(ctx, resp, redirect.String(), back)
}

// signIn has the user sign in, and stores the tokens.
func (s *SignIn) signIn(ctx context.Context, resp *http.Response, redirect string, back *callback) error {
	named, scopes, code := challengeOf(resp)
	if resp.StatusCode == http.StatusForbidden && code != "insufficient_scope" {
		return nil // the request is sent again, and its response forwarded
	}
	d := newDiscovery(resp.Request.URL, s.OAuth.Issuer)
	resource, server, err := d.find(ctx, named)
	if err != nil {
		return err
	}
	config, err := s.OAuth.configure(ctx, d, server, redirect)
	if err != nil {
		return err
	}
	if config.Scopes = scopes; len(scopes) == 0 {
		config.Scopes = resource.Scopes
	}
	if slices.Contains(server.Scopes, offline) && !slices.Contains(config.Scopes, offline) {
		config.Scopes = append(slices.Clip(config.Scopes), offline)
	}
	verifier, state := oauth2.GenerateVerifier(), rand.Text()
	forResource := oauth2.SetAuthURLParam("resource", resource.Resource)
	address := config.AuthCodeURL(state, oauth2.S256ChallengeOption(verifier), forResource)
	if err := d.check(address); err != nil { // nothing else is opened in a browser
		return err
	}
	back.expect(state)
	s.Browse(address)
	var result callbackResult
	select {
	case result = <-back.result:
	case <-ctx.Done():
		return errors.New("no user has signed in")
	}
	switch { // RFC 9207
	case result.err != nil:
		return result.err
	case result.issuer == "" && server.SendsIssuer, result.issuer != "" && !sameIssuer(result.issuer, server.Issuer):
		return fmt.Errorf("the answer to the sign-in is of the authorization server %.200q, and not of %.200q", result.issuer, server.Issuer)
	}
	token, err := config.Exchange(d.forTokens(ctx), result.code, oauth2.VerifierOption(verifier), forResource)
	var refused *oauth2.RetrieveError
	switch {
	case errors.As(err, &refused): // its text has the response, which may hold secrets
		return fmt.Errorf("the authorization server refused the code: %.100q", refused.ErrorCode)
	case err != nil:
		return plainError(err)
	}
	got := s.renewing(d, config, token)
	if err := s.store(config, token); err != nil {
		return err
	}
	s.source.Lock()
	defer s.source.Unlock()
	s.tokens, s.loaded = got, true
	return nil
}

// offline is the scope of OpenID Connect for tokens that can be renewed.
const offline = "offline_access"

// forTokens returns a context with the client for requests of tokens.
func (d *discovery) forTokens(ctx context.Context) context.Context {
	client := *d.client
	client.Transport = tokenAnswers{client.Transport}
	return context.WithValue(ctx, oauth2.HTTPClient, &client)
}

// callback receives the browser after the user has signed in.
type callback struct {
	path string

	mu     sync.Mutex
	state  string
	result chan callbackResult
}

type callbackResult struct {
	code, issuer string
	err          error
}

func newCallback(path string) *callback {
	return &callback{path: path, result: make(chan callbackResult, 1)}
}

func (c *callback) expect(state string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state = state
}

// ServeHTTP takes one result, and only with the state that the authorization server was given.
func (c *callback) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.Method != http.MethodGet || r.URL.Path != c.path || c.state == "" || q.Get("state") != c.state {
		http.Error(w, "this sign-in is not known", http.StatusBadRequest)
		return
	}
	c.state = ""
	result := callbackResult{code: q.Get("code"), issuer: q.Get("iss")}
	text := "Signed in. You can close this page."
	if result.code == "" {
		result.err = fmt.Errorf("the authorization server refused the sign-in: %.100q", q.Get("error"))
		text = "The sign-in was refused. You can close this page."
	}
	c.result <- result
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = fmt.Fprintln(w, text)
}

// tokenAnswers is the transport for requests of tokens. It refuses tokens of a type that the proxy
// does not send, and makes lifetimes whole seconds, as the library needs them.
type tokenAnswers struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t tokenAnswers) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.RoundTripper.RoundTrip(r)
	if err != nil || resp.StatusCode/100 != 2 {
		return resp, err
	}
	text, err := readAll(resp.Body, maxDocument, nil)
	resp.Body.Close()
	if err == nil {
		text, err = readTokenAnswer(text, mediaType(resp.Header))
	}
	if err != nil {
		return nil, err
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	return resp, nil
}

// readTokenAnswer checks the answer of a token endpoint (RFC 6749 section 5.1), and returns it in
// the form that the library reads.
func readTokenAnswer(text []byte, kind string) ([]byte, error) {
	if kind == "application/x-www-form-urlencoded" || kind == "text/plain" {
		values, err := url.ParseQuery(string(text))
		if err != nil {
			return text, nil // the library says what is wrong
		}
		return text, checkTokenType(values.Get("token_type"))
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(text, &members) != nil {
		return text, nil // as above
	}
	var tokenType string
	if _ = json.Unmarshal(members["token_type"], &tokenType); tokenType != "" {
		if err := checkTokenType(tokenType); err != nil {
			return nil, err
		}
	}
	life, has := members["expires_in"]
	if !has {
		return text, nil
	}
	seconds, err := strconv.ParseFloat(strings.Trim(string(life), `"`), 64)
	if err != nil || math.IsNaN(seconds) { // the server refuses the token when it has ended
		delete(members, "expires_in")
	} else {
		// 0 would be a token without an end
		members["expires_in"] = strconv.AppendInt(nil, int64(max(1, min(math.Floor(seconds), math.MaxInt32))), 10)
	}
	return json.Marshal(members)
}

// checkTokenType refuses a token that is used otherwise than as a bearer token (RFC 6749 section
// 7.1): one that is bound to a key would be refused at each request.
func checkTokenType(name string) error {
	if name == "" || strings.EqualFold(name, "Bearer") {
		return nil
	}
	return fmt.Errorf("the authorization server gave a token of the type %.40q, and attestd mcp sends bearer tokens alone: "+
		"have it issue bearer tokens for this client", name)
}

// OAuthClient is a client that was registered with the authorization server. The zero
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

// ParseRedirect parses a redirect URI of this machine. Without a port it matches each port, as in
// RFC 8252 §7.3.
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
