package postgres

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
)

// sideTimeout is for one statement, a new connection and the turn included.
const sideTimeout = 2 * time.Second

// Side is a connection for small things beside the writer, each a statement of its own that nothing
// else waits for: who has a duty, what was spent. They wait for no standby, for to lose them does
// no harm. Its callers take turns.
type Side struct {
	db   *sql.DB
	turn chan struct{} // capacity 1

	conn   *sql.Conn // nil while there is none; owned by who has the turn
	native *pgx.Conn
}

// NewSide returns one that connects when it is first used.
func NewSide(db *sql.DB) *Side { return &Side{db: db, turn: make(chan struct{}, 1)} }

// Row carries a statement out and reads the row that it returns; it reports false where there is
// none.
func (s *Side) Row(ctx context.Context, dest []any, statement string, args ...any) (found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, sideTimeout)
	defer cancel()
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	defer func() { <-s.turn }()
	// A caller who leaves now must not cost those behind it the connection.
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

// Close ends the connection. Nobody uses it any more.
func (s *Side) Close() { s.hangUp() }
