package httpapi

import (
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	"attestd/service"
)

// OwnBase returns the address of this service, as the sender of a request may know it: assertions
// whose audience is this address count here, and the issuers of its own tokens are below it. That
// is --base-url. Without one it is the address of the request, where no other server can have it: a
// loopback name with the server's port, or the address that it listens on. Otherwise it is "",
// because the client chooses Host: an assertion that was made for another server would count here.
// Every use of the server's identity MUST come from here, and not from Host; see
// TestHostIsNoIdentity.
func (a *API) OwnBase(r *http.Request) string {
	if a.BaseURL != "" {
		return a.BaseURL
	}
	scheme := a.ownScheme(r)
	host := a.ownHost(scheme, r.Host)
	if host == "" {
		return ""
	}
	return scheme + "://" + host
}

// ownURL returns the URL of a request below OwnBase, without the query.
func (a *API) ownURL(r *http.Request) string {
	base := a.OwnBase(r)
	if base == "" {
		return ""
	}
	return base + r.URL.EscapedPath()
}

// ownScheme returns the scheme of the URL that the sender of a request has used: that of the
// connection, or what a trusted proxy says.
func (a *API) ownScheme(r *http.Request) string {
	if len(a.TrustedProxies) > 0 && trustedHop(parseHop(r.RemoteAddr), a.TrustedProxies) {
		return forwardedProto(r)
	}
	return connectionProto(r)
}

// ownHost returns a host, with its port unless that is the scheme's own, in one spelling: where it
// is a loopback name with our port, or the address that we listen on, and "" otherwise.
func (a *API) ownHost(scheme, host string) string {
	usual := map[string]string{"http": "80", "https": "443"}[scheme]
	name, port, err := net.SplitHostPort(host)
	if err != nil { // the port is omitted
		name, port = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"), usual
	}
	if !a.Listening.IsValid() || port != strconv.Itoa(int(a.Listening.Port())) {
		return ""
	}
	addr, err := netip.ParseAddr(name)
	addr = addr.Unmap()
	switch {
	case strings.EqualFold(name, "localhost"):
		name = "localhost"
	case err != nil || addr.Zone() != "" || !addr.IsLoopback() && addr != a.Listening.Addr() || addr.IsUnspecified():
		return ""
	default:
		name = addr.String()
	}
	switch {
	case port != usual:
		return net.JoinHostPort(name, port)
	case strings.Contains(name, ":"):
		return "[" + name + "]"
	}
	return name
}

// AddressOf returns the address of a listener; the zero AddrPort where it has none of IP.
func AddressOf(a net.Addr) netip.AddrPort {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	addr := tcp.AddrPort()
	return netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port())
}

// InvitationLink is the address of the console's page that takes an invitation. Without --base-url
// its host is localhost, since no passkey works for an address.
func (a *API) InvitationLink(secret string) string {
	base := a.BaseURL
	if base == "" {
		scheme := "http"
		if a.IsTLS {
			scheme = "https"
		}
		base = scheme + "://localhost"
		if usual := map[string]uint16{"http": 80, "https": 443}[scheme]; a.Listening.Port() != usual {
			base += ":" + strconv.Itoa(int(a.Listening.Port()))
		}
	}
	return service.InvitationPage(base, secret)
}

// RequestBase is the address in the discovery document of the specification. The client chooses it
// where --base-url is not set, so it identifies no server.
func (a *API) RequestBase(r *http.Request) string {
	if a.BaseURL != "" {
		return a.BaseURL
	}
	return forwardedProto(r) + "://" + r.Host
}

// Misdirected is the answer to a request for a document with the server's name in it, under a name
// that is not the server's (RFC 9110 §15.5.20).
func Misdirected() *Error {
	return &Error{Status: http.StatusMisdirectedRequest, Code: "NAME_UNKNOWN", Message: "Misdirected Request: " + service.ErrNoName.Error()}
}

// OwnIssuer is the issuer of a company as the sender of a request may know it; see OwnBase. The
// error is misdirected.
func (a *API) OwnIssuer(r *http.Request, companyID string) (string, error) {
	base := a.OwnBase(r)
	if base == "" {
		return "", Misdirected()
	}
	return service.IssuerOf(base, companyID), nil
}
