package stream

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
)

const (
	// a client that leaves one ping unanswered until the next is cut off
	pingEvery  = 30 * time.Second
	closeGrace = 2 * time.Second // from the decision to close until the connection is cut

	maxQueued      = 256     // messages a client may be behind
	maxQueuedBytes = 8 << 20 // and what they may hold, for a message may be over a megabyte
	maxIncoming    = 512     // bytes of a client's message; it has nothing to say
)

// message is one event as it goes over the wire, shared by all clients.
type message struct {
	frame *websocket.PreparedMessage
	size  int64
}

// client is the connection of a subscriber. Its serve reads, and one goroutine writes; both end
// with the connection.
type client struct {
	Subscriber
	conn  *websocket.Conn
	net   *wire // below conn; set before the hub knows the client
	queue chan message
	bytes atomic.Int64 // in queue
	alive atomic.Bool  // heard of since the last ping

	// behind the last record that was broadcast to it; of one chain alone; Hub.mu guards it
	next   int64
	behind *catchUp // nil for one that gets what is broadcast; Hub.mu guards it
	// capacity 1: something was taken out of queue; nil for one that never is behind
	room chan struct{}
	fell chan struct{} // capacity 1: it is behind again; likewise

	ending sync.Once
	ended  chan struct{} // closed by end
	last   []byte        // close frame, set before
	cut    *time.Timer   // likewise
}

func newClient(s Subscriber) *client {
	c := &client{Subscriber: s, queue: make(chan message, maxQueued), ended: make(chan struct{})}
	c.alive.Store(true)
	if s.Backlog != nil {
		c.behind, c.room, c.fell = &catchUp{next: s.From}, make(chan struct{}, 1), make(chan struct{}, 1)
	}
	return c
}

// offer queues a message; false when the client is too far behind. Only the hub calls it, one call
// at a time, or, for one that is behind, what reads for that.
func (c *client) offer(m message) bool {
	if behind := c.bytes.Load(); behind > 0 && behind+m.size > maxQueuedBytes {
		return false
	}
	select {
	case c.queue <- m:
		c.bytes.Add(m.size)
		return true
	default:
		return false
	}
}

// end closes the connection for the given reason: what is being written is finished, then the close
// frame goes out, what is queued is forgotten. After closeGrace the connection is cut, whatever the
// client does. Only the first call counts; it does not block.
func (c *client) end(code int, reason string) {
	c.ending.Do(func() {
		c.last = websocket.FormatCloseMessage(code, reason)
		c.cut = time.AfterFunc(closeGrace, func() { _ = c.net.Close() })
		close(c.ended)
	})
}

// hangUp closes the connection at once. end has been called.
func (c *client) hangUp() {
	c.cut.Stop()
	_ = c.net.Close()
}

// read takes in what the client sends, of which only control frames matter, until the connection
// ends.
func (c *client) read() error {
	c.conn.SetReadLimit(maxIncoming)
	c.conn.SetPongHandler(func(string) error {
		c.alive.Store(true)
		return nil
	})
	for {
		if _, _, err := c.conn.NextReader(); err != nil {
			return err
		}
	}
}

var errSilent = errors.New("stream: ping not answered")

// write sends what is queued, and pings, until end is called, the credential expires or a write
// fails.
func (c *client) write() {
	ping := time.NewTicker(pingEvery)
	defer ping.Stop()
	var expiry <-chan time.Time
	if !c.Expires.IsZero() {
		expiry = time.After(time.Until(c.Expires))
	}
	for {
		var err error
		select { // both win over a queue that is never empty
		case <-c.ended:
			_ = c.conn.WriteControl(websocket.CloseMessage, c.last, time.Now().Add(closeGrace))
			return
		case <-expiry:
			c.end(websocket.ClosePolicyViolation, credentialEnded)
			continue
		default:
		}
		select {
		case <-c.ended:
			continue
		case <-expiry:
			c.end(websocket.ClosePolicyViolation, credentialEnded)
		case m := <-c.queue:
			err = c.send(m)
		case <-ping.C:
			err = c.ping()
		}
		if err != nil {
			_ = c.net.Close() // ends read
			return
		}
	}
}

// send writes m and what waits behind it.
func (c *client) send(m message) error {
	waiting := len(c.queue) // nobody else takes from it
	if waiting == 0 {
		return c.put(m)
	}
	c.net.cork()
	err := c.put(m)
	for ; waiting > 0 && err == nil; waiting-- {
		err = c.put(<-c.queue)
	}
	return errors.Join(err, c.net.uncork())
}

func (c *client) put(m message) error {
	c.bytes.Add(-m.size)
	select {
	case c.room <- struct{}{}:
	default:
	}
	return c.conn.WritePreparedMessage(m.frame)
}

func (c *client) ping() error {
	// of a machine that slept, timers are late
	if !c.Expires.IsZero() && !time.Now().Before(c.Expires) {
		c.end(websocket.ClosePolicyViolation, credentialEnded)
		return nil
	}
	if !c.alive.Swap(false) {
		return errSilent
	}
	return c.conn.WriteControl(websocket.PingMessage, nil, time.Now().Add(writeWait))
}
