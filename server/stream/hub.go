// Package stream sends each committed record to the clients of the WebSocket stream.
package stream

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"sync"

	"github.com/gorilla/websocket"

	"attestd/chain"
	"attestd/server/limit"
)

// Hub sends each record to every client of the stream. Each client has a bounded queue and one
// goroutine that empties it. Nothing waits for a client; one whose queue is full is disconnected,
// or reads from disk.
type Hub struct {
	log    *slog.Logger
	listen func(bool)  // see NewHub
	places *limit.Pool // for calls of Serve, including those of clients that are joining or leaving

	mu      sync.Mutex
	clients map[*client]struct{} // clients that receive records
	closed  bool
	cut     int64  // clients that were too slow
	scratch []byte // buffer of Broadcast
	gone    sync.WaitGroup

	// serializes the calls of listen; Broadcast never takes it, because it runs inside the notified
	// function
	notifying sync.Mutex
	listening bool // last argument of listen
}

// NewHub returns a hub without clients and with that many places for them. listen is called with
// true when the first client comes, and with false when the last one leaves, alternately.
func NewHub(places limit.Size, listen func(bool), log *slog.Logger) *Hub {
	return &Hub{log: log, listen: listen, places: limit.NewPool(places), clients: make(map[*client]struct{})}
}

// Status is what a server tells its operator about the stream.
type Status struct {
	Clients int   // that receive records
	Cut     int64 // clients that were too slow, since the start
}

// Status may be called at any time.
func (h *Hub) Status() Status {
	h.mu.Lock()
	defer h.mu.Unlock()
	return Status{Clients: len(h.clients), Cut: h.cut}
}

// Places returns the pool of places.
func (h *Hub) Places() *limit.Pool { return h.places }

// Serve turns a request into a client of the stream, and returns when the client is gone. The
// client receives every record committed after the response to its handshake, preceded by those of
// its Backlog. header is added to the response. An error means that the connection is still HTTP,
// without a response.
//
// The subscriber's credential was valid before, and may have been deleted since. So Serve calls
// Check after the client was added: a deletion is noticed either by Check or by End.
func (h *Hub) Serve(w http.ResponseWriter, r *http.Request, s Subscriber, header http.Header) error {
	if err := checkHandshake(r); err != nil {
		return err
	}
	if err := h.enter(s.Holder); err != nil {
		return err
	}
	defer h.leave(s.Holder)
	c := newClient(s)
	if err := c.upgrade(w, r, header, h.add); err != nil || c.conn == nil {
		h.remove(c)
		return err
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		c.write()
	}()
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	caughtUp := make(chan struct{})
	go func() {
		defer close(caughtUp)
		if c.Backlog != nil {
			h.follow(ctx, c)
		}
	}()
	err := c.read()
	h.remove(c)
	c.end(websocket.CloseNormalClosure, "")
	cancel()
	<-written
	<-caughtUp
	c.hangUp()
	if closed := (*websocket.CloseError)(nil); errors.As(err, &closed) {
		// the text is the client's, and may be anything
		h.log.Debug("stream client gone", "code", closed.Code)
	} else {
		h.log.Debug("stream client gone", "error", err)
	}
	return nil
}

// enter reserves a place for a client.
func (h *Hub) enter(holder limit.Holder) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return busy("The server is stopping")
	}
	switch err := h.places.Acquire(1, holder); {
	case errors.Is(err, limit.ErrShare):
		return busy("Too many clients on the stream from this address or company")
	case err != nil:
		return busy("Too many clients on the stream")
	}
	h.gone.Add(1)
	return nil
}

func busy(message string) *Refusal {
	return &Refusal{Status: http.StatusServiceUnavailable, Message: message, Header: http.Header{"Retry-After": {"10"}}}
}

func (h *Hub) leave(holder limit.Holder) {
	h.places.Release(1, holder)
	h.gone.Done()
}

func (h *Hub) add(c *client) {
	h.mu.Lock()
	if h.closed {
		c.end(websocket.CloseGoingAway, goingAway)
	} else {
		h.clients[c] = struct{}{}
	}
	h.mu.Unlock()
	h.notify()
	if c.Check == nil {
		return
	}
	if err := c.Check(); err != nil && !h.endIfCredentialEnded(c, err) {
		h.log.Warn("the credential of a stream client cannot be checked", "error", err)
		h.remove(c)
		c.end(websocket.CloseTryAgainLater, "the credential cannot be checked now")
	}
}

// endIfCredentialEnded ends a client if the error of its Check means that its credential is gone,
// and reports whether it does.
func (h *Hub) endIfCredentialEnded(c *client, err error) bool {
	if !errors.Is(err, ErrCredentialEnded) {
		return false
	}
	h.remove(c)
	c.end(websocket.ClosePolicyViolation, credentialEnded)
	return true
}

func (h *Hub) remove(c *client) {
	h.mu.Lock()
	delete(h.clients, c)
	h.mu.Unlock()
	h.notify()
}

// notify calls listen if the presence of clients has changed. The last call sees the state after
// all changes.
func (h *Hub) notify() {
	h.notifying.Lock()
	defer h.notifying.Unlock()
	h.mu.Lock()
	on := len(h.clients) > 0
	h.mu.Unlock()
	if on != h.listening {
		h.listening = on
		h.listen(on)
	}
}

// Broadcast queues an event for every client that receives its chain. The event is encoded once. It
// never blocks.
func (h *Hub) Broadcast(e chain.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var m message
	for c := range h.clients {
		if c.Chain != 0 && c.Chain != e.Chain {
			continue
		}
		if c.behind != nil {
			if !c.behind.takes(e.Record.Index) {
				continue
			}
			c.behind = nil
		}
		if c.Chain != 0 && e.Record.Index < c.next {
			h.end(c, websocket.CloseTryAgainLater, wentBack)
			continue
		}
		c.next = e.Record.Index + 1
		if m.frame == nil {
			h.scratch = appendEvent(h.scratch[:0], &e)
			// this copies
			frame, err := websocket.NewPreparedMessage(websocket.TextMessage, h.scratch)
			if err != nil {
				h.log.Error("stream message", "error", err)
				return
			}
			m = message{frame, int64(len(h.scratch))}
			if cap(h.scratch) > maxScratch {
				h.scratch = nil
			}
		}
		if !c.offer(m) && !c.fallBehind(e.Record.Index) {
			h.cut++
			h.end(c, websocket.CloseTryAgainLater, "too slow: records were left out")
		}
	}
}

const (
	goingAway       = "the server is stopping"
	credentialEnded = "the credential is no longer valid"
	wentBack        = "the log has fewer records than it had"
	maxScratch      = 64 << 10 // reused between messages
)

// End closes the connections of all clients of a credential with status 1008. It is called after
// the credential was deleted, and before the response to that.
func (h *Hub) End(credential string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for c := range h.clients {
		if c.Credential == credential && credential != "" {
			h.end(c, websocket.ClosePolicyViolation, credentialEnded)
		}
	}
}

// WentBack closes, with status 1013, the connections of all clients of a chain that has fewer
// records than before, because what they have received is gone, and other records would follow at
// the same indices.
func (h *Hub) WentBack(chain int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for c := range h.clients {
		if c.Chain == 0 || c.Chain == chain {
			h.end(c, websocket.CloseTryAgainLater, wentBack)
		}
	}
}

// end removes and ends a client. The caller MUST hold h.mu.
func (h *Hub) end(c *client, code int, reason string) {
	delete(h.clients, c) // its Serve calls notify
	c.end(code, reason)
}

// Recheck calls Check for each client of a company, and ends those whose credential is gone with
// status 1008. After any other error the caller MUST call it again.
func (h *Hub) Recheck(company int64) error {
	h.mu.Lock()
	var asked []*client
	for c := range h.clients {
		if c.Chain == company && c.Check != nil {
			asked = append(asked, c)
		}
	}
	h.mu.Unlock()
	var unknown error
	for _, c := range asked {
		if err := c.Check(); err != nil && !h.endIfCredentialEnded(c, err) {
			unknown = err
		}
	}
	return unknown
}

// Close closes the connections of all clients with status 1001, admits no more, and returns when
// every Serve has ended or is about to, which takes little more than closeGrace.
func (h *Hub) Close() {
	h.mu.Lock()
	h.closed = true
	for c := range h.clients {
		h.end(c, websocket.CloseGoingAway, goingAway)
	}
	h.mu.Unlock()
	h.gone.Wait()
}

// appendEvent encodes the message of the specification's section "Events".
func appendEvent(b []byte, e *chain.Event) []byte {
	b = append(b, `{"type":"record","record":`...)
	b = e.Record.AppendJSON(b)
	if e.Verdict.Valid {
		b = append(b, `,"valid":true,"merkleRoot":"`...)
		b = append(b, e.Verdict.Root.String()...)
		return append(b, `"}`...)
	}
	b = append(b, `,"valid":false,"failedAtIndex":`...)
	b = strconv.AppendInt(b, e.Verdict.FailedAt, 10)
	return append(b, '}')
}
