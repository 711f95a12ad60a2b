package server

import (
	"context"
	"net"
	"sync"
)

// pipes is a network in memory, without buffers: whoever does not read stops whoever writes. It works in a synctest bubble.
type pipes struct {
	calls chan net.Conn
	down  chan struct{}
	once  sync.Once
}

func newPipes() *pipes { return &pipes{calls: make(chan net.Conn), down: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.calls:
		return conn, nil
	case <-p.down:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.down) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.calls <- theirs:
		return ours, nil
	case <-p.down:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
