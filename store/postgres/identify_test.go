package postgres_test

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"attestd/internal/testenv"
	"attestd/store/postgres"
	"attestd/store/postgres/pgtest"
)

// A server that is not a complete PostgreSQL is refused by its name and with the reason. PostgreSQL
// itself is accepted from any distributor.
func TestPostgreSQLLookalikesAreRefused(t *testing.T) {
	for version, want := range map[string]string{
		"PostgreSQL 15.18 (Debian 15.18-0+deb12u1) on x86_64-pc-linux-gnu, compiled by gcc (Debian 12.2.0-14) 12.2.0, 64-bit":   "",
		"PostgreSQL 16.4 on aarch64-unknown-linux-gnu, compiled by aarch64-unknown-linux-gnu-gcc (GCC) 9.5.0, 64-bit":           "",
		"PostgreSQL 16.3, compiled by Visual C++ build 1938, 64-bit":                                                            "",
		"CockroachDB CCL v23.1.11 (x86_64-pc-linux-gnu, built 2023/09/27 01:53:43, go1.19.10)":                                  "CockroachDB",
		"PostgreSQL 11.2-YB-2.18.0.1-b0 on x86_64-pc-linux-gnu, compiled by clang version 15.0.3, 64-bit":                       "YugabyteDB",
		"PostgreSQL 8.0.2 on i686-pc-linux-gnu, compiled by GCC gcc (GCC) 3.4.2 20041017 (Red Hat 3.4.2-6.fc3), Redshift 1.0.1": "Amazon Redshift",
		"PostgreSQL 9.5.0 on x86_64-unknown-linux-gnu (Materialize v0.80.0)":                                                    "Materialize",
		"PostgreSQL 13.14.0-RisingWave-2.0.0 (unknown)":                                                                         "RisingWave",
		"CrateDB 5.4.0 (built 9ce0d4d/2023-07-11, Linux 5.15 amd64, OpenJDK 20)":                                                "CrateDB",
		"PostgreSQL 12.3, compiled by Visual C++ build 1914, 64-bit, QuestDB":                                                   "QuestDB",
		"PostgreSQL 12.12 (Greenplum Database 7.0.0 build commit:0a) on x86_64-pc-linux-gnu, compiled by gcc 8.5.0, 64-bit":     "Greenplum",
		"(openGauss 5.0.0 build a07d57c3) compiled at 2023-03-29 03:37:13 commit 0 last mr":                                     "openGauss",
		"PostgreSQL 16": "not PostgreSQL",
		"14.1":          "not PostgreSQL",
	} {
		err := postgres.CheckEngine(version)
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", version, err)
		case want != "" && (!errors.Is(err, postgres.ErrRefused) || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, not %s", version, err, want)
		}
	}
}

// Create and Migrate act on the result of Identify: each leaves a database that it is not meant for
// unchanged.
func TestIdentifyDatabase(t *testing.T) {
	testenv.Needs(t, testenv.NotQuick)
	newer := strconv.Itoa(postgres.Version + 1)
	const ours = "" // Create made the tables before the statement
	for _, c := range []struct {
		what, made, statement string
		search                string
		want                  error
		text                  string
	}{
		{"nothing", "none", "SELECT", "", postgres.ErrNotFound, "schema public is empty"},
		{"the view of an extension alone", "none", "CREATE EXTENSION pg_buffercache VERSION '1.3'", "", postgres.ErrNotFound, ""},
		{"a table of somebody", "none", "CREATE TABLE accounts (n int)", "", postgres.ErrForeign, "schema public"},
		{"a view of somebody", "none", "CREATE VIEW accounts AS SELECT 1", "", postgres.ErrForeign, ""},
		{"somebody's table setting", "none", "CREATE TABLE setting (name text, value text); INSERT INTO setting VALUES ('schema', '9')", "", postgres.ErrForeign, ""},
		{"somebody's tables with our names", "none", "CREATE TABLE setting (a int); CREATE TABLE company (); CREATE TABLE log (); CREATE TABLE record (); CREATE TABLE node (); CREATE TABLE head ()",
			"", postgres.ErrForeign, "setting of somebody else"},
		{"ours", ours, "SELECT", "", nil, ""},
		{"ours beside somebody's", ours, "CREATE TABLE accounts (n int)", "", nil, ""},
		{"ours in a schema of its own", "none", "CREATE SCHEMA own", "own", postgres.ErrNotFound, "schema own is empty"},
		{"an empty schema with the name of the role before ours", ours, "CREATE SCHEMA pgtest", "", postgres.ErrRefused, "schema public holds a database of attestd"},
		{"an empty schema with the name of the role, asked for", ours, "CREATE SCHEMA pgtest", "pgtest, public", postgres.ErrNotFound, "schema pgtest is empty"},
		{"ours behind a schema with the name of the role, asked for", ours, "CREATE SCHEMA pgtest", "public", nil, ""},
		{"no schema at all", "none", "SELECT", "missing", postgres.ErrRefused, "may use no schema"},
		{"an older one", ours, "UPDATE setting SET value = '8' WHERE name = 'schema'", "", postgres.ErrOlder, "run `attestd migrate`"},
		{"a newer one", ours, "UPDATE setting SET value = '" + newer + "' WHERE name LIKE 'schema%'", "", postgres.ErrNewer, fmt.Sprintf("schema %s, this one knows %d", newer, postgres.Version)},
		{"a newer one that older programs may use", ours, "UPDATE setting SET value = '" + newer + "' WHERE name = 'schema'", "", nil, ""},
		{"ours, damaged", ours, "UPDATE setting SET value = 'x' WHERE name = 'schema_compatible'", "", postgres.ErrCorrupt, "schema_compatible"},
		{"citus", "none", "SET allow_system_table_mods = on; INSERT INTO pg_extension SELECT 4711, 'citus', extowner, extnamespace, false, '1' FROM pg_extension LIMIT 1", "", postgres.ErrRefused, "citus"},
		{"several primaries", "none", "SET allow_system_table_mods = on; INSERT INTO pg_extension SELECT 4711, 'spock', extowner, extnamespace, false, '1' FROM pg_extension LIMIT 1", "", postgres.ErrRefused, "spock"},
		{"CockroachDB", "none", "CREATE SCHEMA fake; CREATE FUNCTION fake.version() RETURNS text LANGUAGE sql AS $$ SELECT 'CockroachDB CCL v23.1.11' $$", "fake,pg_catalog",
			postgres.ErrRefused, "the database is CockroachDB"},
		{"too old", "none", "CREATE SCHEMA fake; CREATE FUNCTION fake.current_setting(text) RETURNS text LANGUAGE sql AS $$ SELECT CASE $1 WHEN 'server_version_num' THEN '140011' ELSE pg_catalog.current_setting($1) END $$",
			"fake,pg_catalog", postgres.ErrRefused, "15 is the oldest that serves"},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			address := pgtest.Database(t)
			maker := open(t, address)
			if c.made == ours {
				if err := postgres.Create(t.Context(), maker, map[string]string{"service_name": "service"}); err != nil {
					t.Fatal(err)
				}
			}
			execute(t, maker, c.statement)
			if c.search != "" {
				address = with(t, address, "", "", url.Values{"search_path": {c.search}})
			}
			db := open(t, address)
			before := everything(t, maker)
			d, err := postgres.Identify(t.Context(), db)
			if !errors.Is(err, c.want) || err != nil && !strings.Contains(err.Error(), c.text) {
				t.Fatalf("%v, not %v %q", err, c.want, c.text)
			}
			if err == nil && (d.Namespace != "public" || d.Version < 9 || d.Settings["service_name"] != "service") {
				t.Fatalf("%+v", d)
			}
			if errors.Is(c.want, postgres.ErrNotFound) {
				return
			}
			if err := postgres.Migrate(t.Context(), db, func(int) { t.Error("a step was taken") }); c.want != nil && err == nil && !errors.Is(c.want, postgres.ErrCorrupt) {
				t.Errorf("migrated")
			}
			if err := postgres.Create(t.Context(), db, nil); err == nil && (errors.Is(c.want, postgres.ErrForeign) || errors.Is(c.want, postgres.ErrRefused)) {
				t.Errorf("created")
			}
			if after := everything(t, maker); after != before {
				t.Errorf("what was there was changed:\n%s\n%s", before, after)
			}
		})
	}
}

// A database of another encoding, or one that accepts no writes, is refused with the reason.
func TestUnsuitableDatabaseIsRefused(t *testing.T) {
	t.Parallel()
	_, err := postgres.Identify(t.Context(), open(t, pgtest.DatabaseWith(t, "ENCODING 'SQL_ASCII' TEMPLATE template0")))
	if !errors.Is(err, postgres.ErrRefused) || !strings.Contains(err.Error(), "the encoding of the database is SQL_ASCII, and must be UTF8") {
		t.Error(err)
	}
	address := pgtest.Database(t)
	execute(t, open(t, address), "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = on', current_database()); END $$")
	for _, address := range []string{address, address + "&target_session_attrs=any"} {
		_, err := postgres.Identify(t.Context(), open(t, address))
		if !errors.Is(err, postgres.ErrRefused) || !errors.Is(err, postgres.ErrReadOnly) || !strings.Contains(err.Error(), "default_transaction_read_only is on") {
			t.Error(err)
		}
	}
}
