package test

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"attestd/internal/must"
	"attestd/internal/testenv"
	postgresdb "attestd/store/postgres"
	"attestd/store/postgres/pgtest"
	"attestd/store/storetest"
)

// ran is how a command ended, and what it printed.
type ran struct {
	status              int
	stdout, stderr, all string
}

func command(t *testing.T, args ...string) (r ran) {
	t.Helper()
	path, err := binary(t)
	must.OK(t, err)
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Env = atHome(filepath.Join(scratch, "home"))
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	var exited *exec.ExitError
	if err = cmd.Run(); errors.As(err, &exited) {
		r.status, err = exited.ExitCode(), nil
	}
	must.OK(t, err)
	r.stdout, r.stderr, r.all = out.String(), log.String(), out.String()+log.String()
	return r
}

// exits runs a command, which must exit with a status and print a text. No password of a URL is in
// what it prints.
func exits(t *testing.T, status int, text string, args ...string) ran {
	t.Helper()
	r := command(t, args...)
	if r.status != status || !strings.Contains(r.all, text) {
		t.Errorf("attestd %s: exit status %d, %q; want %d and %q", strings.Join(args, " "), r.status, r.all, status, text)
	}
	for _, arg := range args {
		if u, err := url.Parse(arg); err == nil {
			if password, ok := u.User.Password(); ok && strings.Contains(r.all, password) {
				t.Errorf("attestd %s shows the password: %q", args[0], r.all)
			}
		}
	}
	return r
}

// postgres returns the URLs of new databases. Its tests choose the engine themselves, so that they
// run once.
func postgres(t *testing.T) (first, second string) {
	t.Helper()
	storetest.NotOnPostgres(t, "is about PostgreSQL whatever the engine of the others")
	t.Parallel()
	return pgtest.Database(t), pgtest.Database(t)
}

func execute(t *testing.T, database string, statements ...string) {
	t.Helper()
	db, err := sql.Open("pgx", database)
	must.OK(t, err)
	defer db.Close()
	for _, s := range statements {
		_, err := db.Exec(s)
		must.OK(t, err)
	}
}

// A file is moved into PostgreSQL and back by the command; each prints the digest, alone on
// standard output. The served copy answers as the file did. What is refused has the exit statuses
// of the other commands: 2, 3, 4, 5, 6 and 8.
func TestMoveCommand(t *testing.T) {
	testenv.Needs(t, testenv.Slow, testenv.Plain)
	there, other := postgres(t)
	file, back := filepath.Join(t.TempDir(), "attestd.db"), filepath.Join(t.TempDir(), "back.db")
	s := serve(t, file)
	c := s.register(t, "acme")
	for i := range 3 {
		c.call(t, 201, "POST", "/v1/attest", fmt.Sprintf(`{"agentId":"bot","actionType":"a","payload":%d}`, i), nil)
	}
	before := c.call(t, 200, "GET", "/v1/chain", "", nil)
	exits(t, 6, "stop the servers first", "move", file, there)
	must.OK(t, s.interrupt())

	digest := exits(t, 0, "verified every chain on both sides", "move", file, there).stdout
	exits(t, 5, "a database of attestd is there already", "move", file, there)
	exits(t, 2, "attestd backup copies a file", "move", file, back)
	exits(t, 3, "not found", "move", filepath.Join(t.TempDir(), "nothing.db"), other)
	exits(t, 3, "no database of attestd is there", "move", other, back)
	execute(t, other, "CREATE TABLE notes (text text)")
	exits(t, 8, "not an attestd database", "move", file, other)

	s = serve(t, there)
	c = c.at(s)
	if after := c.call(t, 200, "GET", "/v1/chain", "", nil); !bytes.Equal(after, before) {
		t.Errorf("the chain is %s, was %s", after, before)
	}
	exits(t, 6, "stop the servers first", "move", there, back)
	must.OK(t, s.interrupt())
	var moved struct {
		From, To, Digest         string
		Companies, Records, Rows int64
		Tables                   []struct{ Name, Digest string }
	}
	must.OK(t, json.Unmarshal([]byte(exits(t, 0, "", "move", there, back, "--json").stdout), &moved))
	if moved.Companies != 1 || moved.Records < 3 || len(moved.Digest) != 64 || moved.To != back || len(moved.Tables) < 20 || len(digest) != 65 {
		t.Errorf("moved: %+v; before %q", moved, digest)
	}
	exits(t, 0, "acme: valid, 3 records", "verify", "--db", back)
	execute(t, there, "ALTER TABLE record DISABLE TRIGGER USER", "UPDATE record SET payload = '{}' WHERE id > 0")
	exits(t, 4, `company "acme", record 0`, "move", there, filepath.Join(t.TempDir(), "changed.db"))
	exits(t, 4, "FAILS at index 0", "verify", "--db", there)
}

// Tables are made once however many migrate at the same time, and the grants are enough to serve
// and too little to rewrite; a database that is foreign, newer, or not UTF8 is refused and not
// changed, with the exit statuses of files. An older schema is named with the command that upgrades
// it.
func TestMigrateCommand(t *testing.T) {
	testenv.Needs(t, testenv.Slow, testenv.Plain)
	db, other := postgres(t)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() { exits(t, 0, fmt.Sprint("schema ", postgresdb.Version), "migrate", "--db", db) })
	}
	all.Wait()
	exits(t, 0, "already have schema", "migrate", "--db", db)
	exits(t, 2, "attestd serve upgrades a file", "migrate", "--db", "attestd.db")
	exits(t, 5, "for good", "migrate", "--db", db, "--trust-domain", "example.com")
	exits(t, 2, "trust domain", "migrate", "--db", db, "--trust-domain", "EXAMPLE")

	execute(t, other, "CREATE ROLE limited LOGIN PASSWORD 'geheim'")
	t.Cleanup(func() { execute(t, other, "DROP ROLE limited") })
	grants := exits(t, 0, "GRANT", "migrate", "--db", db, "--grants", "limited").stdout
	execute(t, db, grants)
	t.Cleanup(func() { execute(t, db, "DROP OWNED BY limited") })
	limited := withUser(t, db, "limited", "geheim")
	s := serve(t, limited)
	s.register(t, "acme").call(t, 201, "POST", "/v1/attest", `{"agentId":"bot","actionType":"a","payload":1}`, nil)
	must.OK(t, s.interrupt())
	if strings.Contains(s.log.String(), "geheim") {
		t.Error("the log shows the password")
	}
	exits(t, 0, "acme: valid, 1 record", "verify", "--db", limited)

	for _, c := range []struct {
		what, statement, text string
		status                int
	}{
		{"older", "UPDATE setting SET value = '8' WHERE name = 'schema'", "attestd migrate", 5},
		{"newer", "UPDATE setting SET value = '99' WHERE name IN ('schema', 'schema_compatible')", "written by a newer attestd", 8},
		{"foreign", "DROP TABLE setting; CREATE TABLE setting (name text, value text)", "not an attestd database", 8},
	} {
		execute(t, db, c.statement)
		before := content(t, db)
		exits(t, c.status, c.text, "serve", "--listen", "127.0.0.1:0", "--db", db)
		if c.what != "older" {
			exits(t, c.status, c.text, "migrate", "--db", db)
		}
		if content(t, db) != before {
			t.Errorf("%s: the database has changed", c.what)
		}
	}
	latin := pgtest.DatabaseWith(t, "ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
	exits(t, 5, "must be UTF8", "migrate", "--db", latin)
	exits(t, 5, "must be UTF8", "serve", "--listen", "127.0.0.1:0", "--db", latin)
}

// content is every row of every table of a database of PostgreSQL, and the names of these.
func content(t *testing.T, database string) (all string) {
	t.Helper()
	db, err := sql.Open("pgx", database)
	must.OK(t, err)
	defer db.Close()
	must.OK(t, db.QueryRow(`SELECT string_agg(relname || query_to_xml('SELECT * FROM ' || relname || ' AS t ORDER BY t', true, true, '')::text, E'\n' ORDER BY relname)
		FROM pg_class WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace`).Scan(&all))
	return all
}

func withUser(t *testing.T, database, user, password string) string {
	t.Helper()
	u, err := url.Parse(database)
	must.OK(t, err)
	u.User = url.UserPassword(user, password)
	return u.String()
}

func withDatabase(t *testing.T, database, name string) string {
	t.Helper()
	u, err := url.Parse(database)
	must.OK(t, err)
	u.Path = name
	return u.String()
}

// Commands of files refuse a PostgreSQL database with exit status 2 and say what to use instead;
// the others work on one.
func TestCommandsOnPostgres(t *testing.T) {
	testenv.Needs(t, testenv.Slow, testenv.Plain)
	db, empty := postgres(t)
	for command, instead := range map[string]string{"backup out.db": "docs/postgres.md", "restore in.db": "attestd move", "rekey --off": "attestd move"} {
		exits(t, 2, instead, append(strings.Fields(command), "--db", db)...)
	}
	exits(t, 2, "works on files only", "backup", db)
	exits(t, 3, "no database of attestd is there", "verify", "--db", empty)
	exits(t, 3, "no database of attestd is there", "recover-key", "--company", "acme", "--db", empty)
	exits(t, 2, "--heads is required", "accept-rollback", "--reason", "none", "--db", db)

	one, two := serve(t, db, "--rate-limits", "off"), serve(t, db, "--rate-limits", "off")
	a := one.register(t, "acme")
	b := a.at(two)
	if key := strings.TrimSpace(exits(t, 0, "", "recover-key", "--company", "acme", "--db", db).stdout); key != a.key {
		t.Error("recover-key prints another key")
	}
	exits(t, 3, `no API key for company "nobody" in postgres://`, "recover-key", "--company", "nobody", "--db", db)
	exits(t, 0, "acme: valid", "verify", "--db", db)

	// A key is changed while two servers write: both sign with the new one from then on, every
	// record was signed by the key of its place, and all verify.
	stop := make(chan struct{})
	var writers sync.WaitGroup
	for _, c := range []*client{a, b} {
		writers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					c.call(t, 201, "POST", "/v1/attest", `{"agentId":"bot","actionType":"a","payload":1}`, nil)
				}
			}
		})
	}
	exits(t, 0, "signs from record", "rotate-key", "--company", "acme", "--db", db)
	last := exits(t, 0, "signs from record", "rotate-key", "--company", "acme", "--db", db, "--compromised")
	kid := strings.Fields(last.stdout)[2]
	for _, c := range []*client{a, b} {
		var key struct{ KID string }
		c.call(t, 200, "GET", "/v1/ca/public-key?companyId=acme", "", &key)
		if key.KID != kid {
			t.Errorf("a server signs with key %s after the rotation to %s", key.KID, kid)
		}
	}
	close(stop)
	writers.Wait()
	exits(t, 0, "acme: valid", "verify", "--db", db)
	must.OK(t, errors.Join(one.interrupt(), two.interrupt()))

	// A guard that is gone or disabled, and a record that was changed.
	execute(t, db, "ALTER TABLE record DISABLE TRIGGER record_no_update")
	exits(t, 8, "record_no_update is disabled", "verify", "--db", db)
	execute(t, db, "UPDATE record SET payload = '{}' WHERE id = (1::bigint << 40)")
	exits(t, 4, "acme: FAILS at index 0", "verify", "--db", db)
}

// No error and no line of a log shows the password of a URL: a server that is not there, a wrong
// password, an unknown database, addresses that cannot be read, and one in the wrong place.
func TestPasswordIsNeverShown(t *testing.T) {
	testenv.Needs(t, testenv.Slow, testenv.Plain, testenv.NotRaced)
	db, _ := postgres(t)
	exits(t, 0, "", "migrate", "--db", db)
	wrong := withUser(t, db, "postgres", "geheim%/ü")
	unreachable := "postgres://u:geheim@127.0.0.1:1/db"
	for _, command := range [][]string{{"serve", "--listen", "127.0.0.1:0"}, {"verify"}, {"recover-key", "--company", "acme"}, {"rotate-key", "--company", "acme"}, {"migrate"},
		{"accept-rollback", "--reason", "none", "--heads", "none"}} {
		for _, c := range []struct {
			address string
			status  int
		}{
			{unreachable, 1}, {wrong, 5}, {withDatabase(t, db, "nothing"), 5},
			{"postgres://u:ge%heim@127.0.0.1:1/db", 5}, {"postgres://u:geheim@127.0.0.1:port/db", 5}, {"postgres://u:geheim@[::1/db", 5}, {"postgres://u:geheim@127.0.0.1/db?sslmode=geheim", 5},
			{"postgres//u:geheim@127.0.0.1/db", 2}, {"mysql://u:geheim@127.0.0.1/db", 2}, {"Postgres:/u:geheim@127.0.0.1/db", 2}, {"host=127.0.0.1 password=geheim", 2},
		} {
			if r := exits(t, c.status, "", append(command, "--db", c.address)...); strings.Contains(r.all, "heim") {
				t.Errorf("%s: the password is shown: %q", command[0], r.all)
			}
		}
	}
	for _, args := range [][]string{{"serve", unreachable}, {"move", unreachable}, {unreachable}, {"move", unreachable, db}, {"move", db, unreachable}} {
		if r := command(t, args...); r.status == 0 || strings.Contains(r.all, "geheim") {
			t.Errorf("%v: exit status %d, %q", args[:1], r.status, r.all)
		}
	}
}

// A point-in-time recovery is noticed by the next start with a head file, which writes nothing, and
// by verify; so is one on another server. Accepted, it goes on.
func TestPointInTimeRecoveryIsDetected(t *testing.T) {
	testenv.Needs(t, testenv.Slow, testenv.Plain)
	db, _ := postgres(t)
	folder := t.TempDir()
	heads := filepath.Join(folder, "attestd.heads")
	s := serve(t, db, "--heads", heads)
	c := s.register(t, "acme")
	attest := func(status int) {
		c.call(t, status, "POST", "/v1/attest", `{"agentId":"bot","actionType":"a","payload":1}`, nil)
	}
	attest(201)
	must.OK(t, s.interrupt())
	older := pgtest.DatabaseWith(t, "TEMPLATE "+databaseOf(t, db)) // as a recovery brings it back
	s = serve(t, db, "--heads", heads)
	c = c.at(s)
	attest(201)
	must.OK(t, s.interrupt())
	exits(t, 0, "acme: valid, 2 records", "verify", "--db", db, "--heads", heads)
	exits(t, 5, "is not behind its head file", "accept-rollback", "--reason", "none", "--db", db, "--heads", heads)
	exits(t, 5, "is at size 1", "verify", "--db", older, "--heads", heads)
	exits(t, 5, "is at size 1", "move", older, filepath.Join(folder, "moved.db"), "--heads", heads)

	s = serve(t, older, "--heads", heads)
	c = c.at(s)
	attest(503)
	var chain struct{ Length int }
	c.call(t, 200, "GET", "/v1/chain", "", &chain)
	must.OK(t, s.interrupt())
	if !strings.Contains(s.log.String(), "behind the head file") {
		t.Errorf("the log does not say so: %s", s.log.String())
	}
	exits(t, 0, "acme: log actions", "accept-rollback", "--reason", "recovered to yesterday", "--db", older, "--heads", heads)
	exits(t, 0, "acme: valid, 1 record", "verify", "--db", older, "--heads", heads)
	s = serve(t, older, "--heads", heads)
	c = c.at(s)
	attest(201)
	if log := c.call(t, 200, "GET", "/v1/chain?log=control", "", nil); !bytes.Contains(log, []byte("recovered to yesterday")) {
		t.Errorf("the control log does not tell of it: %s", log)
	}
	must.OK(t, s.interrupt())
	exits(t, 1, "no such file", "verify", "--db", db, "--heads", filepath.Join(folder, "nothing"))
	if _, err := os.Stat(filepath.Join(folder, "nothing")); err == nil {
		t.Error("verify has made a head file")
	}
}

func databaseOf(t *testing.T, database string) string {
	t.Helper()
	u, err := url.Parse(database)
	must.OK(t, err)
	return strings.TrimPrefix(u.Path, "/")
}
