package postgres

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// Sentinel errors. All are returned wrapped; test with errors.Is.
var (
	ErrNotFound = errors.New("no database of attestd is there")
	ErrForeign  = errors.New("not an attestd database")    // left unchanged
	ErrNewer    = errors.New("written by a newer attestd") // left unchanged
	// left unchanged until it is migrated
	ErrOlder   = errors.New("written by an older attestd")
	ErrCorrupt = errors.New("database is corrupt")
	// the operator must first repair what the error describes
	ErrRefused     = errors.New("refused")
	ErrUnavailable = errors.New("storage unavailable") // no connection, or a lost one
	ErrReadOnly    = errors.New("the server takes no writes")
	ErrInUse       = errors.New("database in use") // attestd servers are running on it
	ErrExists      = errors.New("a database of attestd is there already")
)

// inOneLine is an error of the driver, whose text has a line for each address that it has tried.
type inOneLine struct{ error }

func (e inOneLine) Error() string { return strings.Join(strings.Fields(e.error.Error()), " ") }

func (e inOneLine) Unwrap() error { return e.error }

// refusal wraps an error of opening, creating or migrating a database in its sentinel. It
// classifies by SQLSTATE, never by text.
func refusal(err error) error {
	named := []error{nil, ErrRefused, ErrUnavailable, ErrForeign, ErrNewer, ErrOlder, ErrNotFound, ErrCorrupt, ErrInUse}
	if slices.ContainsFunc(named, func(sentinel error) bool { return errors.Is(err, sentinel) }) {
		return err
	}
	err = inOneLine{err}
	var connect *pgconn.ConnectError
	var answer *pgconn.PgError
	if !errors.As(err, &answer) {
		if errors.Is(err, ErrReadOnly) {
			return fmt.Errorf("%w: %w", ErrRefused, err)
		}
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	switch class := answer.Code[:min(2, len(answer.Code))]; {
	case answer.Code == "25006", answer.Code == "42501", class == "28", class == "3D":
		// read-only, no privilege, authorization failed, no such database
		return fmt.Errorf("%w: %w", ErrRefused, err)
	case class != "22" && class != "23" && class != "42" && answer.Code != "08P01":
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	case errors.As(err, &connect):
		// a setting of the connection that a pooler or another engine does not know
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return err // an error of a statement
}
