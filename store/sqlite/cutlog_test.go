package sqlite_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"attestd/store/sqlite"
)

// A write-ahead log that a reader uses is not truncated, and a caller who waits for that can leave.
func TestWALIsNotTruncatedDuringRead(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	if err := sqlite.Create(t.Context(), path, "CREATE TABLE setting (name TEXT, value TEXT)", map[string]string{"a": "b"}); err != nil {
		t.Fatal(err)
	}
	db, err := sqlite.Open(path, sqlite.ModeWriter)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("INSERT INTO setting VALUES ('b', 'c')"); err != nil {
		t.Fatal(err)
	}
	readers, err := sqlite.Open(path, sqlite.ModeReader)
	if err != nil {
		t.Fatal(err)
	}
	defer readers.Close()
	read, err := readers.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	if _, err := read.ExecContext(t.Context(), "BEGIN"); err != nil {
		t.Fatal(err)
	}
	if err := read.QueryRowContext(t.Context(), "SELECT count(*) FROM setting").Scan(new(int)); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("INSERT INTO setting VALUES ('c', 'd')"); err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- sqlite.CutLog(ctx, path) }()
	leave()
	if err := <-ended; !errors.Is(err, sqlite.ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("of a log that is read: %v", err)
	}
	if _, err := read.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if err := sqlite.CutLog(t.Context(), path); err != nil {
		t.Errorf("of one that nobody reads: %v", err)
	}
}
