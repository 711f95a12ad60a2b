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
	// whose peer does not read, regardless of the writer: a handler, net/http when it responds to
	// pipelined requests, or a final flush. A piece soon after another has the deadline of that
	// one, and so may have waitSlack less.
	writeWait = 30 * time.Second
	waitSlack = time.Second
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
	// whether connections begin with a TLS handshake, so that a refusal has no answer
	tls bool

	// owned by Accept, which one goroutine calls
	warned time.Time
	since  int // connections refused since warned
}

// Listen returns a Listener in front of ln. Loopback and the trusted proxies have no share, because
// they represent many clients, and may use what is reserved.
func Listen(ln net.Listener, size Size, proxies []netip.Prefix, log *slog.Logger) *Listener {
	return &Listener{Listener: ln, pool: NewPool(size), proxies: proxies, log: log}
}

// TLS makes the listener refuse connections without an answer, because clients expect a handshake.
func (l *Listener) TLS() *Listener {
	l.tls = true
	return l
}

// Sharing returns a Listener for another ln, whose connections count with those of l.
func (l *Listener) Sharing(ln net.Listener) *Listener {
	return &Listener{Listener: ln, pool: l.pool, proxies: l.proxies, log: l.log}
}

// Reserve occupies a place among the connections for a request that shares its connection with
// others, as in HTTP/2. It returns a function to release it, or ErrFull or ErrShare.
func (l *Listener) Reserve(peer string) (release func(), err error) {
	h := l.holder(peer)
	if err := l.pool.Acquire(1, h); err != nil {
		return nil, err
	}
	return func() { l.pool.Release(1, h) }, nil
}

// Accept returns the next connection that there is room for.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		inner, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		h := l.holder(inner.RemoteAddr().String())
		if err := l.pool.Acquire(1, h); err != nil {
			l.refuse(inner, err)
			continue
		}
		return &conn{Conn: inner, release: sync.OnceFunc(func() { l.pool.Release(1, h) })}, nil
	}
}

// Pool returns the pool of connections.
func (l *Listener) Pool() *Pool { return l.pool }

func (l *Listener) holder(remote string) Holder {
	peer, err := netip.ParseAddrPort(remote)
	switch {
	case err != nil: // not an IP address
		return Holder{}
	case Shared(peer.Addr(), l.proxies):
		return Holder{Known: true}
	}
	return Holder{Address: Network(peer.Addr())}
}

func (l *Listener) refuse(c net.Conn, why error) {
	if !l.tls {
		_ = c.SetWriteDeadline(time.Now().Add(refusalFor))
		_, _ = c.Write([]byte(refusal))
	}
	_ = c.Close()
	l.since++
	if time.Since(l.warned) >= warnEvery {
		l.log.Warn("connections refused", "reason", why.Error(), "peer", c.RemoteAddr().String(), "refused", l.since)
		l.warned, l.since = time.Now(), 0
	}
}

// conn is a connection on which every write has a deadline. A deadline set by SetWriteDeadline or
// SetDeadline stays in effect until it is set to zero; otherwise the written pieces get their own,
// so that no write lacks one.
type conn struct {
	net.Conn
	release func()
	fixed   atomic.Bool // a deadline was set
	// when the written pieces got their deadline; nil without one
	timed atomic.Pointer[time.Time]
}

func (c *conn) Write(p []byte) (n int, err error) {
	for {
		piece := p[n:min(len(p), n+pieceSize)]
		if err := c.limitWrite(); err != nil {
			return n, err
		}
		k, err := c.Conn.Write(piece)
		if n += k; err != nil || n == len(p) {
			return n, err
		}
	}
}

// limitWrite gives the next piece a deadline.
func (c *conn) limitWrite() error {
	if c.fixed.Load() {
		return nil
	}
	now := time.Now()
	if timed := c.timed.Load(); timed != nil && now.Sub(*timed) < waitSlack {
		return nil
	}
	if err := c.Conn.SetWriteDeadline(now.Add(writeWait)); err != nil {
		return err
	}
	c.timed.Store(&now)
	return nil
}

// SetWriteDeadline also ends what was set before, when t is zero. net/http does so after each
// response, and then the deadline of its pieces may as well stay.
func (c *conn) SetWriteDeadline(t time.Time) error {
	if !c.fix(t) {
		return nil
	}
	return c.Conn.SetWriteDeadline(t)
}

func (c *conn) SetDeadline(t time.Time) error {
	if !c.fix(t) {
		return c.Conn.SetReadDeadline(t)
	}
	return c.Conn.SetDeadline(t)
}

// fix reports whether a deadline replaces another one of the caller, or is one.
func (c *conn) fix(t time.Time) bool {
	if fixed := !t.IsZero(); !c.fixed.Swap(fixed) && !fixed {
		return false
	}
	c.timed.Store(nil)
	return true
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
	defer c.release()
	return c.Conn.Close()
}
