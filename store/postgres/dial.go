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

// wire is a connection to a server that may stop responding. Its users set no deadlines on
// contexts, because ending a context sends a cancel request; see Writer.send.
type wire struct {
	net.Conn
	// maximum time in nanoseconds without data while a response is awaited; 0 for no limit
	silence atomic.Int64
	// the connection only reads, so its statements may be canceled
	readsOnly atomic.Bool
}

// dial is a pgconn.DialFunc.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Control: limitLoss, KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: time.Second,
		Interval: time.Second, Count: 3}}
	c, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &wire{Conn: c}, nil
}

// NetConn returns the underlying connection, like that of a tls.Conn.
func (w *wire) NetConn() net.Conn { return w.Conn }

// Read implements net.Conn. It closes a connection that is silent for too long.
func (w *wire) Read(b []byte) (int, error) {
	if limit := time.Duration(w.silence.Load()); limit > 0 {
		defer time.AfterFunc(limit, func() { _ = w.Conn.Close() }).Stop()
	}
	return w.Conn.Read(b)
}

// RemoteAddr implements net.Conn. For a connection that writes, it returns an address that cannot
// be dialed. pgx would dial it to send a cancel request after a broken connection, which would end
// a commit's wait for the standby. Then everybody would see a commit that a failover may lose.
func (w *wire) RemoteAddr() net.Addr {
	address := w.Conn.RemoteAddr()
	if w.readsOnly.Load() {
		return address
	}
	return &net.UnixAddr{Name: address.String(), Net: "none"}
}

// connect opens a connection, and also returns the underlying one of pgx.
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

// sendBeside runs statements outside the writer, in a transaction that does not wait for the disk
// or a standby, because losing it does no harm. After an error the connection is unusable.
func sendBeside(ctx context.Context, c *pgx.Conn, queue func(*pgx.Batch)) error {
	b := &pgx.Batch{}
	b.Queue("BEGIN")
	b.Queue("SET LOCAL synchronous_commit = off")
	queue(b)
	b.Queue("COMMIT")
	return c.SendBatch(ctx, b).Close()
}

// onNative calls fn with the underlying connection of pgx.
func onNative(c *sql.Conn, fn func(*pgx.Conn) error) error {
	return c.Raw(func(driver any) error { return fn(driver.(*stdlib.Conn).Conn()) })
}

// ConnectReader opens a connection that MUST only read. It is closed if the server sends nothing
// for the duration silence while a response is awaited. The end of a context also cancels the
// statement on the server.
func ConnectReader(ctx context.Context, db *sql.DB, silence time.Duration) (*sql.Conn, error) {
	c, native, err := connect(ctx, db)
	if err == nil {
		w := wireOf(native)
		w.silence.Store(int64(silence))
		w.readsOnly.Store(true)
	}
	return c, err
}

// wireOf returns the wire of a connection.
func wireOf(c *pgx.Conn) *wire {
	below := c.PgConn().Conn()
	if encrypted, is := below.(*tls.Conn); is {
		below = encrypted.NetConn()
	}
	return below.(*wire)
}
