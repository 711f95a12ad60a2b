package postgres

import (
	"context"
	"crypto/tls"
	"database/sql"
	"net"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// wire is a connection to a server that may fall silent. What asks it something has no deadline of
// its own: to end a context is to send a cancel; see Writer.send.
type wire struct {
	net.Conn
	// how long, in nanoseconds, it may take to send anything while it is asked to; 0 for ever
	silence atomic.Int64
	// it only reads, so that what it asks may be cancelled
	readsOnly atomic.Bool
}

// dial is a pgconn.DialFunc.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Control: limitLoss, KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: time.Second, Interval: time.Second, Count: 3}}
	c, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &wire{Conn: c}, nil
}

// NetConn is the connection below, as that of a tls.Conn.
func (w *wire) NetConn() net.Conn { return w.Conn }

// Read implements net.Conn. It closes a connection that is silent for too long.
func (w *wire) Read(b []byte) (int, error) {
	if limit := time.Duration(w.silence.Load()); limit > 0 {
		defer time.AfterFunc(limit, func() { _ = w.Conn.Close() }).Stop()
	}
	return w.Conn.Read(b)
}

// RemoteAddr implements net.Conn, of a connection that writes with an address that nobody can dial:
// pgx does to send a cancel after a connection that it has found broken. That would end the wait
// for the standby of a commit, which then is seen by all though a failover may lose it.
func (w *wire) RemoteAddr() net.Addr {
	address := w.Conn.RemoteAddr()
	if w.readsOnly.Load() {
		return address
	}
	return &net.UnixAddr{Name: address.String(), Net: "none"}
}

// connect makes a connection, and returns what is below it too.
func connect(ctx context.Context, db *sql.DB) (*sql.Conn, *pgx.Conn, error) {
	c, err := db.Conn(ctx)
	if err != nil {
		return nil, nil, err
	}
	var native *pgx.Conn
	err = onNative(c, func(below *pgx.Conn) error {
		native = below
		return nil
	})
	if err != nil {
		_ = c.Close()
		return nil, nil, err
	}
	return c, native, nil
}

// sendBeside carries out what stands beside the writer, in a transaction that waits for no disk and
// no standby, for to lose it does no harm. After an error the connection is of no use.
func sendBeside(ctx context.Context, c *pgx.Conn, queue func(*pgx.Batch)) error {
	b := &pgx.Batch{}
	b.Queue("BEGIN")
	b.Queue("SET LOCAL synchronous_commit = off")
	queue(b)
	b.Queue("COMMIT")
	return c.SendBatch(ctx, b).Close()
}

// onNative calls fn with what is below a connection.
func onNative(c *sql.Conn, fn func(*pgx.Conn) error) error {
	return c.Raw(func(driver any) error { return fn(driver.(*stdlib.Conn).Conn()) })
}

// ConnectReader makes a connection that MUST only read. It is closed when its server, asked
// something, sends nothing for so long, and the end of a context cancels the statement on the
// server too.
func ConnectReader(ctx context.Context, db *sql.DB, silence time.Duration) (*sql.Conn, error) {
	c, native, err := connect(ctx, db)
	if err == nil {
		w := wireOf(native)
		w.silence.Store(int64(silence))
		w.readsOnly.Store(true)
	}
	return c, err
}

// wireOf is what dial has made of a connection.
func wireOf(c *pgx.Conn) *wire {
	below := c.PgConn().Conn()
	if encrypted, is := below.(*tls.Conn); is {
		below = encrypted.NetConn()
	}
	return below.(*wire)
}
