package stream

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"

	"attestd/internal/wake"
)

const (
	// a client that does not answer a ping until the next one is disconnected
	pingEvery  = 30 * time.Second
	closeGrace = 2 * time.Second // from the decision to close until the connection is cut

	maxQueued = 256 // messages in a client's queue
	// and their total size, because a message may have more than a megabyte
	maxQueuedBytes = 8 << 20
	maxIncoming    = 512 // bytes of a client's message, whose content is ignored
)

// message is one event in wire format, shared by all clients.
type message struct {
	frame *websocket.PreparedMessage
	size  int64
}

// client is the connection of a subscriber. Hub.Serve reads, and one goroutine writes; both end
// with the connection.
type client struct {
	Subscriber
	conn  *websocket.Conn
	net   *wire // below conn; set before the hub has the client
	queue chan message
	bytes atomic.Int64 // total size of queue
	alive atomic.Bool  // a pong arrived since the last ping

	// index after the last broadcast record, for clients of one chain; guarded by Hub.mu
	next   int64
	behind *catchUp    // nil for a client that receives broadcasts; guarded by Hub.mu
	room   wake.Signal // set when the queue was read; nil without a Backlog
	fell   wake.Signal // set when the client has fallen behind; nil without a Backlog

	ending sync.Once
	ended  chan struct{} // closed by end
	last   []byte        // close frame; set before ended is closed
	cut    *time.Timer   // set before ended is closed
}

func newClient(s Subscriber) *client {
	c := &client{Subscriber: s, queue: make(chan message, maxQueued), ended: make(chan struct{})}
	c.alive.Store(true)
	if s.Backlog != nil {
		c.behind, c.room, c.fell = &catchUp{next: s.From}, wake.NewSignal(), wake.NewSignal()
	}
	return c
}

// offer queues a message. It returns false if the client is too far behind. Calls MUST be
// serialized: they come from the hub, or from catchUp for a client that is behind.
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

// end closes the connection for a reason: a running write completes, the close frame is sent, and
// the queue is dropped. After closeGrace the connection is cut, whatever the client does. Only the
// first call has an effect; it does not block.
func (c *client) end(code int, reason string) {
	c.ending.Do(func() {
		c.last = websocket.FormatCloseMessage(code, reason)
		c.cut = time.AfterFunc(closeGrace, func() { _ = c.net.Close() })
		close(c.ended)
	})
}

// hangUp closes the connection at once. The caller MUST have called end.
func (c *client) hangUp() {
	c.cut.Stop()
	_ = c.net.Close()
}

// read reads and drops what the client sends, except for control frames, until the connection ends.
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

// write sends queued messages and pings, until end is called, the credential expires or a write
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
		select { // both have priority over a queue that is never empty
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
			_ = c.net.Close() // this ends read
			return
		}
	}
}

// send writes m and the messages that are queued behind it.
func (c *client) send(m message) error {
	waiting := len(c.queue) // only this goroutine receives from it
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
	c.room.Set()
	return c.conn.WritePreparedMessage(m.frame)
}

func (c *client) ping() error {
	// after the machine has slept, timers are late
	if !c.Expires.IsZero() && !time.Now().Before(c.Expires) {
		c.end(websocket.ClosePolicyViolation, credentialEnded)
		return nil
	}
	if !c.alive.Swap(false) {
		return errSilent
	}
	return c.conn.WriteControl(websocket.PingMessage, nil, time.Now().Add(writeWait))
}
