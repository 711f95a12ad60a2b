package keysets

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"attestd/crypto/idtoken"
	"attestd/internal/outbound"
)

// Options are the options of a Client.
type Options = outbound.Options

// Client is the Getter of a server. It connects only to public addresses, by https and without a
// proxy, follows no redirect, and reads no more than a key set may have.
type Client struct {
	http  *http.Client
	guard outbound.Guard
	agent string
}

// NewClient returns a client.
func NewClient(o Options) *Client {
	guard := outbound.NewGuard(o.AllowPrivate)
	client, transport := outbound.NewClient(o, &net.Dialer{Resolver: o.Resolver, Control: guard.Allow})
	transport.DisableKeepAlives = true // so that each fetch has its address judged
	return &Client{client, guard, o.UserAgent}
}

// CheckURL returns what is wrong with a URL, as far as that is known without a name lookup.
func (c *Client) CheckURL(text string) error { return c.guard.CheckURL(text) }

// Get implements Getter.
func (c *Client) Get(ctx context.Context, url string) (Document, error) {
	if err := c.guard.CheckURL(url); err != nil {
		return Document{}, fmt.Errorf("its URL %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return Document{}, errors.New("its URL cannot be used")
	}
	request.Header = http.Header{"Accept": {"application/jwk-set+json, application/json"}, "User-Agent": {c.agent}}
	answer, err := c.http.Do(request)
	if err != nil {
		return Document{}, failure(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return Document{}, fmt.Errorf("the answer has the status %d, not 200", answer.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, idtoken.MaxKeySet+1))
	if err == nil {
		err = ctx.Err() // when it ends, a server may end its answer, as if it were complete
	}
	switch {
	case err != nil:
		return Document{}, failure(err)
	case len(body) > idtoken.MaxKeySet:
		return Document{}, fmt.Errorf("it is longer than %d bytes", idtoken.MaxKeySet)
	}
	return Document{body, fresh(answer.Header)}, nil
}

// fresh is how long an answer is (RFC 9111 §4.2.1), negative where it does not say.
func fresh(h http.Header) time.Duration {
	lifetime := -time.Second
	for _, line := range h.Values("Cache-Control") {
		for directive := range strings.SplitSeq(line, ",") {
			name, value, _ := strings.Cut(strings.TrimSpace(directive), "=")
			switch strings.ToLower(name) {
			case "no-store", "no-cache":
				return 0
			case "max-age":
				if n, err := strconv.ParseUint(strings.Trim(value, `"`), 10, 31); err == nil && lifetime < 0 {
					lifetime = time.Duration(n) * time.Second
				}
			}
		}
	}
	if age, err := strconv.ParseUint(h.Get("Age"), 10, 31); err == nil && lifetime > 0 {
		lifetime = max(0, lifetime-time.Duration(age)*time.Second)
	}
	return lifetime
}

// failure describes why there was no answer. It does not quote errors of net/http, which contain
// addresses.
func failure(err error) error {
	var name *net.DNSError
	var certificate *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var timed net.Error
	switch {
	case outbound.IsProhibited(err):
		return errors.New("its address is not public")
	case errors.As(err, &name):
		return errors.New("its name has no address")
	case errors.As(err, &authority):
		return errors.New("the certificate is of no CA that this service trusts (--ca-file)")
	case errors.As(err, &certificate):
		return errors.New("the certificate is not accepted")
	case errors.As(err, &timed) && timed.Timeout():
		return errors.New("no whole answer in " + timeout.String())
	}
	return errors.New("no whole answer")
}
