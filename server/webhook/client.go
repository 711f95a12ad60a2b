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

	"code.dny.dev/ssrf"
)

const (
	// of an attempt, from the look-up of the name to the end of the answer
	timeout = 15 * time.Second
	// bytes of an answer that are read, so that its connection can be used again; they are thrown
	// away
	maxAnswer     = 16 << 10
	maxHeader     = 16 << 10
	maxIdle       = 256
	maxIdleOfHost = 16
)

// Options are what a Client needs to know.
type Options struct {
	AllowPrivate bool           // private networks, this machine, and http
	UserAgent    string         // of requests
	Resolver     *net.Resolver  // nil is that of the system
	Roots        *x509.CertPool // nil is those of the system
}

// Client sends messages. It goes to public addresses alone, by https, through no proxy, and follows
// no redirect: who may name an endpoint must not reach by it what only this machine reaches.
type Client struct {
	http  *http.Client
	guard guard
	agent string
}

// NewClient returns a client. Close it.
func NewClient(o Options) *Client {
	g := newGuard(o.AllowPrivate)
	return newClient(o, g, &net.Dialer{Resolver: o.Resolver, Control: g.allow})
}

func newClient(o Options, g guard, dialer *net.Dialer) *Client {
	return &Client{
		guard: g, agent: o.UserAgent,
		http: &http.Client{
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Transport: &http.Transport{
				DialContext:            dialer.DialContext,
				TLSClientConfig:        &tls.Config{RootCAs: o.Roots, MinVersion: tls.VersionTLS12},
				ForceAttemptHTTP2:      true,
				DisableCompression:     true,
				MaxIdleConns:           maxIdle,
				MaxIdleConnsPerHost:    maxIdleOfHost,
				IdleConnTimeout:        90 * time.Second,
				MaxResponseHeaderBytes: maxHeader,
			},
		},
	}
}

// Close ends the connections that wait for the next message.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Outcome is what came of an attempt. Where it was not delivered, Status or Failure says why.
type Outcome struct {
	Status     int           // of the answer; 0 where there was none
	Failure    string        // in a few words that name no address; "" where there was an answer
	RetryAfter time.Duration // what the answer asked for
}

// Delivered says whether the endpoint has taken the message.
func (o Outcome) Delivered() bool { return o.Status >= 200 && o.Status < 300 }

// Gone says whether the endpoint wants no more messages.
func (o Outcome) Gone() bool { return o.Status == http.StatusGone }

// Send makes one attempt at a message, signed with each of the keys. What it was given is good:
// CheckURL has nothing against the URL.
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
	// the status has been said; what comes after it changes nothing
	_, _ = io.CopyN(io.Discard, answer.Body, maxAnswer)
	return Outcome{Status: answer.StatusCode, RetryAfter: retryAfter(answer.Header, now)}
}

// failure says why there was no answer. The errors of net/http hold the URL, in which an owner may
// have put a secret, and addresses, which would tell the owner of an endpoint what stands in a
// network that he does not see.
func failure(err error) string {
	var name *net.DNSError
	var certificate *tls.CertificateVerificationError
	var timed net.Error
	switch {
	case errors.Is(err, ssrf.ErrProhibitedIP), errors.Is(err, ssrf.ErrProhibitedNetwork), errors.Is(err, ssrf.ErrInvalidHostPort):
		return "the address is not public"
	case errors.As(err, &name):
		return "the name has no address"
	case errors.As(err, &certificate):
		return "the certificate is not accepted"
	case errors.Is(err, context.Canceled):
		return "the attempt was broken off"
	case errors.As(err, &timed) && timed.Timeout():
		return "no answer in " + timeout.String()
	}
	return "no answer"
}
