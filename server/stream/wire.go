package stream

import (
	"net"
	"sync"
	"time"
)

// writeWait is the time limit for one write to a client.
const writeWait = 10 * time.Second

// wire is the connection below a client. While it is corked, writes are collected, so that a client
// that is some messages behind receives them in one system call. With a thousand clients and many
// records, that more than halves the cost of the stream.
type wire struct {
	net.Conn
	// a lock, because the reader writes too: it answers pings and close frames. It may be held for
	// writeWait.
	writing chan struct{}
	corked  *[]byte // from corks; nil while not corked
}

func newWire(conn net.Conn) *wire { return &wire{Conn: conn, writing: make(chan struct{}, 1)} }

func (w *wire) lock()   { w.writing <- struct{}{} }
func (w *wire) unlock() { <-w.writing }

// corks is a pool of buffers, so that only clients that are being written to hold one.
var corks = sync.Pool{New: func() any { b := make([]byte, 0, corkSize); return &b }}

const corkSize = 16 << 10

func (w *wire) cork() {
	w.lock()
	defer w.unlock()
	w.corked = corks.Get().(*[]byte)
}

// uncork writes what was collected.
func (w *wire) uncork() error {
	w.lock()
	defer w.unlock()
	_, err := w.write(*w.corked)
	*w.corked = (*w.corked)[:0]
	corks.Put(w.corked)
	w.corked = nil
	return err
}

func (w *wire) Write(p []byte) (int, error) {
	w.lock()
	defer w.unlock()
	if w.corked == nil {
		return w.write(p)
	}
	if len(*w.corked)+len(p) > corkSize {
		if _, err := w.write(*w.corked); err != nil {
			return 0, err
		}
		*w.corked = (*w.corked)[:0]
	}
	if len(p) > corkSize {
		return w.write(p)
	}
	*w.corked = append(*w.corked, p...)
	return len(p), nil
}

func (w *wire) write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if err := w.Conn.SetWriteDeadline(time.Now().Add(writeWait)); err != nil {
		return 0, err
	}
	return w.Conn.Write(p)
}

// SetWriteDeadline does nothing, because the library would change the deadline of a running write
// when it answers a ping.
func (w *wire) SetWriteDeadline(time.Time) error { return nil }
