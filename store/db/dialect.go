package db

import (
	"errors"
	"fmt"

	"attestd/chain"
	"attestd/store/postgres"
)

// dialect has the differences between the engines. All statements are written once, in SQL that
// both understand: with placeholders ? or ?1, and only those functions of SQLite that the
// PostgreSQL schema defines too.
type dialect struct {
	bind func(statement string) string
	// converts a string argument for a text column; nil if the engine accepts any string
	text func(s string) string
	// wraps an error in its sentinel, and reports whether it may have ended more than its statement
	judge func(err error) (named error, fatal bool)
	// returns the length of a chain that gets a new key, and makes extensions that were built with
	// the former key fail
	rekey string
	// returns length and bytes of a head, and locks it until the transaction ends
	holdHead string
	// sets the bytes of a head, and makes extensions that were built on the former ones fail
	recount string
	// begins a read-only transaction on one snapshot
	snapshot string
	// statements may wait for a network or a lock, so the driver watches the context. On a file,
	// watching would cost half of a short read, and statements are short.
	isRemote bool
}

var sqliteDialect = dialect{
	bind: func(statement string) string { return statement },
	judge: func(err error) (error, bool) {
		err = sentinel(err)
		return err, !IsConstraint(err) && !errors.Is(err, ErrNotFound)
	},
	rekey:    `SELECT length FROM head WHERE chain = ?`,
	holdHead: `SELECT length, bytes FROM head WHERE chain = ?`,
	recount:  `UPDATE head SET bytes = ? WHERE chain = ?`,
	snapshot: "BEGIN",
}

var postgresDialect = dialect{bind: postgres.Rebind, text: postgres.Text, judge: judgePostgres,
	rekey:    `UPDATE head SET epoch = epoch + 1 WHERE chain = ? RETURNING length`,
	holdHead: `SELECT length, bytes FROM head WHERE chain = ? FOR UPDATE`,
	recount:  `UPDATE head SET bytes = ?, epoch = epoch + 1 WHERE chain = ?`,
	snapshot: "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", isRemote: true}

// Rekey returns the length of a chain that gets a new key, or other limits. Extensions that were
// built before fail, on other servers too.
func (c *Conn) Rekey(chain int64) (length int64, err error) {
	err = c.One([]any{&length}, c.dialect.rekey, chain)
	return length, err
}

// HoldHead returns length and bytes of a head, and locks it until the transaction ends.
func (c *Conn) HoldHead(chain int64) (length, bytes int64, err error) {
	err = c.One([]any{&length, &bytes}, c.dialect.holdHead, chain)
	return length, bytes, err
}

// SetBytes sets the bytes of a head. Extensions that were built on the former ones fail.
func (c *Conn) SetBytes(chain, bytes int64) error {
	_, err := c.Exec(c.dialect.recount, bytes, chain)
	return err
}

// IsRemote reports whether other servers may write the database of the connection.
func (c *Conn) IsRemote() bool { return c.dialect.isRemote }

// arguments converts the strings among the arguments of a statement for the engine's text columns.
func (d *dialect) arguments(args []any) []any {
	if d.text == nil {
		return args
	}
	for i, a := range args {
		switch a := a.(type) {
		case string:
			args[i] = d.text(a)
		case *string:
			if a != nil {
				args[i] = d.text(*a)
			}
		}
	}
	return args
}

// judgePostgres calls an error fatal if it has ended the transaction in spite of savepoints, or the
// connection.
func judgePostgres(err error) (error, bool) {
	switch postgres.ClassOf(err) {
	case postgres.NoRows:
		return ErrNotFound, false
	case postgres.Again, postgres.ReadOnly, postgres.Lost:
		return fmt.Errorf("%w: %w: %w", chain.ErrTransactionLost, ErrUnavailable, err), true
	case postgres.Unavailable:
		return fmt.Errorf("%w: %w", ErrUnavailable, err), true
	case postgres.Corrupt:
		return fmt.Errorf("%w: %w", ErrCorrupt, err), true
	}
	return err, false
}

// PostgresSentinel wraps an error of package postgres in its sentinel.
func PostgresSentinel(err error) error {
	err, _ = judgePostgres(err)
	return err
}
