package sqlite_test

import (
	"path/filepath"
	"testing"

	"attestd/store/sqlite"
)

// Every mode syncs commits and checkpoints (2 is FULL). So do the modes that leave it to SQLite's
// default, for the last connection to be closed makes a checkpoint. All keep temporary data in
// memory (2).
func TestEveryModeSyncs(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	for _, mode := range []sqlite.Mode{sqlite.ModeWriter, sqlite.ModeReader, sqlite.ModeRead, sqlite.ModeEdit, sqlite.ModeCreate, sqlite.ModeRest} {
		db, err := sqlite.Open(path, mode)
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]int64{"synchronous": 2, "temp_store": 2, "foreign_keys": 1} {
			var got int64
			if err := db.QueryRow("PRAGMA " + name).Scan(&got); err != nil || got != want {
				t.Errorf("%s: %s is %d, %v; want %d", mode, name, got, err, want)
			}
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}
