package postgres

import (
	"errors"
	"fmt"
	"strings"

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
)

// refusal puts the sentinel that an error of opening, creating or migrating a database stands for in front of it. It goes by SQLSTATE, never by text.
func refusal(err error) error {
	if err == nil || is(err, ErrRefused, ErrUnavailable, ErrForeign, ErrNewer, ErrOlder, ErrNotFound, ErrCorrupt) {
		return err
	}
	var e *pgconn.PgError
	switch {
	case errors.Is(err, ErrReadOnly):
		return fmt.Errorf("%w: %w", ErrRefused, err)
	case !errors.As(err, &e):
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	case e.Code == "25006", e.Code == "42501", strings.HasPrefix(e.Code, "28"), strings.HasPrefix(e.Code, "3D"): // takes no writes; no privilege; not let in; no such database
		return fmt.Errorf("%w: %w", ErrRefused, err)
	case strings.HasPrefix(e.Code, "22"), strings.HasPrefix(e.Code, "23"), strings.HasPrefix(e.Code, "42"): // what a statement says is wrong
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

func is(err error, sentinels ...error) bool {
	for _, s := range sentinels {
		if errors.Is(err, s) {
			return true
		}
	}
	return false
}
