package postgres

import (
	"context"
	"database/sql"
	_ "embed" // schema.sql
	"errors"
	"fmt"
)

//go:embed schema.sql
var schema string

// schemaLock is the advisory lock for creating or changing a schema.
const schemaLock = 0x61747374_00000001 // "atst" and a number

// Create creates our tables in an empty database, with settings, in one transaction. Of two
// concurrent calls, the second finds the tables and changes nothing, so the caller MUST call
// Identify afterwards. ErrForeign, ErrRefused and ErrUnavailable are as in Identify.
func Create(ctx context.Context, db *sql.DB, settings map[string]string) error {
	err := underLock(ctx, db, func(tx *sql.Tx) error {
		_, err := identify(ctx, tx)
		if !errors.Is(err, ErrNotFound) {
			return err
		}
		if _, err := tx.ExecContext(ctx, schema); err != nil {
			return err
		}
		for name, value := range settings {
			if _, err := tx.ExecContext(ctx, "INSERT INTO setting (name, value) VALUES ($1, $2)", name, value); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("create the tables: %w", refusal(err))
	}
	return nil
}

// Change calls fn in a transaction on a connection, and commits it. It is serialized with the
// changes of rows of running servers: see Writer.Begin.
func Change(ctx context.Context, c *sql.Conn, fn func() error) error {
	if _, err := c.ExecContext(ctx, "BEGIN"); err != nil {
		return refusal(err)
	}
	_, err := c.ExecContext(ctx, "SELECT pg_advisory_xact_lock($1)", int64(changesLock))
	if err != nil {
		err = refusal(err)
	} else {
		err = fn()
	}
	if err != nil {
		// a connection that is lost has rolled back
		_, _ = c.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
		return err
	}
	if _, err := c.ExecContext(ctx, "COMMIT"); err != nil {
		return refusal(err)
	}
	return nil
}

// underLock calls fn in a transaction and commits it. All transactions that create or change a
// schema are serialized.
func underLock(ctx context.Context, db *sql.DB, fn func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // no effect after the commit
	if err := checkServer(ctx, tx); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock($1)", int64(schemaLock)); err != nil {
		return err
	}
	if err := fn(tx); err != nil {
		return err
	}
	return tx.Commit()
}
