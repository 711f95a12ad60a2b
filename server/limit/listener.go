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
	// writeWait is what a peer may take for each piece of what is written to it. A connection whose
	// peer does not read ends then, whoever writes: a handler, net/http when it answers what was
	// pipelined, or a flush at the end.
	writeWait = 30 * time.Second
	pieceSize = 64 << 10 // so that a slow reader of a large answer needs 17 kbit/s and no more

	warnEvery = time.Minute
	refusal   = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 10\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
	// the buffer of a new connection has room, so this is never waited for
	refusalFor = 10 * time.Millisecond
)

// Listener accepts connections within a Pool. Those over it are closed at once.
type Listener struct {
	net.Listener
	pool    *Pool
	proxies []netip.Prefix
	log     *slog.Logger

	// Of Accept, which one goroutine calls.
	warned time.Time
	since  int // connections closed since then
}

// Listen puts a Listener in front of ln. Loopback and the trusted proxies have no share, for they
// speak for many clients, and may take what is kept.
func Listen(ln net.Listener, size Size, proxies []netip.Prefix, log *slog.Logger) *Listener {
	return &Listener{Listener: ln, pool: NewPool(size), proxies: proxies, log: log}
}

// Accept waits for a connection that there is room for.
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
	case err != nil: // not the Internet
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

// conn is a connection on which every write has a deadline. One that was set by SetWriteDeadline or
// SetDeadline holds until it is set to zero; else each piece that is written gets its own, so that
// none can be forgotten.
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

// CloseWrite lets net/http end an answer to a request that it has not read to its end, without a
// reset that would overtake it.
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
