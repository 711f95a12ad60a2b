package local

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"os"

	"github.com/go-json-experiment/json"

	"attestd/internal/sleep"
	"attestd/store"
	"attestd/store/db"
)

// Client runs operations in the server that has a database file open.
type Client struct{ http *http.Client }

// ErrNone means that no server answers at the socket of a database.
var ErrNone = errors.New("no server has the database open")

const (
	maxAnswer = 1 << 20
	maxLine   = 64 << 10

	// a server that is busy is asked again, until its idle connections must have ended
	busyPatience = 2 * idleTimeout
	busyPause    = idleTimeout / 25
)

// Dial connects to the server that has a database file open: ErrNone. It refuses a socket that
// another user serves, unless that user owns the database.
func Dial(ctx context.Context, database string) (*Client, error) {
	if db.IsPostgres(database) {
		return nil, ErrNone
	}
	path, err := place(database)
	if err != nil {
		return nil, ErrNone
	}
	first, err := dial(ctx, path)
	switch {
	case errors.Is(err, errPath), notServing(err):
		return nil, ErrNone
	case err != nil:
		return nil, fmt.Errorf("%w: the socket %s: %w", store.ErrRefused, path, err)
	}
	_ = first.Close()
	connect := func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, path) }
	return &Client{&http.Client{Transport: &http.Transport{DialContext: connect, DisableKeepAlives: true, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}, nil
}

func dial(ctx context.Context, path string) (c net.Conn, err error) {
	err = reachable(path, func(path string) error {
		c, err = new(net.Dialer).DialContext(ctx, "unix", path)
		return err
	})
	if err != nil {
		return nil, err
	}
	if uid, known := peer(c); known && uid != 0 && uid != os.Geteuid() && !owns(uid, path[:len(path)-len(suffix)]) {
		_ = c.Close()
		return nil, fmt.Errorf("%w: a process of user %d serves it, who does not own the database", store.ErrRefused, uid)
	}
	return c, nil
}

// List yields all companies in the order of registration.
func (c *Client) List(ctx context.Context) iter.Seq2[Company, error] {
	return func(yield func(Company, error) bool) {
		body, err := c.send(ctx, "/company/list", struct{}{})
		if err != nil {
			yield(Company{}, err)
			return
		}
		defer body.Close()
		lines := bufio.NewScanner(body)
		lines.Buffer(nil, maxLine)
		for lines.Scan() {
			var company Company
			if err := json.Unmarshal(lines.Bytes(), &company); !yield(company, err) || err != nil {
				return
			}
		}
		if err := lines.Err(); err != nil {
			yield(Company{}, err)
		}
	}
}

// The operations are those of Operations.

func (c *Client) Show(ctx context.Context, id string) (found Company, err error) {
	return found, c.call(ctx, "/company/show", map[string]string{"companyId": id}, &found)
}

func (c *Client) Suspend(ctx context.Context, d Decision) (found Company, err error) {
	return found, c.call(ctx, "/company/suspend", d, &found)
}

func (c *Client) Resume(ctx context.Context, d Decision) (found Company, err error) {
	return found, c.call(ctx, "/company/resume", d, &found)
}

func (c *Client) SetQuota(ctx context.Context, q Quota) (found Company, err error) {
	return found, c.call(ctx, "/company/quota", q, &found)
}

func (c *Client) RotateKey(ctx context.Context, r Rotation) (found Rotated, err error) {
	return found, c.call(ctx, "/rotate-key", r, &found)
}

// State asks the server how it is.
func (c *Client) State(ctx context.Context) (found State, err error) {
	return found, c.call(ctx, "/state", struct{}{}, &found)
}

func (c *Client) call(ctx context.Context, path string, request, into any) error {
	return c.callFor(ctx, path, request, into, maxAnswer)
}

// callFor is call of an operation whose answer has at most so many bytes.
func (c *Client) callFor(ctx context.Context, path string, request, into any, most int64) error {
	body, err := c.send(ctx, path, request)
	if err != nil {
		return err
	}
	defer body.Close()
	return json.UnmarshalRead(io.LimitReader(body, most), into)
}

// send sends a request, and once more while the server is busy.
func (c *Client) send(ctx context.Context, path string, request any) (io.ReadCloser, error) {
	text, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	patience, cancel := context.WithTimeout(ctx, busyPatience)
	defer cancel()
	for {
		answer, err := c.post(ctx, path, bytes.NewReader(text))
		if !errors.Is(err, ErrBusy) || sleep.For(patience, busyPause) != nil {
			return answer, err
		}
	}
}

// post sends a body to an operation, and returns that of the answer.
func (c *Client) post(ctx context.Context, path string, content io.Reader) (io.ReadCloser, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://local"+path, content)
	if err != nil {
		return nil, err
	}
	answer, err := c.http.Do(r)
	if unreached := (*net.OpError)(nil); errors.As(err, &unreached) && unreached.Op == "dial" {
		return nil, fmt.Errorf("%w: the server has ended, and nothing was carried out: %w", store.ErrUnavailable, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: the answer of the server was lost: %w", store.ErrUnknown, err)
	}
	if answer.StatusCode == http.StatusOK {
		return answer.Body, nil
	}
	defer answer.Body.Close()
	var f failure
	if err := json.UnmarshalRead(io.LimitReader(answer.Body, maxAnswer), &f); err != nil || f.Error == "" {
		return nil, fmt.Errorf("the server answers %s", answer.Status)
	}
	return nil, &Error{f.Error, kinds[f.Kind]}
}
