package attestd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// request is one operation of the API.
type request struct {
	method, route string   // as in the API reference: /v1/agents/{agentId}
	path          []string // what stands in place of the route's parameters, in their order
	query         url.Values
	body          []byte // nil for none
	contentType   string // "" is JSON
	header        http.Header
	status        int  // the only success
	safe          bool // to carry it out twice is no more than once; reads are always
	public        bool // no credential is sent
}

func (r *request) operation() string { return r.method + " " + r.route }

// target returns the request's URL below base. Each parameter is one segment but the last of a
// route that ends with {path}, which may be several.
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

// maxAnswer bounds the answers that are read whole, in bytes. The longest are those to batches.
const maxAnswer = 64 << 20

// do carries out a request with its retries and reads the answer into dest: a *[]byte as it is,
// anything else as JSON, nil not at all.
func (c *Client) do(ctx context.Context, r request, dest any) error {
	return c.again(ctx, &r, func(token string) error {
		ctx, cancel := context.WithTimeout(ctx, c.timeout)
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
			return fmt.Errorf("%s: the answer is longer than %d bytes", r.operation(), maxAnswer)
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

// open carries out a request whose answer is long, with retries until it begins; from then on only
// ctx bounds it. The caller closes the body.
func (c *Client) open(ctx context.Context, r request) (body io.ReadCloser, err error) {
	err = c.again(ctx, &r, func(token string) error {
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

// again calls attempt until it succeeds or Retry says that it is enough. A credential that is
// refused may offer another once.
func (c *Client) again(ctx context.Context, r *request, attempt func(token string) error) error {
	r.safe = r.safe || r.method == http.MethodGet
	token, err := "", error(nil)
	if !r.public && c.credential != nil {
		if token, err = c.credential.bearer(ctx, c, ""); err != nil {
			return err
		}
	}
	renewed := false
	for n := 0; ; {
		if err = attempt(token); err == nil || ctx.Err() != nil {
			return err
		}
		if token != "" && !renewed && errors.Is(err, &Error{Status: http.StatusUnauthorized}) {
			renewed = true
			fresh, refused := c.credential.bearer(ctx, c, token)
			if refused == nil && fresh != token {
				token = fresh
				continue
			}
			return errors.Join(err, refused)
		}
		wait, again := c.retry.wait(n, err, r.safe)
		if !again || sleep(ctx, wait) != nil {
			return err
		}
		n++
	}
}

// send makes one attempt. The answer has the status of a success.
func (c *Client) send(ctx context.Context, r *request, token string) (*http.Response, error) {
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
	if token != "" {
		asked.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := c.http.Do(asked)
	if err != nil {
		return nil, lost(r.operation(), err)
	}
	if strings.HasPrefix(r.route, "/v1/attest") {
		c.noteQuota(answer.Header)
	}
	if answer.StatusCode != r.status {
		defer answer.Body.Close()
		return nil, readError(r.operation(), answer)
	}
	return answer, nil
}

// get reads an operation that answers 200.
func (c *Client) get(ctx context.Context, route string, query url.Values, dest any, path ...string) error {
	return c.do(ctx, request{method: http.MethodGet, route: route, path: path, query: query, status: http.StatusOK}, dest)
}

// post sends a body as JSON, none for nil, and reads the answer.
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

func (c *Client) delete(ctx context.Context, route string, path ...string) error {
	return c.do(ctx, request{method: http.MethodDelete, route: route, path: path, status: http.StatusOK}, nil)
}
