package postgres

import (
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"
)

// Sentinels. All are wrapped with context; test with errors.Is.
var (
	ErrNotFound    = errors.New("no database of attestd is there")
	ErrForeign     = errors.New("not an attestd database")     // left as it was
	ErrNewer       = errors.New("written by a newer attestd")  // likewise
	ErrOlder       = errors.New("written by an older attestd") // likewise, until it is migrated
	ErrCorrupt     = errors.New("database is corrupt")
	ErrRefused     = errors.New("refused")             // what it says is to be mended first
	ErrUnavailable = errors.New("storage unavailable") // no connection, or one that was lost
	ErrReadOnly    = errors.New("the server takes no writes")
	ErrInUse       = errors.New("database in use") // servers of ours run on it
	ErrExists      = errors.New("a database of attestd is there already")
)

// refusal puts the sentinel that an error of opening, creating or migrating a database stands for
// in front of it. It goes by SQLSTATE, never by text.
func refusal(err error) error {
	named := []error{nil, ErrRefused, ErrUnavailable, ErrForeign, ErrNewer, ErrOlder, ErrNotFound, ErrCorrupt, ErrInUse}
	if slices.ContainsFunc(named, func(sentinel error) bool { return errors.Is(err, sentinel) }) {
		return err
	}
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
		// takes no writes, no privilege, not let in, no such database
		return fmt.Errorf("%w: %w", ErrRefused, err)
	case class != "22" && class != "23" && class != "42" && answer.Code != "08P01":
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	case errors.As(err, &connect):
		// a setting that every connection begins with, which a pooler or another engine does not
		// know
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return err // what a statement says
}
