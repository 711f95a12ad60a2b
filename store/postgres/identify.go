package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// oldestServer is the oldest supported PostgreSQL, as server_version_num.
const oldestServer = 150000

// Version is the number of the schema that this program makes. It is that of store: a change of one
// engine alone counts in both.
const Version = 24

// The names in the table setting that this package uses.
const (
	versionSetting    = "schema"            // schema version
	compatibleSetting = "schema_compatible" // oldest Version whose programs may use the schema
)

// Database describes a database.
type Database struct {
	Namespace string // PostgreSQL schema that contains the tables
	// schema version; greater than this program's if a newer one has prepared a compatible schema
	Version  int
	Settings map[string]string // content of the table setting
}

// querier is a connection or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Identify examines a database without changing it. Its errors are:
//
//   - ErrNotFound: the database is empty, so Create may be called
//   - ErrForeign: it has tables of something else
//   - ErrOlder, ErrNewer: it is ours, and this program cannot use its schema
//   - ErrRefused: this program does not support the server, or the role may not read; the error
//     says why
//   - ErrUnavailable: no connection
func Identify(ctx context.Context, db *sql.DB) (*Database, error) {
	c, err := db.Conn(ctx)
	if err != nil {
		return nil, refusal(err)
	}
	defer c.Close()
	if err := checkPooler(ctx, db, c); err != nil {
		return nil, refusal(err)
	}
	return usable(ctx, c)
}

// usable implements Identify on one connection.
func usable(ctx context.Context, q querier) (*Database, error) {
	err := checkServer(ctx, q)
	if err != nil {
		return nil, refusal(err)
	}
	found, err := identify(ctx, q)
	if err == nil {
		err = found.check()
	}
	if err != nil {
		return nil, refusal(err)
	}
	return found, nil
}

// checkServer refuses unsupported servers. The first query decides whether the others are possible.
func checkServer(ctx context.Context, q querier) error {
	var version string
	if err := q.QueryRowContext(ctx, "SELECT version()").Scan(&version); err != nil {
		return err
	}
	if err := checkEngine(version); err != nil {
		return err
	}
	var number int
	var encoding string
	var recovery, readOnly bool
	if err := q.QueryRowContext(ctx, `SELECT current_setting('server_version_num')::int, current_setting('server_encoding'),
		pg_is_in_recovery(), current_setting('transaction_read_only')::boolean`).Scan(&number, &encoding, &recovery, &readOnly); err != nil {
		return err
	}
	switch {
	case number < oldestServer:
		return fmt.Errorf("%w: the server is PostgreSQL %s; 15 is the oldest that serves", ErrRefused,
			strings.Fields(version)[1])
	case encoding != "UTF8":
		return fmt.Errorf("%w: the encoding of the database is %s, and must be UTF8: CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0", ErrRefused, encoding)
	case recovery:
		return fmt.Errorf("%w: %w: it is a standby (pg_is_in_recovery)", ErrRefused, ErrReadOnly)
	case readOnly:
		return fmt.Errorf("%w: %w: default_transaction_read_only is on", ErrRefused, ErrReadOnly)
	}
	return each(ctx, q, func(rows *sql.Rows) error {
		var kind, name string
		if err := rows.Scan(&kind, &name); err != nil {
			return err
		}
		return checkAddition(kind, name)
	}, "SELECT 'extension', extname FROM pg_extension UNION ALL SELECT 'access method', amname FROM pg_am")
}

// identify examines the first namespace of search_path, whatever the version of its schema.
func identify(ctx context.Context, q querier) (*Database, error) {
	var role string
	var namespace sql.NullString
	if err := q.QueryRowContext(ctx, "SELECT current_user, current_schema()").Scan(&role, &namespace); err != nil {
		return nil, err
	}
	if !namespace.Valid {
		return nil, fmt.Errorf("%w: role %s may use no schema of its search_path: GRANT USAGE ON SCHEMA …", ErrRefused, role)
	}
	var tables, ours int
	var readable bool
	if err := q.QueryRowContext(ctx, `SELECT count(*), count(*) FILTER (WHERE relkind = 'r' AND relname IN ('setting', 'company', 'log', 'record', 'node', 'head')),
			coalesce(bool_or(relname = 'setting' AND has_table_privilege(oid, 'SELECT')), false)
		FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'f')
			AND NOT EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_class'::regclass AND objid = pg_class.oid AND deptype = 'e')`).Scan(&tables, &ours, &readable); err != nil {
		return nil, err
	}
	switch {
	case tables == 0:
		if err := checkOwnNamed(ctx, q, namespace.String); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("schema %s is empty: %w", namespace.String, ErrNotFound)
	case ours < 6:
		return nil, fmt.Errorf("schema %s: %w", namespace.String, ErrForeign)
	case !readable:
		return nil, fmt.Errorf("%w: role %s may not read table setting of schema %s: `attestd migrate` prints the grants",
			ErrRefused, role, namespace.String)
	}
	d := &Database{Namespace: namespace.String, Settings: map[string]string{}}
	err := each(ctx, q, func(rows *sql.Rows) error {
		var name, value string
		err := rows.Scan(&name, &value)
		d.Settings[name] = value
		return err
	}, "SELECT name, value FROM setting")
	if err != nil && errors.Is(refusal(err), ErrUnavailable) {
		return nil, err
	}
	version, failed := strconv.Atoi(d.Settings[versionSetting])
	if err != nil || failed != nil || d.Settings[compatibleSetting] == "" {
		return nil, fmt.Errorf("schema %s has a table setting of somebody else: %w", namespace.String, ErrForeign)
	}
	d.Version = version
	return d, nil
}

// checkOwnNamed refuses an empty namespace that is first in search_path only because it has the
// name of the role, if another one in search_path has attestd's tables. The empty one was created
// later, and using it would start a new database.
func checkOwnNamed(ctx context.Context, q querier, empty string) error {
	var other string
	err := q.QueryRowContext(ctx, `SELECT n.nspname FROM unnest(current_schemas(false)) WITH ORDINALITY AS path (name, place)
		JOIN pg_namespace n ON n.nspname = path.name JOIN pg_class c ON c.relnamespace = n.oid
		WHERE current_setting('search_path') LIKE '%$user%' AND $1 = current_user AND relkind = 'r' AND relname IN ('setting', 'company', 'log', 'record', 'node', 'head')
		GROUP BY n.nspname, place HAVING count(*) = 6 ORDER BY place LIMIT 1`, empty).Scan(&other)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: schema %[2]s, which has the name of the role, is empty, and schema %[3]s holds a database of attestd: say which one is meant by search_path=%[3]s or search_path=%[2]s in the URL",
		ErrRefused, empty, other)
}

// check checks that this program can use the schema.
func (d *Database) check() error {
	compatible, err := strconv.Atoi(d.Settings[compatibleSetting])
	switch {
	case err != nil:
		return fmt.Errorf("%w: the setting %s is not a number", ErrCorrupt, compatibleSetting)
	case d.Version < Version:
		return fmt.Errorf("%w: its schema is %d, and this program needs %d: run `attestd migrate`", ErrOlder, d.Version,
			Version)
	case compatible > Version:
		return fmt.Errorf("%w: schema %d, this one knows %d", ErrNewer, d.Version, Version)
	}
	return nil
}

// each calls row for every row of a query.
func each(ctx context.Context, q querier, row func(*sql.Rows) error, query string, args ...any) error {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
