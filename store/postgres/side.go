package postgres

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
)

// sideTimeout is for one statement, including waiting for the turn and a new connection.
const sideTimeout = 2 * time.Second

// Side is a connection, separate from the writer, for small statements that nothing else waits for:
// duties and budgets. They do not wait for a standby, because losing them does no harm. Its callers
// take turns.
type Side struct {
	db   *sql.DB
	turn chan struct{} // capacity 1

	conn   *sql.Conn // nil while not connected; owned by the caller whose turn it is
	native *pgx.Conn
}

// NewSide returns a Side that connects on first use.
func NewSide(db *sql.DB) *Side { return &Side{db: db, turn: make(chan struct{}, 1)} }

// Row runs a statement and reads the row that it returns. found reports whether there is one.
func (s *Side) Row(ctx context.Context, dest []any, statement string, args ...any) (found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, sideTimeout)
	defer cancel()
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	defer func() { <-s.turn }()
	// A caller that leaves now must not cost the next ones the connection.
	deadline, _ := ctx.Deadline()
	ctx, end := context.WithDeadline(context.WithoutCancel(ctx), deadline)
	defer end()
	if s.native == nil || s.native.IsClosed() {
		if err := s.dial(ctx); err != nil {
			return false, err
		}
	}
	err = sendBeside(ctx, s.native, func(b *pgx.Batch) {
		b.Queue(statement, args...).QueryRow(func(row pgx.Row) error {
			err := row.Scan(dest...)
			if found = err == nil; errors.Is(err, pgx.ErrNoRows) {
				return nil
			}
			return err
		})
	})
	if err != nil {
		s.hangUp()
		return false, err
	}
	return found, nil
}

func (s *Side) dial(ctx context.Context) (err error) {
	s.hangUp()
	s.conn, s.native, err = connect(ctx, s.db)
	return err
}

func (s *Side) hangUp() {
	if s.conn != nil {
		_ = s.conn.Close()
	}
	s.conn, s.native = nil, nil
}

// Close closes the connection. Row MUST NOT be called any more.
func (s *Side) Close() { s.hangUp() }
