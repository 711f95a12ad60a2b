package store

import (
	"context"
	"time"

	"attestd/chain"
	"attestd/store/db"
)

// IssueTo issues an access token to a client with its secret.
func (s Credentials) IssueTo(ctx context.Context, clientID, secret string, lifetime time.Duration, now time.Time) (token string, ends time.Time, err error) {
	client, err := s.AuthenticateClient(ctx, clientID, secret, now)
	if err != nil {
		return "", time.Time{}, err
	}
	return s.IssueToken(ctx, client, TokenGrant{}, lifetime)
}

// Pragma reads a setting of the writer's connection.
func (s *Store) Pragma(name string) (value int64, err error) {
	err = s.Write(context.Background(), func(c *db.Conn) error { return c.One([]any{&value}, "PRAGMA "+name) })
	return value, err
}

// ChangeSetting makes a setting durable together with the records of drafts.
func (s *Store) ChangeSetting(setting string, drafts ...chain.Draft) ([]chain.Record, error) {
	return s.Change(context.Background(), func(c *db.Conn) ([]chain.Draft, error) {
		_, err := c.Exec("INSERT INTO setting (name, value) VALUES (?, '')", setting)
		return drafts, err
	})
}

// KnownSize is how long a log is as far as a server remembers it for a comparison after a lost
// connection.
func (s *Store) KnownSize(number int64) int64 {
	return s.Rollback.head.heads.pinned([]int64{number})[number].to.Size
}
