package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// Each class contains a real error of the driver, however it is wrapped.
func TestClasses(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "a.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	db := open(t, path, ModeWriter)
	must := func(statement string) {
		t.Helper()
		if _, err := db.ExecContext(ctx, statement); err != nil {
			t.Fatal(err)
		}
	}
	must("CREATE TABLE t (id INTEGER PRIMARY KEY, u TEXT UNIQUE, n TEXT NOT NULL) STRICT")
	must("INSERT INTO t VALUES (1, 'a', 'a')")
	exec := func(statement string) error { _, err := db.ExecContext(ctx, statement); return err }

	notOne := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(notOne, []byte("This is a text of someone, and is long enough to be read as the header of a database, were it one of SQLite's own."), 0o600); err != nil {
		t.Fatal(err)
	}
	read := func(path string, mode Mode) error {
		return open(t, path, mode).QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema").Scan(new(int))
	}
	full := open(t, path, ModeEdit+"&_pragma=max_page_count(1)")
	_, noRoom := full.ExecContext(ctx, "INSERT INTO t VALUES (9, 'z', hex(randomblob(100000)))")

	for name, test := range map[string]struct {
		err        error
		want       Class
		rolledBack bool
	}{
		"none":                  {nil, None, false},
		"of somebody else":      {errors.New("disk I/O error"), None, false},
		"no row":                {db.QueryRowContext(ctx, "SELECT id FROM t WHERE id = 2").Scan(new(int)), NoRows, false},
		"no table":              {exec("SELECT * FROM none"), Other, false},
		"a missing value":       {exec("INSERT INTO t VALUES (2, 'b', NULL)"), Constraint, false},
		"a key that is there":   {exec("INSERT INTO t VALUES (1, 'b', 'b')"), Duplicate, false},
		"a value that is there": {exec("INSERT INTO t VALUES (2, 'a', 'b')"), Duplicate, false},
		"a reader that writes":  {func() error { _, err := open(t, path, ModeReader).ExecContext(ctx, "DELETE FROM t"); return err }(), Unavailable, false},
		"no file":               {read(path+".none", ModeRead), Unavailable, false},
		"no room":               {noRoom, Full, true},
		"no database":           {read(notOne, ModeRead), Corrupt, false},
		"a lock":                {locked(t, path), Busy, true},
	} {
		if class := ClassOf(test.err); class != test.want || class != None && ClassOf(fmt.Errorf("wrapped: %w", test.err)) != class {
			t.Errorf("%s: class %d, want %d: %v", name, class, test.want, test.err)
		}
		if RolledBack(test.err) != test.rolledBack {
			t.Errorf("%s: rolled back: %v", name, !test.rolledBack)
		}
	}
}

// locked returns the error of a writer while another one is writing.
func locked(t *testing.T, path string) error {
	t.Helper()
	tx, err := open(t, path, ModeWriter).Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	c, err := open(t, path, ModeWriter).Conn(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.ExecContext(context.Background(), "PRAGMA busy_timeout = 0"); err != nil {
		t.Fatal(err)
	}
	_, err = c.ExecContext(context.Background(), "BEGIN IMMEDIATE")
	return err
}

func open(t *testing.T, path string, mode Mode) *sql.DB {
	t.Helper()
	db, err := Open(path, mode)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}
