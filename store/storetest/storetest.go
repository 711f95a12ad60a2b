// Package storetest gives the tests of all packages the databases that they run on: files, or with ATTESTD_TEST_DB=postgres in the environment databases of a PostgreSQL
// server, so that one suite shows the same of both engines. No product code imports it.
package storetest

import (
	"database/sql"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"attestd/store/postgres/pgtest"
)

// OnPostgres says whether the tests run on PostgreSQL.
func OnPostgres() bool { return os.Getenv("ATTESTD_TEST_DB") == "postgres" }

// New names a new database, for --db and store.Open: a file that is not there yet, or the URL of a database without tables, which lasts as long as the test. On PostgreSQL
// TestMain must have called pgtest.Run.
func New(t testing.TB) string {
	t.Helper()
	if OnPostgres() {
		return pgtest.Database(t)
	}
	return filepath.Join(t.TempDir(), "attestd.db")
}

// AboutFile skips a test on PostgreSQL that shows what only a file has: its locks, its place and mode, its pages, copies and backups of it, the schemas of
// former versions.
func AboutFile(t testing.TB) {
	t.Helper()
	NotOnPostgres(t, "is about a file")
}

// NotOnPostgres skips a test on PostgreSQL, and says why it cannot hold there.
func NotOnPostgres(t testing.TB, why string) {
	t.Helper()
	if OnPostgres() {
		t.Skip(why)
	}
}

// Stranger opens a database as another program would, and runs statements: those of SQLite, of which Statement makes the other engine's. All of one Stranger run on one
// connection.
func Stranger(t testing.TB, name string, statements ...string) *sql.DB {
	t.Helper()
	driver := "pgx"
	if !OnPostgres() {
		driver, name = "sqlite", (&url.URL{Scheme: "file", Path: filepath.ToSlash(name), RawQuery: "_busy_timeout=5000"}).String()
	}
	db, err := sql.Open(driver, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if OnPostgres() {
		db.SetMaxOpenConns(1)
	}
	for _, s := range statements {
		if _, err := db.Exec(Statement(s)); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
	return db
}
