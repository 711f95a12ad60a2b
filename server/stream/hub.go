// Package stream sends each committed record to the clients of the WebSocket stream.
package stream

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"sync"

	"github.com/gorilla/websocket"

	"attestd/chain"
)

// Mode says who may listen to the stream.
type Mode int

const (
	Open          Mode = iota // anyone; without a credential, to every company
	Authenticated             // whoever has a credential, to its company
	Off
)

// ParseMode reads open, authenticated or off.
func ParseMode(s string) (Mode, error) {
	switch s {
	case "open":
		return Open, nil
	case "authenticated":
		return Authenticated, nil
	case "off":
		return Off, nil
	}
	return 0, fmt.Errorf("want open, authenticated or off, not %q", s)
}

// Refusal is an answer to a request that does not become a client.
type Refusal struct {
	Status  int
	Message string
	Header  http.Header
}

func (r *Refusal) Error() string { return r.Message }

// maxClients bounds what connections, which need no credential, can take: 30 KB each, measured.
const maxClients = 4000

// Hub hands each record to every client of the stream. Each client has a bounded queue and one goroutine that empties it; nobody
// waits for a client, and one whose queue is full is sent away.
type Hub struct {
	log    *slog.Logger
	listen func(bool) // see NewHub

	mu      sync.Mutex
	clients map[*client]struct{} // those that are sent records
	serving int                  // calls of serve, also of clients on their way in or out
	closed  bool
	scratch []byte // of broadcast
	gone    sync.WaitGroup

	notifying sync.Mutex // orders the calls of listen; never taken by Broadcast, which runs inside whoever is notified
	listening bool       // the last word to listen
}

// NewHub returns a hub without clients. listen is called, never twice with the same word, when the first client comes and when the last one goes.
func NewHub(listen func(bool), log *slog.Logger) *Hub {
	return &Hub{log: log, listen: listen, clients: make(map[*client]struct{})}
}

// Serve turns a request into a client of the stream, of one company's records or, with a chain of 0, of everybody's, and
// returns when the client is gone. The client gets every record committed after its handshake was answered. header goes
// into the answer. An error means that the connection is still HTTP and nothing has been answered.
func (h *Hub) Serve(w http.ResponseWriter, r *http.Request, chain int64, header http.Header) error {
	if err := checkHandshake(r); err != nil {
		return err
	}
	if err := h.enter(); err != nil {
		return err
	}
	defer h.leave()
	c := newClient(chain)
	if err := c.upgrade(w, r, header, h.add); err != nil || c.conn == nil {
		h.remove(c)
		return err
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		c.write()
	}()
	err := c.read()
	h.remove(c)
	c.end(websocket.CloseNormalClosure, "")
	<-written
	c.hangUp()
	if closed := (*websocket.CloseError)(nil); errors.As(err, &closed) {
		h.log.Debug("stream client gone", "code", closed.Code) // the text is the client's, and could be anything
	} else {
		h.log.Debug("stream client gone", "error", err)
	}
	return nil
}

// enter reserves the place of a client that is about to come.
func (h *Hub) enter() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return &Refusal{Status: http.StatusServiceUnavailable, Message: "The server is stopping"}
	}
	if h.serving == maxClients {
		return &Refusal{Status: http.StatusServiceUnavailable, Message: "Too many clients on the stream"}
	}
	h.serving++
	h.gone.Add(1)
	return nil
}

func (h *Hub) leave() {
	h.mu.Lock()
	h.serving--
	h.mu.Unlock()
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
}

func (h *Hub) remove(c *client) {
	h.mu.Lock()
	delete(h.clients, c)
	h.mu.Unlock()
	h.notify()
}

// notify says to listen whether there are clients now. Whoever comes last speaks of the state after all changes.
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

// Broadcast puts an event into the queue of every client that wants it, written once for all of them. It never blocks.
func (h *Hub) Broadcast(e chain.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var m message
	for c := range h.clients {
		if c.chain != 0 && c.chain != e.Chain {
			continue
		}
		if m.frame == nil {
			h.scratch = appendEvent(h.scratch[:0], &e)
			frame, err := websocket.NewPreparedMessage(websocket.TextMessage, h.scratch) // copies
			if err != nil {
				h.log.Error("stream message", "error", err)
				return
			}
			m = message{frame, int64(len(h.scratch))}
			if cap(h.scratch) > maxScratch {
				h.scratch = nil
			}
		}
		if !c.offer(m) {
			delete(h.clients, c) // its Serve notifies
			c.end(websocket.CloseTryAgainLater, "too slow: records were left out")
		}
	}
}

const (
	goingAway  = "the server is stopping"
	maxScratch = 64 << 10 // kept from one message to the next
)

// Close says 1001 to all clients, lets no more in, and returns when every serve has ended or is about to, after little more than
// closeGrace.
func (h *Hub) Close() {
	h.mu.Lock()
	h.closed = true
	for c := range h.clients {
		delete(h.clients, c)
		c.end(websocket.CloseGoingAway, goingAway)
	}
	h.mu.Unlock()
	h.gone.Wait()
}

// appendEvent writes the message of the specification's "Events".
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
