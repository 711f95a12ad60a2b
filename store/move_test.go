package store_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"attestd/chain"
	"attestd/chain/action"
	"attestd/crypto/seal"
	"attestd/crypto/tokenkey"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/admin"
	"attestd/store/db"
	"attestd/store/storetest"
)

// everything returns a closed database with rows in every table; its 1,500 actions of acme are
// enough for the copy to report progress.
func everything(t testing.TB, m *seal.Master) sealed {
	t.Helper()
	f := withSecrets(t, m)
	s := openSealed(t, f.path, m)
	c := got(s.Companies.Get(ctx, "acme"))(t)
	attest(t, s, c, 1500)
	for _, id := range []string{"bot", "ü", "ab", "Z"} {
		got(s.Agents.Register(ctx, by(c, now), id, raw(`{"n": 1.50, "text": "ü\u0000"}`), many))(t)
	}
	for _, jti := range []string{"valid", "revoked"} {
		must.OK(t, s.Passports.Record(ctx, by(c, now), store.Passport{JTI: jti, AgentID: "bot", Scopes: []string{"*"}, IssuedAt: 1, ExpiresAt: 1 << 40}))
	}
	got(s.Passports.Revoke(ctx, by(c, now), "revoked", ptr("lost")))(t)
	agentKeys(t, s, by(c, now), "bot")
	got(s.TokenKeys.Signer(ctx, by(c, now), tokenkey.ES256))(t)
	federations(t, s, by(c, now), "bot")
	_, _, err := s.Agents.Disable(ctx, by(c, now), "ab")
	must.OK(t, err)
	got(s.Companies.Suspend(ctx, operator(c), "unpaid"))(t)
	got(s.Companies.Resume(ctx, operator(c), "paid"))(t)
	must.OK(t, s.Companies.SetQuota(ctx, operator(c), store.Quota{Bytes: ptr(int64(1 << 40))}, "large"))
	must.OK(t, s.Settings.RecordStart(ctx, map[string]string{"stream": "off"}))
	must.OK(t, s.Calls.SaveNext(ctx, nil, map[int64]int64{c.Chain: 1500}))
	refused := store.NewRefusedCall(chain.Hash{1}, now)
	refused.State = action.State{Requests: 1, Refusals: 1, IsRefused: true, Refused: 2, Done: 3, HasOutcome: true, Tool: "Bash", Found: true}
	must.OK(t, s.Calls.Save(ctx, by(c, now), []store.RefusedCall{refused}, nil))
	publish(t, s, c.Actions)
	got(once(t, s, keyed(c, "a key", "a request")))(t)
	must.OK(t, s.Close())
	db := other(t, f.path, `INSERT INTO cosignature SELECT log_id, 'witness+1+x', 7, 'note', 'line' FROM log WHERE chain = -1`,
		`INSERT INTO witness_log VALUES ('log.example.com', zeroblob(32), 3, zeroblob(32), 'note')`, "PRAGMA wal_checkpoint(TRUNCATE)")
	defer db.Close()
	for _, table := range tablesOf(t, db) {
		if dump(t, db, "SELECT * FROM "+table) == "" {
			t.Errorf("table %s is empty", table)
		}
	}
	return f
}

func tablesOf(t testing.TB, db *sql.DB) []string {
	t.Helper()
	var names string
	must.OK(t, db.QueryRow("SELECT group_concat(name, ' ') FROM sqlite_schema WHERE type = 'table'").Scan(&names))
	return strings.Fields(names)
}

// bothEngines marks tests that name a file and PostgreSQL databases themselves.
func bothEngines(t testing.TB) {
	t.Helper()
	storetest.NotOnPostgres(t, "is about both engines, and runs once")
}

// rowsOf returns every row of every table of a file.
func rowsOf(t testing.TB, path string) map[string]string {
	t.Helper()
	db := other(t, path)
	defer db.Close()
	all := map[string]string{}
	for _, table := range tablesOf(t, db) {
		where := ""
		// A move writes into its copy what the next start must record; see
		// TestRekeysAndMovesAreRecorded.
		if table == "setting" {
			where = " WHERE name <> 'unrecorded'"
		}
		all[table] = dump(t, db, "SELECT * FROM "+table+where+" ORDER BY 1, 2")
	}
	return all
}

func move(t testing.TB, from, to string) (admin.Moved, error) {
	t.Helper()
	return admin.Move(ctx, from, to, schema(t), admin.MoveOptions{})
}

// stranger opens a PostgreSQL database as another program would, and runs statements.
func stranger(t testing.TB, url string, statements ...string) *sql.DB {
	t.Helper()
	db := got(sql.Open("pgx", url))(t)
	t.Cleanup(func() { db.Close() })
	for _, s := range statements {
		_, err := db.Exec(s)
		must.OK(t, err)
	}
	return db
}

// relations counts the relations of a PostgreSQL database other than the system's own.
func relations(t testing.TB, url string) (n int) {
	t.Helper()
	must.OK(t, stranger(t, url).QueryRow(`SELECT count(*) FROM pg_class WHERE relnamespace = current_schema()::regnamespace`).Scan(&n))
	return n
}

// A database is moved from a file into PostgreSQL and back into a file, sealed and in plaintext.
// Every row of every table is the same, and so are all roots, keys, passports and control logs.
// Both moves print the same digest, the sources are unchanged, and every credential works in both
// copies, which accept writes.
func TestMoveThereAndBack(t *testing.T) {
	testenv.Needs(t, testenv.Slow, testenv.Plain, testenv.NotRaced)
	storetest.NotOnPostgres(t, "moves between both engines in any case")
	bothEngines(t)
	t.Parallel()
	key := seal.NewMaster()
	for _, m := range []*seal.Master{nil, &key} {
		f := everything(t, m)
		before, rows := got(os.ReadFile(f.path))(t), rowsOf(t, f.path)
		url, back := storetest.Shared(t), target(t)
		there := got(move(t, f.path, url))(t)
		if !bytes.Equal(got(os.ReadFile(f.path))(t), before) {
			t.Error("the file that was moved has changed")
		}
		home := got(move(t, url, back))(t)
		if again := got(move(t, url, target(t)))(t); there.Digest != home.Digest || again.Digest != home.Digest || !slices.Equal(there.Tables, home.Tables) {
			t.Errorf("digests %s, %s, %s", there.Digest, home.Digest, again.Digest)
		}
		if there.Companies != 2 || there.Records < 1500 || there.Rows <= there.Records {
			t.Errorf("moved: %+v", there)
		}
		for table, text := range rowsOf(t, back) {
			if text != rows[table] {
				t.Errorf("table %s is\n%s\nwas\n%s", table, text, rows[table])
			}
		}
		_, empty := fresh(t)
		compareShapes(t, "after a move", shape(t, back), shape(t, empty))
		for _, path := range []string{url, back} {
			f.path = path
			f.check(t, m)
			s := got(store.OpenReadOnly(ctx, path))(t)
			must.OK(t, s.Check(ctx, schema(t)))
			must.OK(t, s.Close())
			numbersGoOn(t, path, m)
		}
	}
}

// numbersGoOn adds a row to each table whose rows are numbered.
func numbersGoOn(t testing.TB, path string, m *seal.Master) {
	t.Helper()
	s := openSealed(t, path, m)
	defer s.Close()
	c, _ := company(t, s, "new")
	if c.Chain != 3 {
		t.Errorf("the next company has the number %d", c.Chain)
	}
	_, _, err := s.Credentials.CreateClient(ctx, by(c, now), full, 1000)
	must.OK(t, err)
	must.OK(t, s.Passports.Record(ctx, by(c, now), store.Passport{JTI: "new", AgentID: "bot", Scopes: []string{"*"}, IssuedAt: 1, ExpiresAt: 2}))
	got(s.Webhooks.Create(ctx, by(c, now), store.Webhook{URL: "https://hooks.example.com/"}, webhookSecret(), 16))(t)
	if _, err := s.Agents.Register(ctx, by(got(s.Companies.Get(ctx, "acme"))(t), now), "fifth", nil, store.AgentBounds{Most: 4}); !errors.Is(err, store.ErrTooMany) {
		t.Errorf("a fifth agent of four: %v", err)
	}
}

// A database can also be moved between two PostgreSQL databases.
func TestMoveBetweenServers(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	storetest.NotOnPostgres(t, "moves between both engines in any case")
	bothEngines(t)
	t.Parallel()
	f := everything(t, nil)
	first, second := storetest.Shared(t), storetest.Shared(t)
	one, two := got(move(t, f.path, first))(t), got(move(t, first, second))(t)
	if one.Digest != two.Digest {
		t.Errorf("digests %s, %s", one.Digest, two.Digest)
	}
	f.path = second
	f.check(t, nil)
}

// A tampered source is refused in either direction and leaves nothing at the target. The cases are
// a changed record, a head with another root and a missing guard.
func TestMoveRefusesTamperedSource(t *testing.T) {
	testenv.Needs(t, testenv.Slow, testenv.Plain, testenv.NotRaced)
	storetest.NotOnPostgres(t, "moves between both engines in any case")
	bothEngines(t)
	t.Parallel()
	changes := map[string]struct {
		file, server []string
		is           func(error) bool
	}{
		"record": {append(unguarded, "UPDATE record SET payload = '{}' WHERE id = (1 << 40) + 3"),
			[]string{"ALTER TABLE record DISABLE TRIGGER USER", "UPDATE record SET payload = '{}' WHERE id = (1::bigint << 40) + 3"}, isInvalid},
		"control record": {append(unguarded, "UPDATE record SET payload = replace(payload, 'acme', 'ecma') WHERE id = (-1 << 40)"),
			[]string{"ALTER TABLE record DISABLE TRIGGER USER", "UPDATE record SET payload = replace(payload, 'acme', 'ecma') WHERE id = (-1::bigint << 40)"}, isInvalid},
		"root": {append(unguarded, "UPDATE head SET root = zeroblob(32) WHERE chain = 1"),
			[]string{"ALTER TABLE head DISABLE TRIGGER USER", `UPDATE head SET root = decode(repeat('00', 32), 'hex') WHERE chain = 1`}, isInvalid},
		"guard": {[]string{"DROP TRIGGER record_no_update"}, []string{"DROP TRIGGER record_no_update ON record"},
			func(err error) bool { return errors.Is(err, store.ErrCorrupt) }},
	}
	source, _ := sample(t)
	content := got(os.ReadFile(source))(t)
	for what, c := range changes {
		path, url, empty, out := filepath.Join(t.TempDir(), "attestd.db"), storetest.Shared(t), storetest.Shared(t), target(t)
		must.OK(t, os.WriteFile(path, content, 0o600))
		got(move(t, path, url))(t)
		other(t, path, c.file...).Close()
		stranger(t, url, c.server...).Close()
		if _, err := move(t, path, empty); !c.is(err) {
			t.Errorf("%s: from a file: %v", what, err)
		}
		if _, err := move(t, url, out); !c.is(err) {
			t.Errorf("%s: from a server: %v", what, err)
		}
		if n := relations(t, empty); n > 0 {
			t.Errorf("%s: %d relations are left", what, n)
		}
		if files := list(t, filepath.Dir(out)); files != "" && files != "out.db.lock" {
			t.Errorf("%s: %s are left", what, files)
		}
	}
}

func isInvalid(err error) bool {
	var invalid *store.VerifyError
	return errors.As(err, &invalid)
}

// A target that is not empty is refused and left unchanged: one of our databases, another program's
// database, and files.
func TestMoveRequiresEmptyTarget(t *testing.T) {
	testenv.Needs(t, testenv.Slow, testenv.Plain, testenv.NotRaced)
	storetest.NotOnPostgres(t, "moves between both engines in any case")
	bothEngines(t)
	t.Parallel()
	path, _ := sample(t)
	ours, theirs := storetest.Shared(t), storetest.Shared(t)
	got(move(t, path, ours))(t)
	before := got(move(t, ours, target(t)))(t)
	stranger(t, theirs, "CREATE TABLE notes (text text)", "INSERT INTO notes VALUES ('mine')")
	file, text := filepath.Join(t.TempDir(), "attestd.db"), filepath.Join(t.TempDir(), "notes.txt")
	must.OK(t, os.WriteFile(file, got(os.ReadFile(path))(t), 0o600))
	must.OK(t, os.WriteFile(text, []byte("these are my notes, and no database of anybody"), 0o600))
	for to, want := range map[string]error{ours: store.ErrRefused, theirs: store.ErrForeign, file: store.ErrRefused, text: store.ErrForeign, path: store.ErrRefused} {
		if _, err := move(t, path, to); !errors.Is(err, want) {
			t.Errorf("into %s: %v", db.Name(to), err)
		}
	}
	if after := got(move(t, ours, target(t)))(t); after.Digest != before.Digest {
		t.Error("the database that was there has changed")
	}
	var mine string
	must.OK(t, stranger(t, theirs).QueryRow("SELECT text FROM notes").Scan(&mine))
	if n := relations(t, theirs); n != 1 || mine != "mine" {
		t.Errorf("%d relations, %q", n, mine)
	}
	if string(got(os.ReadFile(text))(t)) != "these are my notes, and no database of anybody" || !bytes.Equal(got(os.ReadFile(file))(t), got(os.ReadFile(path))(t)) {
		t.Error("a file that was there has changed")
	}
}

// A source that is served is refused. The rows that a killed server left in PostgreSQL prevent a
// move for at most a minute.
func TestMoveOfServedDatabaseIsRefused(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	storetest.NotOnPostgres(t, "moves between both engines in any case")
	bothEngines(t)
	t.Parallel()
	path, _ := sample(t)
	url := storetest.Shared(t)
	got(move(t, path, url))(t)
	for _, from := range []string{path, url} {
		s := open(t, from)
		if _, err := move(t, from, target(t)); !errors.Is(err, store.ErrInUse) {
			t.Errorf("%s: %v", db.Name(from), err)
		}
		must.OK(t, s.Close())
	}
	killed := stranger(t, url, "INSERT INTO writer (started_at) VALUES ('')")
	if _, err := move(t, url, target(t)); !errors.Is(err, store.ErrInUse) {
		t.Errorf("killed a moment ago: %v", err)
	}
	_, err := killed.Exec("UPDATE writer SET touched = now() - interval '61 seconds'")
	must.OK(t, err)
	got(move(t, url, target(t)))(t)
}

// Nothing can be written to a source while it is moved: PostgreSQL refuses the write, and a file
// that another program changed nevertheless is not moved.
func TestSourceIsReadOnlyDuringMove(t *testing.T) {
	testenv.Concurrent(t)
	testenv.Needs(t, testenv.Plain)
	storetest.NotOnPostgres(t, "moves between both engines in any case")
	bothEngines(t)
	t.Parallel()
	path, _ := sample(t)
	url, refused := storetest.Shared(t), 0
	got(move(t, path, url))(t)
	db := stranger(t, url+"&options=-clock_timeout%3D10")
	_, err := admin.Move(ctx, url, target(t), schema(t), admin.MoveOptions{Progress: func(string, int64, int64) {
		for _, statement := range []string{"UPDATE setting SET value = ''", "INSERT INTO writer (started_at) VALUES ('')", "DELETE FROM api_key"} {
			if _, err := db.Exec(statement); err == nil || !strings.Contains(err.Error(), "55P03") {
				t.Errorf("%s: %v", statement, err)
			}
			refused++
		}
	}})
	if err != nil || refused == 0 {
		t.Errorf("%d refused, %v", refused, err)
	}
	stray, out := other(t, path), target(t)
	_, err = admin.Move(ctx, path, out, schema(t), admin.MoveOptions{Progress: func(stage string, _, _ int64) {
		if stage == "verify the copy" {
			_, err := stray.Exec("INSERT INTO setting VALUES ('stray', '') ON CONFLICT (name) DO UPDATE SET value = value || '.'")
			must.OK(t, err)
		}
	}})
	if _, missing := os.Stat(out); !errors.Is(err, store.ErrInUse) || missing == nil {
		t.Errorf("%v, %v", err, missing)
	}
}

// A move that is interrupted at any stage leaves nothing behind.
func TestInterruptedMoveLeavesNothing(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced, testenv.Plain)
	storetest.NotOnPostgres(t, "moves between both engines in any case")
	bothEngines(t)
	t.Parallel()
	f := everything(t, nil)
	url, out := storetest.Shared(t), target(t)
	stages := map[string]bool{}
	for _, at := range []string{"verify", "copy records", "verify the copy"} {
		for _, to := range []string{url, out} {
			ctx, cancel := context.WithCancel(ctx)
			_, err := admin.Move(ctx, f.path, to, schema(t), admin.MoveOptions{Progress: func(stage string, _, _ int64) {
				if stages[stage] = true; stage == at {
					cancel()
				}
			}})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("interrupted at %q: %v", at, err)
			}
			cancel()
		}
	}
	if n, files := relations(t, url), list(t, filepath.Dir(out)); n > 0 || files != "out.db.lock" || len(stages) != 3 {
		t.Errorf("%d relations and %s are left; stages %v", n, files, stages)
	}
}

// A file that is behind its head file is not moved, because the rollback could not be detected
// afterwards. The head file of a database is also valid for its copy.
func TestMoveAndTheHeadFile(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	storetest.NotOnPostgres(t, "moves between both engines in any case")
	bothEngines(t)
	t.Parallel()
	path, older := grown(t)
	heads := store.HeadsBeside(path)
	url := storetest.Shared(t)
	if _, err := admin.Move(ctx, older, url, schema(t), admin.MoveOptions{Heads: heads}); !errors.Is(err, store.ErrRolledBack) {
		t.Errorf("behind its head file: %v", err)
	}
	_, err := admin.Move(ctx, path, url, schema(t), admin.MoveOptions{Heads: heads})
	must.OK(t, err)
	s := got(store.Open(ctx, url, schema(t), store.Options{Heads: heads}))(t)
	defer s.Close()
	if len(s.Rollback.Behind()) > 0 || strings.Contains(strings.Join(s.Notices(), " "), "head file") {
		t.Errorf("behind %v, notices %q", s.Rollback.Behind(), s.Notices())
	}
}

// Text that PostgreSQL cannot store is refused, and the error names its place.
func TestMoveOfTextThatPostgresCannotHold(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	storetest.NotOnPostgres(t, "moves between both engines in any case")
	bothEngines(t)
	t.Parallel()
	s, path := fresh(t)
	c, _ := company(t, s, "acme")
	got(s.Credentials.CreateKey(ctx, by(c, now), ptr("a\x00b"), full, 1000))(t)
	must.OK(t, s.Close())
	url := storetest.Shared(t)
	if _, err := move(t, path, url); !errors.Is(err, store.ErrRefused) || !strings.Contains(err.Error(), "table api_key: refused: label of row 2") {
		t.Error(err)
	}
	if n := relations(t, url); n > 0 {
		t.Errorf("%d relations are left", n)
	}
}

// A file of an older schema can be moved only after a server has upgraded it.
func TestMoveOfAnOlderFile(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	storetest.NotOnPostgres(t, "moves between both engines in any case")
	bothEngines(t)
	t.Parallel()
	path, _ := written(t, "5")
	url := storetest.Shared(t)
	if _, err := move(t, path, url); !errors.Is(err, store.ErrRefused) || !strings.Contains(err.Error(), "older schema") {
		t.Error(err)
	}
	must.OK(t, open(t, path).Close())
	got(move(t, path, url))(t)
	s := open(t, url)
	must.OK(t, s.VerifyAll(ctx, "", 2, nil, nil))
	attest(t, s, got(s.Companies.Get(ctx, "acme"))(t), 1)
}
