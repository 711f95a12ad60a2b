package postgres

import (
	"context"
	"database/sql"
	_ "embed"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

//go:embed schema.sql
var schema string

// Open prepares to connect to the database that a URL names. notes counts the warnings that its servers send.
func Open(url string, notes *atomic.Int64) (*sql.DB, error) {
	c, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	c.RuntimeParams["application_name"] = "attestd"
	c.RuntimeParams["idle_in_transaction_session_timeout"] = "3000"
	c.RuntimeParams["default_transaction_isolation"] = "read committed"
	c.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		if n.SeverityUnlocalized == "WARNING" {
			notes.Add(1)
		}
	}
	db := stdlib.OpenDB(*c)
	db.SetMaxIdleConns(0)
	return db, nil
}

// Create is for now.
func Create(ctx context.Context, db *sql.DB, settings map[string]string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	c := 0
	if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM pg_tables WHERE tablename = 'setting'`).Scan(&c); err != nil || c > 0 {
		return err
	}
	if _, err := tx.ExecContext(ctx, schema); err != nil {
		return err
	}
	for name, value := range settings {
		if _, err := tx.ExecContext(ctx, `INSERT INTO setting (name, value) VALUES ($1, $2)`, name, value); err != nil {
			return err
		}
	}
	return tx.Commit()
}
