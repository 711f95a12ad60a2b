package mcpproxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"attestd/agent/localhttp"
)

// Remote is an MCP server that is reached over streamable HTTP.
type Remote struct {
	URL *url.URL
	// PassAuthorization forwards the client's Authorization header, and WWW-Authenticate to it.
	PassAuthorization bool
	signIn            *SignIn // nil: it does not sign in

	header http.Header // with credentials; they replace the client's
	http   *http.Client
}

// NewRemote returns the server at an address. Only a server on this machine may be named with http,
// unless allowHTTP.
func NewRemote(address string, allowHTTP bool) (*Remote, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.Hostname() == "" || u.Opaque != "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("must be an absolute URL, such as https://mcp.example.com/mcp")
	case u.User != nil:
		return nil, errors.New("must not hold a password, because the list of processes shows it")
	case u.Fragment != "":
		return nil, errors.New("must not have a fragment")
	case u.Scheme == "http" && !allowHTTP && !localhttp.IsLoopback(u.Hostname()):
		return nil, errors.New("must be https, because others could read and change the calls; --allow-http allows http")
	}
	if u.Path == "" {
		u.Path = "/"
	}
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, TLSHandshakeTimeout: dialTimeout,
		ForceAttemptHTTP2: true, DisableCompression: true, MaxResponseHeaderBytes: maxHeaderBytes,
		MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Minute,
		HTTP2: &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
	}
	return &Remote{URL: u, header: make(http.Header), http: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Trust makes the remote server's certificate lead to one of these CAs, and not to those of the
// system. nil is for those of the system. It is called before the first request.
func (r *Remote) Trust(roots *x509.CertPool) {
	r.http.Transport.(*http.Transport).TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
}

// AddHeader has each request carry a header with a credential, which is not sent unencrypted to
// another machine.
func (r *Remote) AddHeader(name, value string) error {
	isControl := func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }
	canonical := http.CanonicalHeaderKey(name)
	read := http.CanonicalHeaderKey(readName(name))
	switch {
	case name == "" || strings.ContainsFunc(name, func(c rune) bool { return !isTokenRune(c) }):
		return fmt.Errorf("%.100q is not the name of a header", name)
	case canonical != "Authorization" && refusedHeaders[read] || strings.HasPrefix(read, "Mcp-"):
		return fmt.Errorf("the header %s belongs to the protocol", canonical)
	case strings.ContainsFunc(value, isControl):
		return fmt.Errorf("the value of the header %s has a control character", canonical)
	case r.isExposed():
		return errors.New("a credential is not sent over http to another machine")
	}
	r.header[canonical] = []string{value}
	return nil
}

// isTokenRune reports whether a character may appear in a header's name (RFC 9110 section 5.6.2).
func isTokenRune(c rune) bool {
	return c < 0x80 && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("!#$%&'*+-.^_`|~", c))
}

// SetSignIn has the user sign in when the server asks for it.
func (r *Remote) SetSignIn(s *SignIn) error {
	if r.isExposed() {
		return errors.New("a credential is not sent over http to another machine")
	}
	s.upstream = r.URL
	r.signIn = s
	return nil
}

// isExposed reports whether others on the network can read requests.
func (r *Remote) isExposed() bool {
	return r.URL.Scheme == "http" && !localhttp.IsLoopback(r.URL.Hostname())
}

const (
	dialTimeout    = 10 * time.Second
	maxHeaderBytes = 64 << 10
)

// refusedHeaders are a client's headers that are not forwarded: those of one connection, those that
// say how a body is to be read, which the proxy has checked, and those that belong to this machine.
var refusedHeaders = map[string]bool{
	"Accept-Encoding": true, "Authorization": true, "Connection": true, "Content-Encoding": true, "Content-Length": true,
	"Content-Type": true, "Cookie": true, "Expect": true, "Forwarded": true, "Host": true, "Keep-Alive": true, "Origin": true,
	"Referer": true, "Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true, "Via": true, "X-Real-Ip": true,
}

// refusedPrefixes are the beginnings of further names of such headers.
var refusedPrefixes = []string{"Access-Control-", "Proxy-", "Sec-", "X-Forwarded-", "X-Http-Method", "X-Method-"}

// forwardedHeader returns the headers of a client's request to forward.
func (r *Remote) forwardedHeader(from http.Header) http.Header {
	to := make(http.Header, len(from))
	named := strings.Split(strings.Join(from["Connection"], ","), ",") // belong to the connection
	for name, values := range from {
		if name != readName(name) { // it could replace one that was checked
			continue
		}
		if refusedHeaders[name] && (name != "Authorization" || !r.PassAuthorization) || hasAnyPrefix(name, refusedPrefixes) {
			continue
		}
		to[name] = values
	}
	for _, name := range named {
		if name = strings.TrimSpace(name); !strings.HasPrefix(http.CanonicalHeaderKey(name), "Mcp-") {
			to.Del(name)
		}
	}
	return to
}

// readName returns the name as which a server behind CGI or WSGI reads a header's: both make each
// character that is no letter and no digit an underscore.
func readName(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, name)
}

func hasAnyPrefix(s string, prefixes []string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(s, p) {
			return true
		}
	}
	return false
}

// returnedHeaders are the headers of a response that are forwarded, besides Mcp-….
var returnedHeaders = []string{"Allow", "Cache-Control", "Retry-After", "X-Accel-Buffering"}

// returnHeader copies the headers of a response to forward.
func (r *Remote) returnHeader(to, from http.Header) {
	names := returnedHeaders
	if r.PassAuthorization {
		names = append(names[:len(names):len(names)], "Www-Authenticate")
	}
	for _, name := range names {
		if values := from[name]; values != nil {
			to[name] = values
		}
	}
	for name, values := range from {
		if strings.HasPrefix(name, "Mcp-") {
			to[name] = values
		}
	}
}

// send sends a request with these headers and those of r. When the server asks for authorization,
// the user signs in, if r can do that, and the request is sent again. The server is asked not to
// compress its response.
func (r *Remote) send(ctx context.Context, method string, header http.Header, body []byte) (*http.Response, error) {
	resp, err := r.once(ctx, method, header, body)
	if err != nil || r.signIn == nil || !asksForSignIn(resp) {
		return resp, err
	}
	if err := r.signIn.authorize(ctx, resp); err != nil {
		return nil, fmt.Errorf("sign in: %w", err)
	}
	return r.once(ctx, method, header, body)
}

// asksForSignIn reports whether a request may succeed after the user has signed in.
func asksForSignIn(resp *http.Response) bool {
	return resp.StatusCode == http.StatusUnauthorized ||
		resp.StatusCode == http.StatusForbidden && strings.Contains(strings.Join(resp.Header["Www-Authenticate"], ","), "insufficient_scope")
}

func (r *Remote) once(ctx context.Context, method string, header http.Header, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, r.URL.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	// net/http would send a request again whose connection broke, where the client names it by an
	// Idempotency-Key: a call would run twice and be recorded once. It cannot without GetBody.
	if req.GetBody = nil; body == nil {
		req.Body = nil
	}
	req.Header = header.Clone()
	if body != nil {
		req.Header.Set("Content-Type", jsonType)
	}
	if r.signIn != nil {
		token, err := r.signIn.token()
		if err != nil {
			return nil, err
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
	}
	for name, values := range r.header {
		req.Header[name] = values
	}
	req.Header.Set("Accept-Encoding", "identity")
	resp, err := r.http.Do(req)
	if err != nil {
		return nil, plainError(err)
	}
	err = checkResponse(resp)
	if err != nil {
		_ = resp.Body.Close()
		return nil, err
	}
	return resp, nil
}

// checkResponse refuses a response that is for another client or that cannot be read.
func checkResponse(resp *http.Response) error {
	if c := resp.StatusCode; c >= 300 && c < 400 {
		if to, err := resp.Location(); err == nil {
			return fmt.Errorf("the server redirects to %s://%s%s, which the proxy does not follow: name it with --upstream",
				to.Scheme, to.Host, to.EscapedPath())
		}
		return fmt.Errorf("the server redirects (HTTP %d), which the proxy does not follow", c)
	}
	for _, coding := range resp.Header.Values("Content-Encoding") {
		if !strings.EqualFold(strings.TrimSpace(coding), "identity") {
			return fmt.Errorf("the server compressed its response although it was asked not to (%.40q)", coding)
		}
	}
	return nil
}

// plainError returns an error without the server's address, whose query may hold a secret.
func plainError(err error) error {
	var of *url.Error
	if errors.As(err, &of) {
		err = of.Err
	}
	return err
}

const (
	jsonType = "application/json"
	sseType  = "text/event-stream"
)

// mediaType returns a media type without parameters, in lower case; "" unless there is exactly one.
func mediaType(h http.Header) string {
	if len(h["Content-Type"]) != 1 {
		return ""
	}
	t, _, _ := strings.Cut(h["Content-Type"][0], ";")
	return strings.ToLower(strings.TrimSpace(t))
}

// headerFlaw says how the headers Mcp-Method and Mcp-Name, by which servers may choose what to do,
// differ from the body, or returns "".
func headerFlaw(h http.Header, messages []message, batch bool) string {
	methods, names := h["Mcp-Method"], h["Mcp-Name"]
	switch {
	case len(methods) == 0 && len(names) == 0 || len(messages) == 0:
		return ""
	case batch || len(methods) > 1 || len(names) > 1:
		return "Mcp-Method and Mcp-Name are for one message"
	case len(methods) == 1 && methods[0] != messages[0].method:
		return "Mcp-Method differs from the body"
	case len(names) == 1 && messages[0].method == toolsCall && headerText(names[0]) != readToolCall(messages[0].params).name:
		return "Mcp-Name differs from the body"
	}
	return ""
}

// The form of a header value that is no visible ASCII (MCP 2026-07-28).
const base64Prefix, base64Suffix = "=?base64?", "?="

// headerText decodes a value of such a header.
func headerText(value string) string {
	inner, ok := strings.CutPrefix(value, base64Prefix)
	if inner, ok2 := strings.CutSuffix(inner, base64Suffix); ok && ok2 {
		if text, err := base64.StdEncoding.DecodeString(inner); err == nil {
			return string(text)
		}
	}
	return value
}

// mismatch is the response to a request whose headers differ from its body.
func mismatch(id []byte, flaw string) []byte {
	return withEnd(answer(id, `"error":{"code":-32020,"message":"Header mismatch: `+flaw+`"}`))
}

// headerValue encodes a text for such a header.
func headerValue(text string) string {
	if isPrintable(text) && !strings.HasPrefix(text, base64Prefix) {
		return text
	}
	return base64Prefix + base64.StdEncoding.EncodeToString([]byte(text)) + base64Suffix
}
