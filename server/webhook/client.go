package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"attestd/internal/outbound"
)

const (
	// for an attempt, from the name lookup to the end of the response
	timeout = 15 * time.Second
	// maximum part of a response that is read, so that its connection can be reused
	maxAnswer     = 16 << 10
	maxIdle       = 256
	maxIdleOfHost = 16
)

// Options are the options of a Client.
type Options = outbound.Options

// Client sends messages. It connects only to public addresses, by https and without a proxy, and
// follows no redirects, so that the owner of an endpoint cannot reach what only this machine can.
type Client struct {
	http  *http.Client
	guard outbound.Guard
	agent string
}

// NewClient returns a client. The caller MUST call Close.
func NewClient(o Options) *Client {
	g := outbound.NewGuard(o.AllowPrivate)
	return newClient(o, g, &net.Dialer{Resolver: o.Resolver, Control: g.Allow})
}

func newClient(o Options, g outbound.Guard, dialer *net.Dialer) *Client {
	client, transport := outbound.NewClient(o, dialer)
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost, transport.IdleConnTimeout = maxIdle, maxIdleOfHost, 90*time.Second
	return &Client{client, g, o.UserAgent}
}

// CheckURL returns what is wrong with the URL of an endpoint, as far as that is known without a
// name lookup.
func (c *Client) CheckURL(text string) error { return c.guard.CheckURL(text) }

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Outcome is the result of an attempt. If it was not delivered, Status or Failure says why.
type Outcome struct {
	Status     int           // of the response; 0 without one
	Failure    string        // short, without addresses; "" with a response
	RetryAfter time.Duration // requested by the response
	Page       bool          // the response is an HTML page, so it is not the endpoint's
}

// Delivered reports whether the endpoint has accepted the message.
func (o Outcome) Delivered() bool { return o.Status >= 200 && o.Status < 300 && !o.Page }

// Gone reports whether the endpoint wants no more messages.
func (o Outcome) Gone() bool { return o.Status == http.StatusGone }

// Send makes one attempt to send a message, signed with each of the keys. CheckURL MUST have
// accepted the URL.
func (c *Client) Send(ctx context.Context, url string, m Message, by ...Keys) Outcome {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(m.Body))
	if err != nil {
		return Outcome{Failure: "the URL cannot be used"}
	}
	now := time.Now()
	timestamp, signatures := m.sign(now, by)
	request.Header = http.Header{
		"Content-Type":      {"application/json"},
		"User-Agent":        {c.agent},
		"Webhook-Id":        {m.ID},
		"Webhook-Timestamp": {timestamp},
		"Webhook-Signature": {signatures},
	}
	answer, err := c.http.Do(request)
	if err != nil {
		return Outcome{Failure: failure(err)}
	}
	defer answer.Body.Close()
	// the status is known, and where the rest cannot be read that changes nothing
	text, _ := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	o := Outcome{Status: answer.StatusCode, RetryAfter: retryAfter(answer.Header, now), Page: outbound.IsPage(text)}
	if o.Page && o.Status >= 200 && o.Status < 300 {
		o.Failure = "an HTML page, not the endpoint's answer"
	}
	return o
}

// failure describes why there was no response. It does not quote errors of net/http, because they
// contain the URL, which may contain a secret of its owner, and addresses, which would reveal a
// private network to the owner of an endpoint.
func failure(err error) string {
	var name *net.DNSError
	var certificate *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var timed net.Error
	switch {
	case outbound.IsProhibited(err):
		return "the address is not public"
	case errors.As(err, &name):
		return "the name has no address"
	case errors.As(err, &authority):
		return "the certificate is of no CA that this service trusts (--ca-file)"
	case errors.As(err, &certificate):
		return "the certificate is not accepted"
	case errors.Is(err, context.Canceled):
		return "the attempt was broken off"
	case errors.As(err, &timed) && timed.Timeout():
		return "no answer in " + timeout.String()
	}
	return "no answer"
}
