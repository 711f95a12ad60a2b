// Package attestd is the Go client of attestd: a method for each operation of the API reference,
// and checks of what the service answers that need no service.
//
//	c, err := attestd.New(attestd.Config{URL: "http://127.0.0.1:8080", Credential: attestd.Key(key)})
//	record, err := c.Attest(ctx, attestd.Attestation{
//		AgentID: "bot", ActionType: "file.written", Payload: map[string]any{"path": "a.txt"},
//	})
//
// # What an append promises
//
// [Client.Attest] returns without an error only when the service has answered 201, that is when the
// record is on its disk. Every append carries an idempotency key, the same on all its retries, so a
// lost answer never makes a second record. After an error other than an [Error] with a status below
// 500, nobody knows whether the record is there: to send the same Attestation with the same key
// finds out, within 30 days. Package spool does so for programs that cannot wait.
//
// # Retries
//
// A read and an append are sent again after a lost connection, 408, 409, 429 and 5xx. Other
// requests would be carried out twice, so they are sent again only where they cannot have been
// carried out: no connection was made, 429, or 503 with the code NOT_DONE. [Retry] says how often.
//
// # Text
//
// The service refuses text that is not well-formed Unicode, for canonical JSON (RFC 8785) demands
// that. Text that a program has cut inside a character is common, and no reason to lose a record:
// the client replaces bytes that are not UTF-8 and surrogates without their other half by U+FFFD
// before it sends an attestation. What the record then holds is the replaced text.
package attestd

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

// Config says where the service is and how it is asked.
type Config struct {
	URL        string     // http or https; a path in front of /v1 is allowed
	Credential Credential // Key or OAuth; nil for what needs none
	// nil: one that keeps connections. Redirects are never followed: a redirected POST becomes a
	// GET
	HTTP *http.Client
	// of one attempt, answer included; 0 is 30 s. Streams and long reads have only their context
	Timeout time.Duration
	Retry   *Retry // nil: DefaultRetry
}

// defaultTimeout is what the service itself gives a slow body or answer.
const defaultTimeout = 30 * time.Second

// Client calls one service with one credential. Many goroutines may use it at once.
type Client struct {
	base       *url.URL
	credential Credential
	http       *http.Client
	timeout    time.Duration
	retry      Retry
	quota      *atomic.Pointer[Quota] // of attestations; copies of a client share it
}

// New returns a client. It asks the service nothing.
func New(c Config) (*Client, error) {
	base, err := url.Parse(strings.TrimRight(c.URL, "/"))
	if err != nil {
		return nil, errors.New("the URL cannot be read") // its text may hold a password
	}
	if base.Scheme != "http" && base.Scheme != "https" || base.Host == "" || base.User != nil || base.RawQuery != "" || base.Fragment != "" {
		return nil, fmt.Errorf("the URL must look like https://attest.example.com, without a password or a query; got %s://%s", base.Scheme, base.Host)
	}
	made := &Client{base: base, credential: c.Credential, timeout: c.Timeout, retry: DefaultRetry(), quota: new(atomic.Pointer[Quota])}
	if c.Timeout == 0 {
		made.timeout = defaultTimeout
	}
	if c.Retry != nil {
		made.retry = *c.Retry
	}
	asker := http.Client{}
	if c.HTTP != nil {
		asker = *c.HTTP
	} else {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.MaxIdleConnsPerHost = 64
		asker.Transport = transport
	}
	asker.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	made.http = &asker
	return made, nil
}

// URL is where the service is, without a slash at its end.
func (c *Client) URL() string { return c.base.String() }

// Close closes the connections that no request uses.
func (c *Client) Close() { c.http.CloseIdleConnections() }
