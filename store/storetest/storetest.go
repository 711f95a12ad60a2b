// Package storetest provides databases for the tests of all packages: files, or with
// ATTESTD_TEST_DB=postgres in the environment databases of a PostgreSQL server, so that one suite
// tests both engines. No product code imports it.
package storetest

import (
	"database/sql"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"attestd/internal/testenv"
	"attestd/store/postgres/pgtest"
)

// OnPostgres reports whether the tests run on PostgreSQL.
func OnPostgres() bool { return testenv.OnPostgreSQL() }

// folders maps the names of server databases to folders of their tests.
var folders sync.Map

// New returns the name of a new database, for --db and store.Open: a file that does not exist yet,
// or the URL of a database without tables, which is dropped with the test. On PostgreSQL TestMain
// MUST have called pgtest.Run.
func New(t testing.TB) string {
	t.Helper()
	testenv.DatabaseForRace(t)
	if OnPostgres() {
		return database(t, "")
	}
	return filepath.Join(t.TempDir(), "attestd.db")
}

// NewOnPostgres is New for tests that need PostgreSQL on either engine. They are not in the quick
// run.
func NewOnPostgres(t testing.TB) string {
	t.Helper()
	testenv.Needs(t, testenv.NotQuick)
	return database(t, "")
}

// Shared returns the URL of a new database on PostgreSQL for tests that are about it, such as those
// of several servers. They are not in the quick run.
func Shared(t testing.TB) string {
	t.Helper()
	testenv.Needs(t, testenv.NotQuick)
	return pgtest.Database(t)
}

// IsShared reports whether a database is one that several servers may have open: any on PostgreSQL
// that is not from New or Copy.
func IsShared(name string) bool {
	return strings.HasPrefix(name, "postgres://") && Heads(name) == ""
}

// AboutFile skips a test on PostgreSQL that is about a file: its locks, path and mode, its pages,
// copies and backups of it, or older schemas.
func AboutFile(t testing.TB) {
	t.Helper()
	NotOnPostgres(t, "is about a file")
}

// NotOnPostgres skips a test on PostgreSQL with a reason.
func NotOnPostgres(t testing.TB, why string) {
	t.Helper()
	if OnPostgres() {
		t.Skip(why)
	}
}

// Stranger opens a database as another program would, and runs SQLite's statements, which Statement
// converts for the other engine. All of one Stranger run on one connection.
func Stranger(t testing.TB, name string, statements ...string) *sql.DB {
	t.Helper()
	driver := "pgx"
	if !OnPostgres() {
		driver, name = "sqlite", (&url.URL{Scheme: "file", Path: filepath.ToSlash(name),
			RawQuery: "_busy_timeout=5000"}).String()
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

// Copy copies a database that is not open, and returns the name of the copy.
func Copy(t testing.TB, name string) string {
	t.Helper()
	if OnPostgres() {
		_, of := split(t, name)
		return database(t, "TEMPLATE "+of)
	}
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "attestd.db")
	if err := os.WriteFile(to, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return to
}

// Replace replaces a database by a copy of another one, as an operator does who restores a backup.
// Neither may be open.
func Replace(t testing.TB, name, by string) {
	t.Helper()
	if OnPostgres() {
		server, old := split(t, name)
		_, next := split(t, by)
		Stranger(t, server, "DROP DATABASE "+old, "CREATE DATABASE "+old+" TEMPLATE "+next)
		return
	}
	if err := os.Rename(by, name); err != nil {
		t.Fatal(err)
	}
}

// Heads returns the path of the head file of a database from New or Copy: next to a file, otherwise
// in the folder of its test. It returns "" for other server databases.
func Heads(name string) string {
	if folder, ok := folders.Load(name); ok {
		name = filepath.Join(folder.(string), "attestd")
	} else if strings.HasPrefix(name, "postgres://") {
		return ""
	}
	return name + ".heads"
}

func database(t testing.TB, options string) string {
	t.Helper()
	name := pgtest.DatabaseWith(t, options)
	folders.Store(name, t.TempDir())
	return name
}

// split returns the URL of a server, with a database that every server has, and the name of the
// database in a URL.
func split(t testing.TB, name string) (server, database string) {
	t.Helper()
	u, err := url.Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	database = strings.TrimPrefix(u.Path, "/")
	u.Path = "postgres"
	return u.String(), database
}

// Content returns the content of a database: the files of its folder, or the rows of its tables, by
// name.
func Content(t testing.TB, name string) map[string]string {
	t.Helper()
	all := map[string]string{}
	if !OnPostgres() {
		if err := fs.WalkDir(os.DirFS(filepath.Dir(name)), ".", func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.Type() != fs.ModeSocket && !entry.IsDir() {
				var content []byte
				content, err = os.ReadFile(filepath.Join(filepath.Dir(name), path))
				all[path] = string(content)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return all
	}
	db := Stranger(t, name)
	defer db.Close()
	for _, table := range column(t, db, "SELECT tablename FROM pg_tables WHERE schemaname = 'public'") {
		all[table] = strings.Join(column(t, db, "SELECT t::text FROM "+table+" t ORDER BY t"), "\n")
	}
	return all
}

func column(t testing.TB, db *sql.DB, query string) (values []string) {
	t.Helper()
	rows, err := db.Query(query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var value string
		if err := rows.Scan(&value); err != nil {
			t.Fatal(err)
		}
		values = append(values, value)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return values
}
