package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"attestd/internal/sleep"
)

// patient disables timeouts for a transaction that takes as long as its work, whatever the
// connection, the role or the database sets. Only waiting for locks is limited.
const patient = `SET LOCAL idle_in_transaction_session_timeout = 0; SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = '5s'`

// AtRest calls fn with a connection that has locked tables, so that no other session can write them
// while the connection lasts. It returns ErrInUse if a server is running: it has a row in table
// writer, and has written within the last minute or is connected. A row of a killed server does not
// count. The role must own the tables, or have privileges to change all of them. The other errors
// are those of Identify.
func AtRest(ctx context.Context, db *sql.DB, tables []string, fn func(*sql.Conn) error) error {
	return inTransaction(ctx, db, func(c *sql.Conn) error {
		if _, err := usable(ctx, c); err != nil {
			return err
		}
		for _, t := range append([]string{"writer"}, tables...) {
			if _, err := c.ExecContext(ctx, "LOCK TABLE "+pgx.Identifier{t}.Sanitize()+" IN SHARE MODE"); err != nil {
				return inUse(err)
			}
		}
		serving, err := isServed(ctx, c)
		if err != nil {
			return refusal(err)
		}
		if serving {
			return fmt.Errorf("%w: servers run on it, or were killed within the last minute", ErrInUse)
		}
		return fn(c)
	})
}

const (
	// time limit for a backend to end after its client has closed the connection
	endingTime  = 5 * time.Second
	endingPause = 50 * time.Millisecond // interval of checks
)

// isServed reports whether a server has written within the last minute, or is connected. The
// connections of a terminated server or command remain listed for a moment, so isServed waits for
// their end.
func isServed(ctx context.Context, c *sql.Conn) (bool, error) {
	for end := time.Now().Add(endingTime); ; {
		var left, written, connected bool
		err := c.QueryRowContext(ctx, `SELECT EXISTS (SELECT FROM writer), EXISTS (SELECT FROM writer WHERE touched > now() - interval '1 minute'),
			EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
				AND application_name IN ('attestd', current_setting('application_name')))`).Scan(&left, &written, &connected)
		if err != nil || written || !left || !connected {
			return written, err
		}
		if time.Now().After(end) {
			return true, nil
		}
		if err := sleep.For(ctx, endingPause); err != nil {
			return false, err
		}
		// otherwise the list would not change
		if _, err := c.ExecContext(ctx, "SELECT pg_stat_clear_snapshot()"); err != nil {
			return false, err
		}
	}
}

func inUse(err error) error {
	var e *pgconn.PgError
	if errors.As(err, &e) && e.Code == "55P03" {
		return fmt.Errorf("%w: %w", ErrInUse, err)
	}
	return refusal(err)
}

// Fill creates our tables in an empty database and calls fn with the connection of that
// transaction, which commits after fn has returned nil. If fn fails or the process ends, nothing is
// left. If the answer to the commit is lost, the error says so. Fill returns ErrExists if our
// tables exist already; the other errors are those of Identify.
func Fill(ctx context.Context, db *sql.DB, fn func(*sql.Conn) error) error {
	return inTransaction(ctx, db, func(c *sql.Conn) error {
		if err := checkServer(ctx, c); err != nil {
			return refusal(err)
		}
		if _, err := c.ExecContext(ctx, "SELECT pg_advisory_xact_lock($1)", int64(schemaLock)); err != nil {
			return inUse(err)
		}
		switch _, err := identify(ctx, c); {
		case err == nil:
			return ErrExists
		case !errors.Is(err, ErrNotFound):
			return refusal(err)
		}
		// The usage of companies is copied like the other tables, and counting each agent again
		// would create a row version for each.
		if _, err := c.ExecContext(ctx, schema+"; ALTER TABLE agent DISABLE TRIGGER company_usage_agent_added"); err != nil {
			return refusal(err)
		}
		if err := fn(c); err != nil {
			return err
		}
		if _, err := c.ExecContext(ctx, "ALTER TABLE agent ENABLE TRIGGER company_usage_agent_added"); err != nil {
			return refusal(err)
		}
		if err := numberOn(ctx, c); err != nil {
			return refusal(err)
		}
		return commit(context.WithoutCancel(ctx), c)
	})
}

// numberOn advances each identity column beyond the largest existing value.
func numberOn(ctx context.Context, c *sql.Conn) error {
	var columns [][2]string
	err := each(ctx, c, func(rows *sql.Rows) error {
		var at [2]string
		err := rows.Scan(&at[0], &at[1])
		columns = append(columns, at)
		return err
	}, `SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = current_schema()
		AND is_identity = 'YES'`)
	for _, at := range columns {
		if err == nil {
			table, column := pgx.Identifier{at[0]}.Sanitize(), pgx.Identifier{at[1]}.Sanitize()
			_, err = c.ExecContext(ctx, fmt.Sprintf(`SELECT setval(pg_get_serial_sequence($1, $2), max(%s))
				FROM %s HAVING max(%[1]s) IS NOT NULL`, column, table), table, at[1])
		}
	}
	return err
}

// inTransaction calls fn on a connection with an open transaction, and rolls back unless fn has
// committed.
func inTransaction(ctx context.Context, db *sql.DB, fn func(*sql.Conn) error) error {
	c, err := db.Conn(ctx)
	if err != nil {
		return refusal(err)
	}
	defer c.Close()
	if err := checkPooler(ctx, db, c); err != nil {
		return refusal(err)
	}
	if _, err := c.ExecContext(ctx, "BEGIN; "+patient); err != nil {
		return refusal(err)
	}
	return fn(c)
}

func commit(ctx context.Context, c *sql.Conn) error {
	return onNative(c, func(native *pgx.Conn) error {
		tag, err := native.Exec(ctx, "COMMIT")
		switch {
		case err != nil:
			return fmt.Errorf("whether it was committed is not known, so look before you do it again: %w", refusal(err))
		case tag.String() != "COMMIT":
			return fmt.Errorf("%w: the server has rolled it back", ErrUnavailable)
		}
		return nil
	})
}

// Copy writes rows into a table with COPY, until next returns nil.
func Copy(ctx context.Context, c *sql.Conn, table string, columns []string, next func() ([]any, error)) error {
	return onNative(c, func(native *pgx.Conn) error {
		var unread error
		_, err := native.CopyFrom(ctx, pgx.Identifier{table}, columns, pgx.CopyFromFunc(func() (row []any, err error) {
			row, unread = next()
			return row, unread
		}))
		if unread != nil {
			return unread
		}
		return err
	})
}
