package limit

import (
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// writeWait is the time limit for each piece that is written to a peer. It ends connections
	// whose peer does not read, whoever writes: a handler, net/http when it responds to pipelined
	// requests, or a final flush.
	writeWait = 30 * time.Second
	pieceSize = 64 << 10 // so a slow reader of a large response needs only 17 kbit/s

	warnEvery = time.Minute
	refusal   = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 10\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
	// never reached, because the buffer of a new connection has room
	refusalFor = 10 * time.Millisecond
)

// Listener accepts connections within a Pool. It closes others at once.
type Listener struct {
	net.Listener
	pool    *Pool
	proxies []netip.Prefix
	log     *slog.Logger

	// owned by Accept, which one goroutine calls
	warned time.Time
	since  int // connections refused since warned
}

// Listen returns a Listener in front of ln. Loopback and the trusted proxies have no share, because
// they represent many clients, and may use what is reserved.
func Listen(ln net.Listener, size Size, proxies []netip.Prefix, log *slog.Logger) *Listener {
	return &Listener{Listener: ln, pool: NewPool(size), proxies: proxies, log: log}
}

// Accept returns the next connection that there is room for.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		inner, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		h := l.holder(inner)
		if err := l.pool.Take(1, h); err != nil {
			l.refuse(inner, err)
			continue
		}
		return &conn{Conn: inner, give: sync.OnceFunc(func() { l.pool.Give(1, h) })}, nil
	}
}

func (l *Listener) holder(c net.Conn) Holder {
	peer, err := netip.ParseAddrPort(c.RemoteAddr().String())
	switch {
	case err != nil: // not an IP address
		return Holder{}
	case Shared(peer.Addr(), l.proxies):
		return Holder{Known: true}
	}
	return Holder{Address: Network(peer.Addr())}
}

func (l *Listener) refuse(c net.Conn, why error) {
	_ = c.SetWriteDeadline(time.Now().Add(refusalFor))
	_, _ = c.Write([]byte(refusal))
	_ = c.Close()
	l.since++
	if time.Since(l.warned) >= warnEvery {
		l.log.Warn("connections refused", "reason", why.Error(), "peer", c.RemoteAddr().String(), "refused", l.since)
		l.warned, l.since = time.Now(), 0
	}
}

// conn is a connection on which every write has a deadline. A deadline set by SetWriteDeadline or
// SetDeadline stays in effect until it is set to zero; otherwise each written piece gets its own,
// so that no write lacks one.
type conn struct {
	net.Conn
	give  func()
	fixed atomic.Bool // a deadline was set
}

func (c *conn) Write(p []byte) (n int, err error) {
	for {
		piece := p[n:min(len(p), n+pieceSize)]
		if !c.fixed.Load() {
			if err := c.Conn.SetWriteDeadline(time.Now().Add(writeWait)); err != nil {
				return n, err
			}
		}
		k, err := c.Conn.Write(piece)
		if n += k; err != nil || n == len(p) {
			return n, err
		}
	}
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.fixed.Store(!t.IsZero())
	return c.Conn.SetWriteDeadline(t)
}

func (c *conn) SetDeadline(t time.Time) error {
	c.fixed.Store(!t.IsZero())
	return c.Conn.SetDeadline(t)
}

// CloseWrite lets net/http finish a response to a request that it has not fully read, without a
// reset that could overtake the response.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

func (c *conn) Close() error {
	defer c.give()
	return c.Conn.Close()
}
