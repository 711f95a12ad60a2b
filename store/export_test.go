package store

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"attestd/chain"
	"attestd/store/db"
	"attestd/store/postgres"
)

// IssueTo issues an access token to a client with its secret.
func (s Credentials) IssueTo(ctx context.Context, clientID, secret string, lifetime time.Duration, now time.Time) (token string, ends time.Time, err error) {
	client, err := s.AuthenticateClient(ctx, clientID, secret, now)
	if err != nil {
		return "", time.Time{}, err
	}
	return s.IssueToken(ctx, client, TokenGrant{}, lifetime)
}

// Extend writes extensions in one transaction, as the log does, for tests of the tables' content.
func (s *Store) Extend(batch ...chain.Extension) error {
	if s.MultiWriter() {
		return s.extendServer(batch)
	}
	return s.write(context.Background(), func(c *db.Conn) error {
		tx := transaction{Conn: c, w: s.storage.(*fileWriter)}
		for i := range batch {
			if err := tx.Extend(&batch[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// extendServer extends as a second server would that has nothing else to write.
func (s *Store) extendServer(batch []chain.Extension) error {
	w := newPGWriter(postgres.NewWriter(s.closing, s.Pool(), new(atomic.Int64)), postgres.NewWatch(s.Pool()), s.Secrets(), new(lastUsed), newNameDoubt())
	defer w.close()
	err := w.extend(batch)
	if errors.Is(err, chain.ErrAgain) {
		err = w.extend(batch) // an error about a row beyond the head is returned later
	}
	if errors.Is(err, chain.ErrAgain) {
		err = fmt.Errorf("%w: %w", chain.ErrStale, err)
	}
	return err
}

func (w *pgWriter) extend(batch []chain.Extension) error {
	tx, _, err := w.Begin(time.Now())
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := w.changing(); err != nil {
		return err
	}
	var chains []int64
	for i := range batch {
		chains = append(chains, batch[i].Chain)
	}
	for i, b := range tx.Bases(chains) {
		batch[i].Epoch = b.Epoch
		if err := tx.Extend(&batch[i]); err != nil {
			return err
		}
	}
	_, err = tx.Commit()
	return err
}

// Pragma reads a setting of the writer's connection.
func (s *Store) Pragma(name string) (value int64, err error) {
	err = s.write(context.Background(), func(c *db.Conn) error { return c.One([]any{&value}, "PRAGMA "+name) })
	return value, err
}

// ChangeSetting makes a setting durable together with the records of drafts.
func (s *Store) ChangeSetting(setting string, drafts ...chain.Draft) ([]chain.Record, error) {
	return s.change(context.Background(), func(c *db.Conn) ([]chain.Draft, error) {
		_, err := c.Exec("INSERT INTO setting (name, value) VALUES (?, '')", setting)
		return drafts, err
	})
}

// KnownSize is how long a log is as far as a server remembers it for a comparison after a lost
// connection.
func (s *Store) KnownSize(number int64) int64 { return s.heads.pinned([]int64{number})[number].to.Size }
