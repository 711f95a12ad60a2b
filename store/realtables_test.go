package store_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"attestd/internal/must"
	"attestd/store"
	"attestd/store/admin"
	"attestd/store/db"
	"attestd/store/storetest"
)

// A file whose tables are views, virtual tables or generated columns is refused before any of them
// is read: what it says to compute has no end.
func TestTablesThatComputeAreNotRead(t *testing.T) {
	t.Parallel()
	storetest.AboutFile(t)
	const endless = " AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x AS name, x AS value, x AS id, x AS chain FROM n"
	const without = "PRAGMA writable_schema = ON; DELETE FROM sqlite_schema WHERE tbl_name = "
	for name, hostile := range map[string]string{
		"setting":            without + "'setting'; PRAGMA writable_schema = RESET; CREATE VIEW setting" + endless,
		"company":            without + "'company'; PRAGMA writable_schema = RESET; CREATE VIEW Company" + endless,
		"head":               without + "'head'; PRAGMA writable_schema = RESET; CREATE VIEW head" + endless,
		"company_suspension": without + "'company_suspension'; PRAGMA writable_schema = RESET; CREATE VIEW company_suspension" + endless,
		"virtual":            without + "'checkpoint'; PRAGMA writable_schema = RESET; CREATE VIRTUAL TABLE checkpoint USING fts5(x)",
		"generated":          "ALTER TABLE agent ADD COLUMN more TEXT GENERATED ALWAYS AS (hex(zeroblob(400000000)))",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := storetest.New(t)
			s, err := store.Open(t.Context(), path, schema(t), store.Options{})
			must.OK(t, err)
			must.OK(t, s.Close())
			must.OK(t, storetest.Stranger(t, path, hostile).Close())
			limited, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			if _, err := db.Identify(limited, path); !errors.Is(err, store.ErrCorrupt) {
				t.Errorf("identified: %v", err)
			}
			if _, err := admin.Restore(limited, path, path+".new", schema(t), admin.RestoreOptions{At: time.Now()}); !errors.Is(err, store.ErrCorrupt) {
				t.Errorf("restored: %v", err)
			}
		})
	}
}
