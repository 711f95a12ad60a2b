package postgres_test

import (
	"database/sql"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"attestd/store/postgres"
	"attestd/store/postgres/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Run(m)) }

// open opens a database until the test ends.
func open(t *testing.T, address string) *sql.DB {
	t.Helper()
	db, err := postgres.Open(address, new(atomic.Int64))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// created returns a new database with our tables, and its URL.
func created(t *testing.T) (*sql.DB, string) {
	t.Helper()
	t.Parallel()
	address := pgtest.Database(t)
	db := open(t, address)
	if err := postgres.Create(t.Context(), db, map[string]string{"service_name": "service", "trust_domain": "attestd.local"}); err != nil {
		t.Fatal(err)
	}
	return db, address
}

// with returns the URL for another user or with other parameters; "" leaves the user.
func with(t *testing.T, address, user, password string, parameters url.Values) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	if user != "" {
		u.User = url.UserPassword(user, password)
	}
	q := u.Query()
	for name, values := range parameters {
		q[name] = values
	}
	// PostgreSQL does not decode a plus as a space
	u.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20")
	return u.String()
}

// execute runs statements one after the other.
func execute(t *testing.T, db *sql.DB, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

func scan(t *testing.T, db *sql.DB, dest any, query string, args ...any) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), query, args...).Scan(dest); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

// everything returns the relations and functions in the catalog that are not the system's own, and
// all rows of the namespace public.
func everything(t *testing.T, db *sql.DB) (found string) {
	t.Helper()
	scan(t, db, &found, `SELECT concat((SELECT string_agg(concat(oid, ' ', relname, ' ', relfilenode, ' ', xmin), E'\n' ORDER BY oid) FROM pg_class WHERE oid >= 16384),
		(SELECT string_agg(concat(oid, ' ', proname), E'\n' ORDER BY oid) FROM pg_proc WHERE oid >= 16384), schema_to_xml('public', true, true, ''))`)
	return found
}
