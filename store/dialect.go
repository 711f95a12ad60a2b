package store

import (
	"errors"
	"fmt"

	"attestd/chain"
	"attestd/store/postgres"
)

// dialect is what the connections of an engine have of their own. All statements are written once,
// in what both understand: placeholders ? or ?1, and of SQLite's functions those that the other
// schema defines too.
type dialect struct {
	bind func(statement string) string
	// an argument as a column of text can hold it; nil where that holds anything
	text func(s string) string
	// puts the sentinel in front of an error, and says whether it cost more than its statement
	judge func(err error) (named error, fatal bool)
	// returns the length of a chain that gets another key; what was built with the former one comes
	// too late then
	rekey string
	// begins a transaction that reads at one moment
	snapshot string
	// a statement may wait for a network or a lock, so the driver watches its context; in a file
	// that costs half as much as a short read, and statements are short
	isRemote bool
}

var sqliteDialect = dialect{
	bind: func(statement string) string { return statement },
	judge: func(err error) (error, bool) {
		err = sentinel(err)
		return err, !isConstraint(err) && !errors.Is(err, ErrNotFound)
	},
	rekey:    `SELECT length FROM head WHERE chain = ?`,
	snapshot: "BEGIN",
}

var postgresDialect = dialect{bind: postgres.Rebind, text: postgres.Text, judge: judgePostgres, rekey: `UPDATE head SET epoch = epoch + 1 WHERE chain = ? RETURNING length`,
	snapshot: "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", isRemote: true}

// arguments makes text of an engine's kind of the strings among the arguments of a statement.
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

// judgePostgres calls fatal what has cost the transaction whatever its savepoints, or the
// connection.
func judgePostgres(err error) (error, bool) {
	switch postgres.ClassOf(err) {
	case postgres.NoRows:
		return ErrNotFound, false
	case postgres.Again, postgres.ReadOnly, postgres.Lost:
		return fmt.Errorf("%w: %w: %w", chain.ErrAgain, ErrUnavailable, err), true
	case postgres.Unavailable:
		return fmt.Errorf("%w: %w", ErrUnavailable, err), true
	case postgres.Corrupt:
		return fmt.Errorf("%w: %w", ErrCorrupt, err), true
	}
	return err, false
}
