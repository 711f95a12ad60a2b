package server

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"sync"

	"github.com/gorilla/websocket"

	"attestd/chain"
	"attestd/store"
)

// StreamMode says who may listen to the stream.
type StreamMode int

const (
	StreamOpen          StreamMode = iota // anyone; without a credential, to every company
	StreamAuthenticated                   // whoever has a credential, to its company
	StreamOff
)

// ParseStreamMode reads open, authenticated or off.
func ParseStreamMode(s string) (StreamMode, error) {
	switch s {
	case "open":
		return StreamOpen, nil
	case "authenticated":
		return StreamAuthenticated, nil
	case "off":
		return StreamOff, nil
	}
	return 0, fmt.Errorf("want open, authenticated or off, not %q", s)
}

// maxClients bounds what connections, which need no credential, can take: 30 KB each, measured.
const maxClients = 4000

// hub hands each record to every client of the stream. Each client has a bounded queue and one goroutine that empties it; nobody
// waits for a client, and one whose queue is full is sent away.
type hub struct {
	log    *slog.Logger
	listen func(bool) // told when the first client comes and when the last one goes

	mu      sync.Mutex
	clients map[*client]struct{} // those that are sent records
	serving int                  // calls of serve, also of clients on their way in or out
	closed  bool
	scratch []byte // of broadcast
	gone    sync.WaitGroup

	telling sync.Mutex // orders the calls of listen; never taken by broadcast, which runs inside whoever is told
	told    bool
}

func newHub(listen func(bool), log *slog.Logger) *hub {
	return &hub{log: log, listen: listen, clients: make(map[*client]struct{})}
}

// serve turns a request into a client of the stream, of one company's records or, with only nil, of everybody's, and
// returns when the client is gone. The client gets every record committed after its handshake was answered. header goes
// into the answer. An error means that the connection is still HTTP and nothing has been answered.
func (h *hub) serve(w http.ResponseWriter, r *http.Request, only *store.Company, header http.Header) error {
	if err := checkHandshake(r); err != nil {
		return err
	}
	if err := h.enter(); err != nil {
		return err
	}
	defer h.leave()
	c := newClient(only)
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
func (h *hub) enter() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return fail(http.StatusServiceUnavailable, "The server is stopping")
	}
	if h.serving == maxClients {
		return fail(http.StatusServiceUnavailable, "Too many clients on the stream")
	}
	h.serving++
	h.gone.Add(1)
	return nil
}

func (h *hub) leave() {
	h.mu.Lock()
	h.serving--
	h.mu.Unlock()
	h.gone.Done()
}

func (h *hub) add(c *client) {
	h.mu.Lock()
	if h.closed {
		c.end(websocket.CloseGoingAway, goingAway)
	} else {
		h.clients[c] = struct{}{}
	}
	h.mu.Unlock()
	h.tell()
}

func (h *hub) remove(c *client) {
	h.mu.Lock()
	delete(h.clients, c)
	h.mu.Unlock()
	h.tell()
}

// tell passes on whether there are clients now. Whoever comes last speaks of the state after all changes.
func (h *hub) tell() {
	h.telling.Lock()
	defer h.telling.Unlock()
	h.mu.Lock()
	on := len(h.clients) > 0
	h.mu.Unlock()
	if on != h.told {
		h.told = on
		h.listen(on)
	}
}

// broadcast puts an event into the queue of every client that wants it, written once for all of them. It never blocks.
func (h *hub) broadcast(e chain.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var m message
	for c := range h.clients {
		if c.only != nil && c.only.Chain != e.Chain {
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
			delete(h.clients, c) // its serve tells
			c.end(websocket.CloseTryAgainLater, "too slow: records were left out")
		}
	}
}

const (
	goingAway  = "the server is stopping"
	maxScratch = 64 << 10 // kept from one message to the next
)

// close says 1001 to all clients, lets no more in, and returns when every serve has ended or is about to, after little more than
// closeGrace.
func (h *hub) close() {
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
