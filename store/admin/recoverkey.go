package admin

import (
	"context"
	"errors"
	"time"

	"attestd/crypto/seal"
	"attestd/store"
	"attestd/store/sqlite"
)

// RecoverKey is Store.Credentials.RecoverKey for the command line: of the database at path, which a
// server may have open. Where the record cannot be made now it is left for the next start of the
// server; where not even that can be written, as on read-only media, the key is returned with the
// reason, for whoever reads the file has the key.
func RecoverKey(ctx context.Context, path, schema, companyID string, master *seal.Master, at time.Time) (key store.APIKey, notRecorded error, err error) {
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
	if errors.Is(notRecorded, store.ErrInUse) && !store.IsPostgres(path) {
		notRecorded = leaveKeyAt(ctx, path, companyID, key, at)
	}
	return key, notRecorded, nil
}

// recordKeyAt makes the record in a database that nobody else has open, or that others may have
// open too.
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

// leaveKeyAt leaves the record to the next start, beside the server that has the file open.
func leaveKeyAt(ctx context.Context, path, companyID string, key store.APIKey, at time.Time) error {
	path, err := store.Absolute(path)
	if err != nil {
		return err
	}
	return store.OnFile(ctx, path, sqlite.ModeEdit, func(c store.Conn) error {
		if _, err := c.Exec("BEGIN IMMEDIATE"); err != nil {
			return err
		}
		u := store.UnrecordedKey(companyID, key, store.RecoveredByCommand)
		u.Details["shownAt"] = at.UTC().Format(time.RFC3339)
		err := store.LeaveUnrecorded(c, u)
		if err == nil {
			_, err = c.Exec("COMMIT")
		}
		return err // whose connection is closed, which rolls back
	})
}
