package pgtest_test

import (
	"os"
	"testing"

	"github.com/jackc/pgx/v5"

	"attestd/store/postgres/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Run(m)) }

// A database is empty and in UTF8, and no other test finds the rows that a test writes.
func TestDatabasesAreEmptyAndApart(t *testing.T) {
	for range 2 {
		db := connect(t, pgtest.Database(t))
		var encoding string
		var tables int
		if err := db.QueryRow(t.Context(), `SELECT current_setting('server_encoding'),
			(SELECT count(*) FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema'))`).Scan(&encoding, &tables); err != nil {
			t.Fatal(err)
		}
		if encoding != "UTF8" || tables != 0 {
			t.Fatalf("a new database is %s and has %d tables", encoding, tables)
		}
		execute(t, db, "CREATE TABLE written (n int)")
	}
}

// A database is removed at the end of its test, even while a client is connected to it.
func TestDatabaseIsDroppedAfterTest(t *testing.T) {
	var url string
	t.Run("inner", func(inner *testing.T) {
		url = pgtest.Database(inner)
		connect(t, url) // closed when the outer test ends
	})
	if db, err := pgx.Connect(t.Context(), url); err == nil {
		db.Close(t.Context())
		t.Fatal("the database of a test that has ended is still there")
	}
}

func TestDatabaseEncoding(t *testing.T) {
	db := connect(t, pgtest.DatabaseWith(t, "ENCODING 'SQL_ASCII' TEMPLATE template0"))
	var encoding string
	if err := db.QueryRow(t.Context(), "SHOW server_encoding").Scan(&encoding); err != nil || encoding != "SQL_ASCII" {
		t.Fatal(encoding, err)
	}
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	db, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close(t.Context()) })
	return db
}

func execute(t *testing.T, db *pgx.Conn, statement string, args ...any) {
	t.Helper()
	if _, err := db.Exec(t.Context(), statement, args...); err != nil {
		t.Fatal(err)
	}
}
