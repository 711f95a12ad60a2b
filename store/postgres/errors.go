package postgres

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"

	"github.com/jackc/pgx/v5/pgconn"
)

// Class is what an error means for its transaction.
type Class int

const (
	Other      Class = iota
	NoRows           // no row was found
	Constraint       // a statement violated a constraint, which ends its transaction
	Duplicate        // the same, because a row exists already
	Again            // the transaction conflicted with another one, and may be retried
	ReadOnly         // the server has become a replica
	// the connection was lost, and the outcome of a running commit is unknown
	Lost
	Unavailable // the server has no room, or accepts no writes
	Corrupt     // the server found damage in its files
)

// ClassOf classifies errors of pgx by SQLSTATE (PostgreSQL documentation, appendix A), never by
// their text.
func ClassOf(err error) Class {
	if errors.Is(err, sql.ErrNoRows) { // pgx.ErrNoRows wraps it
		return NoRows
	}
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		if isLost(err) {
			return Lost
		}
		return Other
	}
	var connect *pgconn.ConnectError
	if fatal := e.SeverityUnlocalized == "FATAL" || e.SeverityUnlocalized == "PANIC"; fatal && !errors.As(err, &connect) {
		// for any reason: a server that fails during a COMMIT may have completed it when it
		// recovers
		return Lost
	}
	switch e.Code {
	case "23505":
		return Duplicate
	case "40001", "40P01", "55P03": // serialization, deadlock, lock not available
		return Again
	case "25006":
		return ReadOnly
	case "25P03", "40003", "57P01", "57P02", "57P03", "57P05":
		return Lost
	case "XX001", "XX002":
		return Corrupt
	}
	switch e.Code[:min(2, len(e.Code))] {
	case "23":
		return Constraint
	case "08":
		return Lost
	case "53", "58", "57", "28", "3D":
		// resources, the system, an operator, authorization, no such database
		return Unavailable
	}
	return Other
}

// rolledBack reports whether the server has reported that a COMMIT was rolled back. Otherwise the
// outcome is unknown.
func rolledBack(err error) bool {
	var e *pgconn.PgError
	return errors.Is(err, errFenced) || errors.Is(err, errNotOne) || errors.As(err, &e) && ClassOf(err) != Lost
}

// isLockTimeout reports whether another transaction has held a lock for too long.
func isLockTimeout(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && e.Code == "55P03"
}

// isLost reports whether an error that is not from the server is from the connection.
func isLost(err error) bool {
	var network net.Error
	var connect *pgconn.ConnectError
	return errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &network) ||
		errors.As(err, &connect) ||
		errors.Is(err, pgconn.ErrConnClosed)
}
