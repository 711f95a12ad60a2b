package postgres

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"

	"github.com/jackc/pgx/v5/pgconn"
)

// Class is what an error says of the transaction that met it.
type Class int

const (
	Other      Class = iota
	NoRows           // there is no such row
	Constraint       // a statement was refused for what it says, and its transaction with it
	Duplicate        // the same, for a row that is there already
	Again            // the transaction was lost to another one, and may be done again
	ReadOnly         // the server has become a replica
	// the connection is gone, and nobody has said what became of a commit that was under way
	Lost
	Unavailable // the server has no room, or takes no writes
	Corrupt     // the server found its own files damaged
)

// ClassOf tells errors of pgx apart by SQLSTATE (PostgreSQL documentation, appendix A), never by
// text.
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
		// whatever the reason: a server that has failed in the middle of a COMMIT may find it done
		// when it recovers
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

// rolledBack says of the error of a COMMIT that the server has said so. Of anything else the
// outcome is not known.
func rolledBack(err error) bool {
	var e *pgconn.PgError
	return errors.Is(err, errFenced) || errors.Is(err, errNotOne) || errors.As(err, &e) && ClassOf(err) != Lost
}

// isLockTimeout says of an error that another transaction has held a row for too long.
func isLockTimeout(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && e.Code == "55P03"
}

// isLost says of an error that is not the server's whether it is of the connection.
func isLost(err error) bool {
	var network net.Error
	var connect *pgconn.ConnectError
	return errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) || errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &network) || errors.As(err, &connect) ||
		errors.Is(err, pgconn.ErrConnClosed)
}
