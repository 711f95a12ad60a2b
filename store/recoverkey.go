package store

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"attestd/crypto/keys"
	"attestd/crypto/seal"
	"attestd/store/sqlite"
)

// Ways in which a key is shown again, as its control record names them.
const (
	RecoveredByHTTP    = "http"
	RecoveredByCommand = "command line"
)

// RecoverKey returns the oldest API key of a company, and records in its control log that it was
// shown, and by which way. ErrNotFound; without the record there is no key.
func (s *Store) RecoverKey(ctx context.Context, companyID, via string, at time.Time) (APIKey, error) {
	key, err := s.FirstKey(ctx, companyID)
	if err != nil {
		return APIKey{}, err
	}
	c, err := s.Company(ctx, companyID)
	if err != nil {
		return APIKey{}, err
	}
	if err = s.HaltedChain(c.Control.Chain); err == nil {
		err = s.recorded(ctx, Caller{Company: c, At: at}, s.change, func(*conn) ([]controlEvent, error) {
			u := unrecordedKey(companyID, key, via)
			return []controlEvent{{u.Action, u.Subject, u.Details}}, nil
		})
	}
	if err != nil {
		return APIKey{}, fmt.Errorf("record that a key of company %q is shown: %w", companyID, err)
	}
	return key, nil
}

func unrecordedKey(companyID string, key APIKey, via string) unrecorded {
	fingerprint := keys.Fingerprint(sha256.Sum256([]byte(key.Key)))
	return unrecorded{Action: APIKeyRecovered, Company: companyID, Subject: subjectRecovery(fingerprint), Details: map[string]any{"fingerprint": fingerprint, "via": via}}
}

// RecoverKeyAt is RecoverKey for the command line: of the database at path, which a server may have
// open. Where the record cannot be made now it is left for the next start of the server; where not
// even that can be written, as on read-only media, the key is returned with the reason, for whoever
// reads the file has the key.
func RecoverKeyAt(ctx context.Context, path, schema, companyID string, master *seal.Master, at time.Time) (key APIKey, notRecorded error, err error) {
	s, err := OpenReadOnly(ctx, path)
	if err != nil {
		return APIKey{}, nil, err
	}
	if err = s.Unseal(master); err == nil {
		key, err = s.FirstKey(ctx, companyID)
	}
	upToDate := s.UpToDate()
	if err = errors.Join(err, s.Close()); err != nil {
		return APIKey{}, nil, err
	}
	if !upToDate {
		return key, errors.New("the database is of an older schema, which has to be upgraded first"), nil
	}
	notRecorded = recordKeyAt(ctx, path, schema, companyID, master, at)
	if errors.Is(notRecorded, ErrInUse) && !IsServer(path) {
		notRecorded = leaveKeyAt(ctx, path, companyID, key, at)
	}
	return key, notRecorded, nil
}

// recordKeyAt makes the record in a database that nobody else has open, or that others may have
// open too.
func recordKeyAt(ctx context.Context, path, schema, companyID string, master *seal.Master, at time.Time) (err error) {
	s, err := Open(ctx, path, schema, Options{Master: master})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	go s.Run(ctx, RunOptions{}) // until s is closed
	_, err = s.RecoverKey(ctx, companyID, RecoveredByCommand, at)
	return err
}

// leaveKeyAt leaves the record to the next start, beside the server that has the file open.
func leaveKeyAt(ctx context.Context, path, companyID string, key APIKey, at time.Time) error {
	path, err := absolute(path)
	if err != nil {
		return err
	}
	return onFile(ctx, path, sqlite.ModeEdit, func(c *conn) error {
		if _, err := c.exec("BEGIN IMMEDIATE"); err != nil {
			return err
		}
		u := unrecordedKey(companyID, key, RecoveredByCommand)
		u.Details["shownAt"] = at.UTC().Format(time.RFC3339)
		err := leaveUnrecorded(c, u)
		if err == nil {
			_, err = c.exec("COMMIT")
		}
		return err // whose connection is closed, which rolls back
	})
}
