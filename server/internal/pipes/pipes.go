// Package pipes is an in-memory network for tests in a synctest bubble.
package pipes

import (
	"context"
	"net"
	"sync"
)

// Network is a listener and its dialer, without buffers: a side that does not read blocks the
// other's writes.
type Network struct {
	calls chan net.Conn
	down  chan struct{}
	once  sync.Once
}

// New returns a network without connections.
func New() *Network { return &Network{calls: make(chan net.Conn), down: make(chan struct{})} }

func (n *Network) Accept() (net.Conn, error) {
	select {
	case conn := <-n.calls:
		return conn, nil
	case <-n.down:
		return nil, net.ErrClosed
	}
}

func (n *Network) Close() error {
	n.once.Do(func() { close(n.down) })
	return nil
}

func (n *Network) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

func (n *Network) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case n.calls <- theirs:
		return ours, nil
	case <-n.down:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
