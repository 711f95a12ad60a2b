package attestd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/gorilla/websocket"
)

// Message is what the stream sends of a record that was just appended.
type Message struct {
	Record Record `json:"record"`
	// whether the whole chain verifies after the record
	Valid         bool   `json:"valid"`
	MerkleRoot    string `json:"merkleRoot,omitempty"`    // where it does
	FailedAtIndex int64  `json:"failedAtIndex,omitempty"` // where it does not
}

// Stream is a connection on which records come as they are appended. One goroutine reads it.
type Stream struct {
	conn *websocket.Conn
	stop func() bool
}

// silence is how long nothing may come before a connection counts as lost: the service pings every
// 30 seconds.
const silence = 75 * time.Second

// Stream connects to the stream. Its messages begin with the first record after the answer. ctx
// ends the connection.
func (c *Client) Stream(ctx context.Context) (*Stream, error) { return c.stream(ctx, nil) }

// StreamFrom is Stream, but that the company's records from an index on come first. It needs a
// credential. An *Error with the code CURSOR_BEYOND_LOG says that the chain is shorter than that:
// its database is older than it was, or the index is another chain's.
func (c *Client) StreamFrom(ctx context.Context, index int64) (*Stream, error) {
	return c.stream(ctx, url.Values{"from": {strconv.FormatInt(index, 10)}})
}

func (c *Client) stream(ctx context.Context, query url.Values) (s *Stream, err error) {
	r := request{method: http.MethodGet, route: "/v1/ws", query: query}
	err = c.withRetries(ctx, &r, func(token string) error {
		s, err = c.dial(ctx, &r, token)
		return err
	})
	return s, err
}

func (c *Client) dial(ctx context.Context, r *request, token string) (*Stream, error) {
	dialer := websocket.Dialer{HandshakeTimeout: c.timeout, Proxy: http.ProxyFromEnvironment}
	if t, ok := c.http.Transport.(*http.Transport); ok {
		dialer.NetDialContext, dialer.NetDialTLSContext, dialer.TLSClientConfig, dialer.Proxy = t.DialContext, t.DialTLSContext, t.TLSClientConfig, t.Proxy
	}
	// as every other request, whose address a proof names with http
	asked, err := http.NewRequestWithContext(ctx, r.method, r.target(c.base), nil)
	if err == nil {
		err = c.authorize(ctx, asked, token)
	}
	if err != nil {
		return nil, err
	}
	target := *c.base
	target.Scheme = map[string]string{"http": "ws", "https": "wss"}[target.Scheme]
	conn, answer, err := dialer.DialContext(ctx, r.target(&target), asked.Header)
	if err != nil {
		if answer != nil && errors.Is(err, websocket.ErrBadHandshake) {
			return nil, readError(r.operation(), answer)
		}
		return nil, lost(r.operation(), err)
	}
	conn.SetReadLimit(maxAnswer)
	alive := func() error { return conn.SetReadDeadline(time.Now().Add(silence)) }
	answerPing := conn.PingHandler()
	conn.SetPingHandler(func(data string) error { return errors.Join(alive(), answerPing(data)) })
	return &Stream{conn, context.AfterFunc(ctx, func() { conn.Close() })}, alive()
}

// StreamEnd is how the service ended a stream: 1001 it stops, 1008 the credential has ended, 1013
// try again: the client fell behind, the database cannot be read now, or the log has fewer records
// than it had.
type StreamEnd struct{ Code int }

func (e *StreamEnd) Error() string { return fmt.Sprintf("the stream ended with %d", e.Code) }

// Next returns the next message. Its error is a *StreamEnd where the service has ended the stream.
func (s *Stream) Next() (m Message, err error) {
	_, text, err := s.conn.ReadMessage()
	var end *websocket.CloseError
	if errors.As(err, &end) {
		return m, &StreamEnd{end.Code}
	}
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err != nil {
		err = fmt.Errorf("the stream: %w", err)
	}
	return m, err
}

// Close ends the stream.
func (s *Stream) Close() error {
	s.stop()
	return s.conn.Close()
}

// Follow returns the company's records from an index on, in order and without a gap, and then those
// that come, for ever. Where the connection is lost it is made again where it ended. It ends with
// ctx, or with an error that time does not mend, such as a credential that has ended. It needs a
// credential.
func (c *Client) Follow(ctx context.Context, from int64) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for n := 0; ; n++ {
			before := from
			err := c.follow(ctx, &from, yield)
			if errors.Is(err, errStop) {
				return
			}
			if from > before {
				n = 0
			}
			// The service comes back sooner or later: of Retry only the waits count here, not how
			// often.
			waits := c.retry
			waits.Times = n + 1
			wait, retry := waits.wait(n, err, true)
			if !retry || rest(ctx, wait) != nil {
				yield(Record{}, errors.Join(ctx.Err(), err))
				return
			}
		}
	}
}

// follow yields what comes over one connection. It sets next to the index that is due.
func (c *Client) follow(ctx context.Context, next *int64, yield func(Record, error) bool) error {
	s, err := c.StreamFrom(ctx, *next)
	if err != nil {
		return err
	}
	defer s.Close()
	for {
		m, err := s.Next()
		if err != nil {
			return err
		}
		if m.Record.Index != *next {
			return fmt.Errorf("the stream: record %d comes where %d is due", m.Record.Index, *next)
		}
		*next++
		if !yield(m.Record, nil) {
			return errStop
		}
	}
}
