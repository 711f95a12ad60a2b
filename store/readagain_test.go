package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"attestd/store/db"
	"attestd/store/sqlite"
)

// A single failed read while a database is opened does not count as damage, because the database is
// opened once more. Damage that remains does.
func TestSingleFailedReadIsNoDamage(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "damaged.db")
	content := append([]byte("SQLite format 3\x00\x10\x00\x01\x01\x00\x40\x20\x20"), make([]byte, 8192)...)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	damage := db.OnFile(context.Background(), path, sqlite.ModeRest, func(c *db.Conn) error {
		return c.One([]any{new(string)}, "SELECT name FROM sqlite_schema")
	})
	if !db.IsDamage(damage) || !errors.Is(damage, db.ErrCorrupt) {
		t.Fatalf("the file is read: %v", damage)
	}
	for failures, want := range []error{nil, nil, db.ErrCorrupt} {
		opened := 0
		s, err := readAgain(context.Background(), path, func() (*Store, error) {
			if opened++; opened <= failures {
				return nil, damage
			}
			return &Store{}, nil
		})
		if !errors.Is(err, want) || (err == nil) != (s != nil) || opened > 2 {
			t.Errorf("%d failures: %v after %d attempts", failures, err, opened)
		}
	}
}
