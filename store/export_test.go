package store

import (
	"context"

	"attestd/chain"
)

// Extend writes extensions as the log does, for tests of what the tables hold: all in one transaction.
func (s *Store) Extend(batch ...chain.Extension) error {
	return s.write(context.Background(), func(c *conn) error {
		tx := transaction{conn: c, w: s.storage.(*fileWriter)}
		for i := range batch {
			if err := tx.Extend(&batch[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// Pragma reads a setting of the connection that writes.
func (s *Store) Pragma(name string) (value int64, err error) {
	err = s.write(context.Background(), func(c *conn) error { return c.one([]any{&value}, "PRAGMA "+name) })
	return value, err
}

// Change makes a setting durable together with the records of drafts.
func (s *Store) Change(setting string, drafts ...chain.Draft) ([]chain.Record, error) {
	return s.change(context.Background(), func(c *conn) ([]chain.Draft, error) {
		_, err := c.exec("INSERT INTO setting (name, value) VALUES (?, '')", setting)
		return drafts, err
	})
}
