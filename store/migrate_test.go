package store_test

import (
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"attestd/crypto/cred"
	"attestd/crypto/keys"
	"attestd/store"
)

// before is when the fixture of schema 1 was in use: its access tokens and passports had not expired.
var before = time.Date(2026, 11, 21, 17, 20, 0, 0, time.UTC)

// fixture is what schema-1.json says of the companies of schema-1.db, which a server of schema 1 wrote over its API: acme with
// 300 records, so that it has a stored subtree root, and zoo with 5; two agents each, and records with a delegation and without.
type fixture map[string]struct {
	Keys                          []string
	ClientID, ClientSecret, Token string
	Passports                     []string
	Revoked                       string
}

// schema1 copies the fixture to where a test may write.
func schema1(t testing.TB) (string, fixture) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "attestd.db")
	must(t, os.WriteFile(path, got(os.ReadFile("testdata/schema-1.db"))(t), 0o600))
	var f fixture
	must(t, json.Unmarshal(got(os.ReadFile("testdata/schema-1.json"))(t), &f))
	return path, f
}

// shape is the schema of a file: the text of every table, index and trigger, without comments and spaces, and the version.
func shape(t testing.TB, path string) map[string]string {
	t.Helper()
	db := other(t, path)
	defer db.Close()
	rows, err := db.Query("SELECT type || ' ' || name, coalesce(sql, '') FROM sqlite_schema UNION ALL SELECT 'version', user_version FROM pragma_user_version")
	must(t, err)
	defer rows.Close()
	found := map[string]string{}
	for rows.Next() {
		var name, text string
		must(t, rows.Scan(&name, &text))
		text = regexp.MustCompile(`--.*`).ReplaceAllString(text, "")
		found[name] = regexp.MustCompile(`\s*([^\w\s]|\s)\s*`).ReplaceAllString(text, "$1")
	}
	must(t, rows.Err())
	return found
}

func compareShapes(t testing.TB, what string, have, want map[string]string) {
	t.Helper()
	for name := range want {
		if have[name] != want[name] {
			t.Errorf("%s: %s is\n%s\nwant\n%s", what, name, have[name], want[name])
		}
	}
	for name := range have {
		if _, ok := want[name]; !ok {
			t.Errorf("%s: %s is too many", what, name)
		}
	}
}

// (row 9)
func TestAFileOfSchema1IsUpgraded(t *testing.T) {
	t.Parallel()
	path, companies := schema1(t)
	s := open(t, path)
	if n := s.Notices(); len(n) != 1 || !strings.Contains(n[0], "from schema 1 to 2") {
		t.Errorf("notices: %q", n)
	}
	must(t, s.VerifyAll(ctx, "", 2, nil, nil))
	for id, f := range companies {
		c := got(s.Company(ctx, id))(t)
		for _, secret := range append(f.Keys, f.Token) {
			if who, err := s.Authenticate(ctx, keys.HashSecret(secret), before); err != nil || who.Company.ID != id {
				t.Errorf("%s: credential %.6s…: %v, %v", id, secret, who, err)
			}
		}
		_, err := s.IssueOAuthToken(ctx, f.ClientID, f.ClientSecret, time.Hour, before)
		must(t, err)
		if p := got(s.Passport(ctx, by(c, before), f.Passports[0]))(t); p.RevokedAt != "" {
			t.Errorf("%s: a passport is revoked: %+v", id, p)
		}
		if p := got(s.Passport(ctx, by(c, before), f.Revoked))(t); p.RevokedAt == "" || *p.Reason != "lost" {
			t.Errorf("%s: a revocation is gone: %+v", id, p)
		}
		if k := got(s.FirstKey(ctx, id))(t); k.Key != f.Keys[0] {
			t.Errorf("%s: first key %+v", id, k)
		}
		if page := all(t, s.Agents(ctx, by(c, now), "")); len(page) != 2 {
			t.Errorf("%s: agents %v", id, page)
		}
		attest(t, s, c, 10)
		_, err = s.RegisterAgent(ctx, by(c, now), "new-bot", nil, many)
		must(t, err)
	}
	must(t, s.VerifyAll(ctx, "", 2, nil, nil))
	must(t, s.Close())
	if n := open(t, path).Notices(); len(n) != 0 {
		t.Errorf("at the second start: %q", n)
	}
	out := target(t)
	must(t, store.Backup(ctx, path, out, schema(t), nil)) // with all its checks
	_, empty := fresh(t)
	compareShapes(t, "upgraded", shape(t, path), shape(t, empty))
}

// What cannot be served before an upgrade can be read, and a backup of it is a file of its own schema, for the attestd that wrote it.
func TestAFileOfSchema1IsReadAsItIs(t *testing.T) {
	t.Parallel()
	path, companies := schema1(t)
	as := shape(t, path)
	content := got(os.ReadFile(path))(t)
	s, err := store.OpenReadOnly(ctx, path)
	must(t, err)
	must(t, s.VerifyAll(ctx, "", 2, nil, nil))
	if k := got(s.FirstKey(ctx, "acme"))(t); k.Key != companies["acme"].Keys[0] {
		t.Errorf("first key %+v", k)
	}
	must(t, s.Close())
	out := target(t)
	must(t, store.Backup(ctx, path, out, schema(t), nil))
	compareShapes(t, "backup", shape(t, out), as)
	restored := target(t)
	must(t, restore(t, out, restored, store.RestoreOptions{}))
	compareShapes(t, "restored", shape(t, restored), as)
	must(t, open(t, restored).VerifyAll(ctx, "", 2, nil, nil))
	if string(got(os.ReadFile(path))(t)) != string(content) {
		t.Error("reading has changed the file")
	}
}

// A crash at any moment leaves the old schema or the new one. The log of an upgrade is cut at every frame, and within one: what SQLite
// then finds is what a crash would have left.
func TestAnUpgradeIsWholeOrAbsent(t *testing.T) {
	t.Parallel()
	path, _ := schema1(t)
	content := got(os.ReadFile(path))(t)
	old := shape(t, path)
	_, empty := fresh(t)
	current := shape(t, empty)
	s := open(t, path)
	log := got(os.ReadFile(path + "-wal"))(t)
	must(t, s.Close())

	const header, frame = 32, 24 // https://www.sqlite.org/fileformat2.html#walformat
	step := frame + int(binary.BigEndian.Uint32(log[8:]))
	outcomes := map[string]int{}
	for end := header; end <= len(log); end += step / 2 {
		cut := filepath.Join(t.TempDir(), "attestd.db")
		must(t, os.WriteFile(cut, content, 0o600))
		must(t, os.WriteFile(cut+"-wal", log[:end], 0o600))
		found := shape(t, cut)
		outcomes[found["version"]]++
		if found["version"] == "1" {
			compareShapes(t, "absent", found, old)
		} else {
			compareShapes(t, "whole", found, current)
		}
		s := open(t, cut)
		must(t, s.VerifyAll(ctx, "", 1, nil, nil))
		must(t, s.Close())
		compareShapes(t, "after the next start", shape(t, cut), current)
	}
	if outcomes["1"] == 0 || outcomes["2"] == 0 {
		t.Errorf("files by version: %v", outcomes)
	}
}

// A file that is not what its version says is refused, and stays of the schema that it had.
func TestAnUpgradeThatCannotBe(t *testing.T) {
	t.Parallel()
	for name, statement := range map[string]string{
		"a column is there already": "ALTER TABLE agent ADD COLUMN disabled_at TEXT",
		"an agent of nobody":        "INSERT INTO agent VALUES (77, 'a', '', NULL)",
	} {
		path, _ := schema1(t)
		must(t, other(t, path, statement, "PRAGMA wal_checkpoint(TRUNCATE)").Close())
		as := shape(t, path)
		if _, err := store.Open(ctx, path, schema(t), cred.Domain{}); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
		compareShapes(t, name, shape(t, path), as)
	}
}

// The number of agents is kept by the file itself, whoever writes.
func TestAgentsAreCounted(t *testing.T) {
	t.Parallel()
	path, _ := schema1(t)
	s := open(t, path)
	c := got(s.Company(ctx, "acme"))(t)
	db := other(t, path)
	check := func(want int) {
		t.Helper()
		var n int
		must(t, db.QueryRow("SELECT agents FROM company_usage WHERE company = ?", c.Chain).Scan(&n))
		if n != want {
			t.Errorf("%d agents are counted, want %d", n, want)
		}
	}
	check(2)
	register := func(id string) {
		t.Helper()
		_, err := s.RegisterAgent(ctx, by(c, now), id, nil, many)
		must(t, err)
	}
	register("third")
	check(3)
	register("third") // again, which replaces it
	register("git-bot")
	check(3)
	_, err := db.Exec("DELETE FROM agent WHERE company = ? AND agent_id <> 'third'", c.Chain)
	must(t, err)
	check(1)
	newcomer, _ := company(t, s, "newcomer")
	if err := db.QueryRow("SELECT agents FROM company_usage WHERE company = ?", newcomer.Chain).Scan(new(int)); !errors.Is(err, sql.ErrNoRows) {
		t.Errorf("a company without agents: %v", err)
	}
}
