package mcpproxy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"attestd/agent/localhttp"
	"attestd/internal/outbound"
)

// maxDocument bounds what an authorization server answers, in bytes.
const maxDocument = 1 << 20

// discovery finds the authorization server of an upstream, which names it. What the upstream names
// is checked before anything connects to it or is opened in a browser.
type discovery struct {
	upstream *url.URL
	issuer   string // the authorization server that the user has named, or ""
	client   *http.Client
}

// newDiscovery returns a discovery whose client connects where check allows, and follows no
// redirect.
func newDiscovery(upstream *url.URL, issuer string) *discovery {
	if upstream == nil {
		upstream = new(url.URL)
	}
	d := &discovery{upstream: upstream, issuer: issuer}
	d.client = &http.Client{
		Timeout: oauthTime, Transport: newOutward(d),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return d
}

// check returns what is wrong with an address that the upstream or its authorization server names.
// Only https leads anywhere, and http on this machine. An upstream on another machine leads neither
// to this one nor into a private network, but to machines that the user has named.
func (d *discovery) check(address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" || u.Opaque != "" || u.User != nil || u.Fragment != "" {
		return fmt.Errorf("the address %.200q of the authorization server is no URL of a server", address)
	}
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	if u.Scheme != "https" && (u.Scheme != "http" || !localhttp.IsLoopback(host)) {
		return fmt.Errorf("the address %.200q of the authorization server does not use HTTPS", address)
	}
	if !d.isNamed(host) && isInner(host) {
		return fmt.Errorf("the address %.200q of the authorization server is on this machine or in a private network, which no server elsewhere may name: "+
			"name it with --client-id and --issuer, if you know it", address)
	}
	return nil
}

// isNamed reports whether the user has named a machine, or has named this one as the upstream.
func (d *discovery) isNamed(host string) bool {
	if localhttp.IsLoopback(d.upstream.Hostname()) || strings.EqualFold(host, d.upstream.Hostname()) {
		return true
	}
	issuer, err := url.Parse(d.issuer)
	return err == nil && d.issuer != "" && strings.EqualFold(host, issuer.Hostname())
}

// isInner reports whether a host is on this machine or in a private network, as far as its name
// says. A name that ends in a number is an address for browsers (WHATWG URL, section 3.5).
func isInner(host string) bool {
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	if _, err := netip.ParseAddr(host); err == nil {
		at := url.URL{Scheme: "https", Host: net.JoinHostPort(host, "443")}
		return outbound.NewGuard(false).CheckURL(at.String()) != nil
	}
	last := host[strings.LastIndexByte(host, '.')+1:]
	_, err := strconv.ParseUint(last, 0, 64)
	return err == nil || strings.Trim(last, "0123456789") == ""
}

// outward is a transport that checks each address, and of a name that the user has not given each
// address to which it resolves.
type outward struct {
	of             *discovery
	named, unknown *http.Transport
}

func newOutward(d *discovery) outward {
	base, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		base = &http.Transport{Proxy: http.ProxyFromEnvironment}
	}
	unknown := base.Clone()
	unknown.DialContext = (&net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second, Control: outbound.NewGuard(false).Allow}).DialContext
	return outward{d, base, unknown}
}

// RoundTrip implements http.RoundTripper.
func (o outward) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := o.of.check(r.URL.String()); err != nil {
		return nil, err
	}
	// a proxy of the user's looks up names itself
	if proxy, err := http.ProxyFromEnvironment(r); err != nil || proxy != nil || o.of.isNamed(r.URL.Hostname()) {
		return o.named.RoundTrip(r)
	}
	return o.unknown.RoundTrip(r)
}

// resourceMetadata is what RFC 9728 says of the upstream.
type resourceMetadata struct {
	Resource             string   `json:"resource"`
	AuthorizationServers []string `json:"authorization_servers"`
	Scopes               []string `json:"scopes_supported"`
}

// serverMetadata is what RFC 8414 says of an authorization server.
type serverMetadata struct {
	Issuer                string   `json:"issuer"`
	AuthorizationEndpoint string   `json:"authorization_endpoint"`
	TokenEndpoint         string   `json:"token_endpoint"`
	RegistrationEndpoint  string   `json:"registration_endpoint"`
	Scopes                []string `json:"scopes_supported"`
	AuthMethods           []string `json:"token_endpoint_auth_methods_supported"`
	ChallengeMethods      []string `json:"code_challenge_methods_supported"`
	SendsIssuer           bool     `json:"authorization_response_iss_parameter_supported"`
}

// find returns the authorization server of the upstream, and what the upstream says of itself.
// named is the address of its metadata in a challenge, or "".
func (d *discovery) find(ctx context.Context, named string) (r resourceMetadata, s serverMetadata, err error) {
	r, absent, err := d.resource(ctx, named)
	if err == nil {
		s, _, err = d.server(ctx, d.choose(r.AuthorizationServers))
		return r, s, err
	}
	if named != "" {
		return r, s, err
	}
	// Until 2025-06-18 the upstream's origin is the authorization server. Where nothing at all says
	// so, not even an error, its endpoints have fixed paths.
	origin := d.upstream.Scheme + "://" + d.upstream.Host
	r = resourceMetadata{Resource: d.upstream.String()}
	s, nothing, err := d.server(ctx, origin)
	if err != nil && absent && nothing {
		s = serverMetadata{Issuer: origin, AuthorizationEndpoint: origin + "/authorize", TokenEndpoint: origin + "/token",
			RegistrationEndpoint: origin + "/register"}
		err = d.check(origin)
	}
	return r, s, err
}

// choose returns the authorization server that the user has named, or the first one.
func (d *discovery) choose(servers []string) string {
	at := slices.IndexFunc(servers, func(s string) bool { return sameIssuer(s, d.issuer) })
	return servers[max(at, 0)]
}

// resource returns the metadata of the upstream. absent says that it has none.
func (d *discovery) resource(ctx context.Context, named string) (m resourceMetadata, absent bool, err error) {
	const wellKnown = "/.well-known/oauth-protected-resource"
	origin := d.upstream.Scheme + "://" + d.upstream.Host
	addresses := []string{origin + wellKnown + strings.TrimSuffix(d.upstream.EscapedPath(), "/"), origin + wellKnown}
	if named != "" {
		addresses = append([]string{named}, addresses...)
	}
	absent = true
	for _, address := range slices.Compact(addresses) {
		m = resourceMetadata{}
		found, bad := d.fetch(ctx, address, &m)
		switch {
		case bad == nil && !found:
			continue
		case bad != nil:
		case !d.isUpstream(m.Resource):
			bad = fmt.Errorf("%.200q describes the resource %.200q, which is not the upstream", address, m.Resource)
		case len(m.AuthorizationServers) == 0:
			bad = fmt.Errorf("%.200q names no authorization server", address)
		default:
			return m, false, nil
		}
		absent = false
		if err == nil {
			err = bad
		}
	}
	if err == nil {
		err = errors.New("the upstream does not name its authorization server")
	}
	return resourceMetadata{}, absent, err
}

// isUpstream reports whether a resource is the upstream: its URL or its origin, each also with a
// slash at the end.
func (d *discovery) isUpstream(resource string) bool {
	u, err := url.Parse(resource)
	if err != nil || u.User != nil || u.Fragment != "" || !strings.EqualFold(u.Scheme, d.upstream.Scheme) || hostPort(u) != hostPort(d.upstream) {
		return false
	}
	path := strings.TrimSuffix(u.EscapedPath(), "/")
	return path == "" && u.RawQuery == "" ||
		path == strings.TrimSuffix(d.upstream.EscapedPath(), "/") && (u.RawQuery == "" || u.RawQuery == d.upstream.RawQuery)
}

// hostPort returns host and port of a URL, in the form that can be compared.
func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[strings.ToLower(u.Scheme)]
	}
	return net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// sameIssuer compares issuers, but for one slash at the end: those who name an authorization server
// often have another one than its metadata.
func sameIssuer(a, b string) bool {
	return strings.TrimSuffix(a, "/") == strings.TrimSuffix(b, "/")
}

// server returns the metadata of an authorization server. absent says that it has none.
func (d *discovery) server(ctx context.Context, issuer string) (m serverMetadata, absent bool, err error) {
	if err := d.check(issuer); err != nil {
		return m, false, err
	}
	at, err := url.Parse(issuer)
	if err != nil {
		return m, false, err
	}
	absent = true
	for _, address := range metadataAddresses(at) {
		m = serverMetadata{}
		found, bad := d.fetch(ctx, address, &m)
		if bad == nil && !found {
			continue
		}
		if bad == nil {
			if bad = d.checkServer(m, issuer); bad == nil {
				return m, false, nil
			}
		}
		absent = false
		if err == nil {
			err = bad
		}
	}
	if err == nil {
		err = fmt.Errorf("the authorization server %.200q has no metadata at its well-known addresses", issuer)
	}
	return serverMetadata{}, absent, err
}

// metadataAddresses returns where an issuer's metadata may be: the well-known path is inserted
// before that of the issuer, without a slash at its end (RFC 8414 section 3.1). OpenID Connect
// appends its own.
func metadataAddresses(issuer *url.URL) []string {
	const wellKnown = "/.well-known/"
	origin, path := issuer.Scheme+"://"+issuer.Host, strings.TrimSuffix(issuer.EscapedPath(), "/")
	list := []string{origin + wellKnown + "oauth-authorization-server" + path, origin + wellKnown + "openid-configuration" + path}
	if path != "" {
		list = append(list, origin+path+wellKnown+"openid-configuration")
	}
	return list
}

// checkServer checks the metadata of an issuer.
func (d *discovery) checkServer(m serverMetadata, issuer string) error {
	switch {
	case !sameIssuer(m.Issuer, issuer):
		return fmt.Errorf("the metadata of the authorization server %.200q is of %.200q", issuer, m.Issuer)
	case m.AuthorizationEndpoint == "" || m.TokenEndpoint == "":
		return fmt.Errorf("the metadata of the authorization server %.200q lacks an endpoint", issuer)
	case !slices.Contains(m.ChallengeMethods, "S256"):
		return fmt.Errorf("the authorization server %.200q does not support PKCE with S256", issuer)
	}
	for _, endpoint := range []string{m.AuthorizationEndpoint, m.TokenEndpoint, m.RegistrationEndpoint} {
		if endpoint == "" {
			continue
		}
		if err := d.check(endpoint); err != nil {
			return err
		}
	}
	return nil
}

// fetch reads a JSON document. found is false where the server says that there is none.
func (d *discovery) fetch(ctx context.Context, address string, into any) (found bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return false, fmt.Errorf("the address %.200q is malformed", address)
	}
	req.Header.Set("Accept", jsonType)
	resp, err := d.client.Do(req)
	if err != nil {
		return false, plainError(err)
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode/100 == 4:
		return false, nil
	case resp.StatusCode != http.StatusOK:
		return false, fmt.Errorf("%.200q answered HTTP %d", address, resp.StatusCode)
	}
	text, err := readAll(resp.Body, maxDocument, nil)
	if err != nil {
		return false, fmt.Errorf("read %.200q: %w", address, plainError(err))
	}
	if json.Unmarshal(text, into) != nil {
		return false, fmt.Errorf("%.200q is not the expected JSON document", address)
	}
	return true, nil
}

// registration is what a client says of itself (RFC 7591), and what it gets.
type registration struct {
	ClientName      string   `json:"client_name,omitempty"`
	RedirectURIs    []string `json:"redirect_uris,omitempty"`
	AuthMethod      string   `json:"token_endpoint_auth_method,omitempty"`
	GrantTypes      []string `json:"grant_types,omitempty"`
	ResponseTypes   []string `json:"response_types,omitempty"`
	ApplicationType string   `json:"application_type,omitempty"`
	ClientID        string   `json:"client_id,omitempty"`
	ClientSecret    string   `json:"client_secret,omitempty"`
}

// register registers a client.
func (d *discovery) register(ctx context.Context, endpoint, redirect string) (got registration, err error) {
	text, err := json.Marshal(registration{
		ClientName: "attestd", RedirectURIs: []string{redirect}, AuthMethod: "none", ApplicationType: "native",
		GrantTypes: []string{"authorization_code", "refresh_token"}, ResponseTypes: []string{"code"},
	})
	if err != nil {
		return got, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, bytes.NewReader(text))
	if err != nil {
		return got, errors.New("the address for the registration of clients is malformed")
	}
	req.Header.Set("Content-Type", jsonType)
	req.Header.Set("Accept", jsonType)
	resp, err := d.client.Do(req)
	if err != nil {
		return got, plainError(err)
	}
	defer resp.Body.Close()
	answer, err := readAll(resp.Body, maxDocument, nil)
	if err != nil {
		return got, plainError(err)
	}
	if resp.StatusCode != http.StatusCreated && resp.StatusCode != http.StatusOK {
		var refused struct {
			Error string `json:"error"`
		}
		_ = json.Unmarshal(answer, &refused) // a page of a gateway has no code
		return got, fmt.Errorf("the authorization server refused to register a client: HTTP %d %.100q", resp.StatusCode, refused.Error)
	}
	got.AuthMethod = "" // of the answer
	if json.Unmarshal(answer, &got) != nil || got.ClientID == "" {
		return got, errors.New("the authorization server registered a client without an ID")
	}
	return got, nil
}

// challengeOf returns what a response says of the authorization that it asks for. A header that
// cannot be parsed says nothing.
func challengeOf(resp *http.Response) (metadata string, scopes []string, code string) {
	list, err := oauthex.ParseWWWAuthenticate(resp.Header["Www-Authenticate"])
	if err != nil {
		return "", nil, ""
	}
	for _, c := range list {
		if named := c.Params["resource_metadata"]; named != "" && metadata == "" {
			metadata = named
		}
		if c.Scheme == "bearer" && len(scopes) == 0 {
			scopes = strings.Fields(c.Params["scope"])
		}
		if c.Scheme == "bearer" && code == "" {
			code = c.Params["error"]
		}
	}
	return metadata, scopes, code
}

// drained closes a response, so that its connection can be used again.
func drained(resp *http.Response) {
	_, _ = io.CopyN(io.Discard, resp.Body, maxOpaque) // an error closes the connection
	resp.Body.Close()
}
