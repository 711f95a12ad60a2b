// Package attestd is the Go client of attestd. It has a method for each operation of the API
// reference, and verifies responses offline.
//
//	config := attestd.Config{URL: "http://127.0.0.1:8080", Credential: attestd.Key(key)}
//	c, err := attestd.New(config)
//	record, err := c.Attest(ctx, attestd.Attestation{
//		AgentID: "bot", ActionType: "file.written", Payload: map[string]any{"path": "a.txt"},
//	})
//
// # Guarantees of an append
//
// [Client.Attest] returns without an error only after the service has answered 201, when the record
// is on its disk. All retries of an append have the same idempotency key, so a lost response never
// makes a second record. After an [Error] with a status below 500 there is no record. After any
// other error the outcome is unknown: send the same Attestation with the same key within 30 days to
// find out. Package spool does that for programs that cannot wait.
//
// # Retries
//
// The client repeats reads and appends after a lost connection, 408, 409, 429 and 5xx. Other
// requests are not idempotent. The client repeats them only if they had no effect: without a
// connection, after 429, or after 503 with the code NOT_DONE. [Retry] sets the number of retries.
//
// # Text
//
// The service refuses text that is not well-formed Unicode, as canonical JSON (RFC 8785) requires.
// Programs often cut text inside a character. So that no record is lost, the client replaces
// invalid UTF-8 and lone surrogates with U+FFFD before it sends an attestation. The record contains
// the replaced text.
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

// Config configures a Client.
type Config struct {
	URL        string     // http or https; a path in front of /v1 is allowed
	Credential Credential // Key or OAuth; nil for operations without a credential
	// HTTP may be nil for a client that reuses connections. Redirects are never followed, because a
	// redirected POST becomes a GET.
	HTTP *http.Client
	// Timeout limits one attempt, including the response; 0 is 30 s. It does not apply to streams
	// and long reads.
	Timeout time.Duration
	Retry   *Retry // nil: DefaultRetry
}

// defaultTimeout equals the service's own limit for slow requests and responses.
const defaultTimeout = 30 * time.Second

// Client calls one service with one credential. It is safe for concurrent use.
type Client struct {
	base       *url.URL
	credential Credential
	http       *http.Client
	timeout    time.Duration
	retry      Retry
	quota      *atomic.Pointer[Quota] // of attestations; copies of a client share it
	tokens     *issuedTokens          // for others; the same
}

// New returns a client. It sends no request.
func New(c Config) (*Client, error) {
	base, err := url.Parse(strings.TrimRight(c.URL, "/"))
	if err != nil {
		return nil, errors.New("invalid URL") // without its text, which may contain a password
	}
	if base.Scheme != "http" && base.Scheme != "https" || base.Host == "" || base.User != nil || base.RawQuery != "" || base.Fragment != "" {
		return nil, fmt.Errorf("the URL must look like https://attest.example.com, without a password or a query; got %s://%s", base.Scheme, base.Host)
	}
	made := &Client{base: base, credential: c.Credential, timeout: c.Timeout, retry: DefaultRetry(), quota: new(atomic.Pointer[Quota]), tokens: new(issuedTokens)}
	if c.Timeout == 0 {
		made.timeout = defaultTimeout
	}
	if c.Retry != nil {
		made.retry = *c.Retry
	}
	httpClient := http.Client{}
	if c.HTTP != nil {
		httpClient = *c.HTTP
	} else {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.MaxIdleConnsPerHost = 64
		httpClient.Transport = transport
	}
	httpClient.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	made.http = &httpClient
	return made, nil
}

// URL returns the address of the service without a trailing slash.
func (c *Client) URL() string { return c.base.String() }

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }
