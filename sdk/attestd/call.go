package attestd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"attestd/internal/sleep"
)

// request is one operation of the API.
type request struct {
	method, route string   // as in the API reference: /v1/agents/{agentId}
	path          []string // values of the route's parameters, in order
	query         url.Values
	body          []byte // nil for none
	contentType   string // "" is JSON
	header        http.Header
	status        int           // the only success
	safe          bool          // idempotent; reads always are
	public        bool          // no credential is sent
	held          time.Duration // for which the service holds the answer; adds to the time limit
	// gives each attempt a new proof of possession of a key that is no credential; nil for none
	proves func(ctx context.Context, r *request) error

	nonce        string // that the service demands, if it has sent one
	nonceRetried bool   // an attempt was repeated with it
}

func (r *request) operation() string { return r.method + " " + r.route }

// target returns the request's URL below base. Each parameter is one segment, except a final
// {path}, which may have several.
func (r *request) target(base *url.URL) string {
	var b strings.Builder
	b.WriteString(base.String())
	rest, values := r.route, r.path
	for {
		before, after, found := strings.Cut(rest, "{")
		b.WriteString(before)
		if !found {
			break
		}
		name, tail, _ := strings.Cut(after, "}")
		value := url.PathEscape(values[0])
		if name == "path" {
			value = strings.ReplaceAll(value, "%2F", "/")
		}
		b.WriteString(value)
		rest, values = tail, values[1:]
	}
	if len(r.query) > 0 {
		b.WriteString("?" + r.query.Encode())
	}
	return b.String()
}

// maxAnswer is the largest size of a buffered response, in bytes. Responses to batches are longest.
const maxAnswer = 64 << 20

// ErrLongAnswer reports that a response is longer than 64 MiB, so that what it says is unknown.
var ErrLongAnswer = errors.New("the answer is longer than 64 MiB")

// do sends a request with its retries and decodes the response into dest: raw into a *[]byte, or
// else as JSON. A nil dest discards it.
func (c *Client) do(ctx context.Context, r request, dest any) error {
	return c.withRetries(ctx, &r, func(token string) error {
		ctx, cancel := context.WithTimeout(ctx, c.timeout+r.held)
		defer cancel()
		answer, err := c.send(ctx, &r, token)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
		switch raw, verbatim := dest.(*[]byte); {
		case err != nil:
			return lost(r.operation(), err)
		case len(text) > maxAnswer:
			return lost(r.operation(), ErrLongAnswer)
		case verbatim:
			*raw = text
		case dest != nil:
			if err := json.Unmarshal(text, dest); err != nil {
				return fmt.Errorf("%s: the answer is not what the service sends: %w", r.operation(), err)
			}
		}
		return nil
	})
}

// open sends a request with a long response, and retries until the response begins. After that only
// ctx limits it. The caller MUST close the body.
func (c *Client) open(ctx context.Context, r request) (body io.ReadCloser, err error) {
	err = c.withRetries(ctx, &r, func(token string) error {
		ctx, cancel := context.WithCancel(ctx)
		late := time.AfterFunc(c.timeout, cancel)
		answer, err := c.send(ctx, &r, token)
		if err == nil && !late.Stop() {
			answer.Body.Close()
			err = lost(r.operation(), context.DeadlineExceeded)
		}
		if err != nil {
			cancel()
			return err
		}
		body = opened{answer.Body, cancel}
		return nil
	})
	return body, err
}

// opened is a body whose end ends its request.
type opened struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (o opened) Close() error {
	defer o.cancel()
	return o.ReadCloser.Close()
}

// withRetries calls attempt until it succeeds or Retry ends. A refused credential may be refreshed
// once.
func (c *Client) withRetries(ctx context.Context, r *request, attempt func(token string) error) error {
	r.safe = r.safe || r.method == http.MethodGet
	token, err := "", error(nil)
	if !r.public && c.credential != nil {
		if token, err = c.credential.bearer(ctx, c, ""); err != nil {
			return &CredentialError{err}
		}
	}
	if i, is := c.identity(); is && strings.HasPrefix(r.route, "/v1/attest") {
		if err := i.wrongLog(); err != nil { // what was signed for one log is of no use to another
			return &CredentialError{err}
		}
	}
	renewed, unknown := false, false
	for n := 0; ; {
		if err = attempt(token); err == nil {
			return nil
		}
		var answer *Error
		if errors.As(err, &answer) {
			answer.Retried = unknown
		}
		unknown = unknown || answer == nil || answer.Foreign || answer.Status >= 500
		if ctx.Err() != nil {
			return err
		}
		if token != "" && !renewed && errors.Is(err, &Error{Status: http.StatusUnauthorized}) {
			renewed = true
			fresh, refused := c.credential.bearer(ctx, c, token)
			if refused == nil && fresh != token {
				token = fresh
				continue
			}
			if refused != nil {
				return errors.Join(err, &CredentialError{refused})
			}
			return err
		}
		wait, retry := c.retry.wait(n, err, r.safe)
		if !retry || rest(ctx, wait) != nil {
			return err
		}
		n++
	}
}

// send makes one attempt. A returned response has the status of success.
func (c *Client) send(ctx context.Context, r *request, token string) (*http.Response, error) {
	if r.proves != nil {
		if err := r.proves(ctx, r); err != nil {
			return nil, err
		}
	}
	asked, err := http.NewRequestWithContext(ctx, r.method, r.target(c.base), bytes.NewReader(r.body))
	if err != nil {
		return nil, lost(r.operation(), err)
	}
	for name, values := range r.header {
		asked.Header[name] = values
	}
	if r.body != nil {
		asked.Header.Set("Content-Type", "application/json")
	}
	if r.contentType != "" {
		asked.Header.Set("Content-Type", r.contentType)
	}
	if err := c.authorize(ctx, asked, token); err != nil {
		return nil, err
	}
	answer, err := c.http.Do(asked)
	if err != nil {
		return nil, lost(r.operation(), err)
	}
	if c.wantsNonce(r, answer) {
		answer.Body.Close()
		r.nonceRetried = true
		return c.send(ctx, r, token)
	}
	if strings.HasPrefix(r.route, "/v1/attest") {
		c.storeQuota(answer.Header)
	}
	if answer.StatusCode != r.status {
		defer answer.Body.Close()
		return nil, readError(r.operation(), answer)
	}
	return answer, nil
}

// wantsNonce remembers the nonce of an answer, and reports whether the request was refused for want
// of it alone, so that another attempt is worth it (RFC 9449 §8 and §9).
func (c *Client) wantsNonce(r *request, answer *http.Response) bool {
	wants := false
	if identity, is := c.identity(); is && identity.rememberNonce(answer.Header) {
		wants = answer.StatusCode == http.StatusUnauthorized && strings.Contains(answer.Header.Get("WWW-Authenticate"), "use_dpop_nonce")
	}
	if nonce := answer.Header.Get("DPoP-Nonce"); r.proves != nil && nonce != "" && nonce != r.nonce {
		r.nonce = nonce
		wants = wants || answer.StatusCode == http.StatusBadRequest
	}
	return wants && !r.nonceRetried
}

// identity is the credential, if it is an agent with its key.
func (c *Client) identity() (*Identity, bool) {
	switch credential := c.credential.(type) {
	case *Identity:
		return credential, true
	case fixed:
		return credential.Identity, true
	}
	return nil, false
}

// authorize adds the credential to a request.
func (c *Client) authorize(ctx context.Context, r *http.Request, token string) error {
	if token == "" {
		return nil
	}
	if own, ok := c.credential.(interface {
		authorize(context.Context, *http.Request, string) error
	}); ok {
		return own.authorize(ctx, r, token)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	return nil
}

// get sends a GET request and decodes the response with status 200.
func (c *Client) get(ctx context.Context, route string, query url.Values, dest any, path ...string) error {
	return c.do(ctx, request{method: http.MethodGet, route: route, path: path, query: query, status: http.StatusOK}, dest)
}

// post sends a body as JSON, or none for nil, and decodes the response.
func (c *Client) post(ctx context.Context, route string, status int, body, dest any, path ...string) error {
	r := request{method: http.MethodPost, route: route, path: path, status: status}
	if body != nil {
		var err error
		if r.body, err = json.Marshal(body); err != nil {
			return err
		}
	}
	return c.do(ctx, r, dest)
}

// put sends a body as JSON and decodes the response. What is put is the same however often.
func (c *Client) put(ctx context.Context, route string, body, dest any, path ...string) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return c.do(ctx, request{method: http.MethodPut, route: route, path: path, body: text, status: http.StatusOK, safe: true}, dest)
}

func (c *Client) delete(ctx context.Context, route string, path ...string) error {
	return c.do(ctx, request{method: http.MethodDelete, route: route, path: path, status: http.StatusOK}, nil)
}

// Retry sets the number of retries of a request, and their delays.
type Retry struct {
	Times int // beyond the first attempt; 0 sends once
	// The wait before a retry is random between Min and twice Min, four times Min and so on, at
	// most Max. Where the service answers Retry-After, it is at least that.
	Min, Max time.Duration
}

// DefaultRetry allows two retries, after 0.5 to 8 seconds.
func DefaultRetry() Retry { return Retry{Times: 2, Min: 500 * time.Millisecond, Max: 8 * time.Second} }

// patience is the longest Retry-After that a call waits for: the window of the service's rate
// limits. With a longer one, the call returns the error at once.
const patience = 60 * time.Second

// wait returns how long to wait before retry number n, from 0 on, after err; false when it is not
// worth to.
func (r Retry) wait(n int, err error, safe bool) (time.Duration, bool) {
	if n >= r.Times || !retryable(err, safe) {
		return 0, false
	}
	longest := min(r.Max, r.Min<<min(n+1, 30))
	wait := r.Min
	if longest > r.Min {
		wait += rand.N(longest - r.Min)
	}
	var answer *Error
	if errors.As(err, &answer) && answer.RetryAfter > 0 {
		wait = max(wait, answer.RetryAfter)
	}
	return wait, wait <= max(patience, r.Max)
}

// retryable reports whether a request may be sent again after err. safe means that the request is
// idempotent.
func retryable(err error, safe bool) bool {
	var answer *Error
	if !errors.As(err, &answer) {
		var unsent *net.OpError
		return safe || errors.As(err, &unsent) && unsent.Op == "dial"
	}
	switch answer.Status {
	case http.StatusTooManyRequests:
		return true
	case http.StatusRequestTimeout:
		return safe
	case http.StatusConflict:
		return safe && answer.Code == "" // a code names an obstacle, which stays
	case http.StatusServiceUnavailable:
		return safe || answer.Code == "NOT_DONE"
	}
	return safe && answer.Status >= 500
}

// retryAfter reads the header of that name: seconds, or a date (RFC 9110 §10.2.3). 0 where there is
// none.
func retryAfter(text string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}

// rest waits, or returns an error at once where ctx ends before that.
func rest(ctx context.Context, d time.Duration) error {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < d {
		return context.DeadlineExceeded
	}
	return sleep.For(ctx, d)
}
