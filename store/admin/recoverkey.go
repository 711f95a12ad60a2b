package admin

import (
	"context"
	"errors"
	"time"

	"attestd/crypto/seal"
	"attestd/store"
	"attestd/store/db"
	"attestd/store/sqlite"
)

// RecoverKey is Store.Credentials.RecoverKey for the command line, on the database at path, which a
// server may have open. If the control record cannot be written now, it is left for the next start
// of the server. If even that is impossible, for example on read-only media, RecoverKey returns the
// key together with the reason, because anyone who can read the file has the key anyway.
func RecoverKey(
	ctx context.Context, path, schema, companyID string, master *seal.Master, at time.Time,
) (key store.APIKey, notRecorded error, err error) {
	s, err := store.OpenReadOnly(ctx, path)
	if err != nil {
		return store.APIKey{}, nil, err
	}
	if err = s.Unseal(master); err == nil {
		key, err = s.Credentials.FirstKey(ctx, companyID)
	}
	upToDate := s.UpToDate()
	if err = errors.Join(err, s.Close()); err != nil {
		return store.APIKey{}, nil, err
	}
	if !upToDate {
		return key, errors.New("the database is of an older schema, which has to be upgraded first"), nil
	}
	notRecorded = recordKeyAt(ctx, path, schema, companyID, master, at)
	if errors.Is(notRecorded, store.ErrInUse) && !db.IsPostgres(path) {
		notRecorded = leaveKeyAt(ctx, path, companyID, key, at)
	}
	return key, notRecorded, nil
}

// recordKeyAt appends the record in a database that no server has open, or that several servers may
// share.
func recordKeyAt(ctx context.Context, path, schema, companyID string, master *seal.Master, at time.Time) error {
	s, err := store.Open(ctx, path, schema, store.Options{Master: master})
	if err != nil {
		return err
	}
	return Run(ctx, s, store.RunOptions{}, func() error {
		_, err := s.Credentials.RecoverKey(ctx, companyID, store.RecoveredByCommand, at)
		return err
	})
}

// leaveKeyAt leaves the record for the next start, while a server has the file open.
func leaveKeyAt(ctx context.Context, path, companyID string, key store.APIKey, at time.Time) error {
	path, err := db.Absolute(path)
	if err != nil {
		return err
	}
	return db.OnFile(ctx, path, sqlite.ModeEdit, func(c *db.Conn) error {
		if _, err := c.Exec("BEGIN IMMEDIATE"); err != nil {
			return err
		}
		u := store.UnrecordedKey(companyID, key, store.RecoveredByCommand)
		u.Details["shownAt"] = at.UTC().Format(time.RFC3339)
		err := store.LeaveUnrecorded(c, u)
		if err == nil {
			_, err = c.Exec("COMMIT")
		}
		return err // closing the connection rolls back
	})
}
