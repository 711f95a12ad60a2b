package store_test

import (
	"database/sql"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"attestd/crypto/keys"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/admin"
	"attestd/store/storetest"
)

// older are the schemas before the current one. Of each there is a file, schema-N.db, that a server
// of that schema wrote over its API, with two agents a company, and records with a delegation and
// without. In schema 1, acme has 300 records and so a stored subtree root, and so it has in schema
// 10. In schema 2 the second key made the client, and git-bot is disabled. From schema 4 on there
// are also a reader's key that expires and a writer's; acme has had three keys, the first two
// compromised. From schema 8 on each has its control log. In schema 9, acme has 600 records, for
// which a later schema has summaries. In schema 20 deploy-bot has a key, agentKey, with which it
// has made a session of statements, and there are webhooks, idempotency keys, policies and
// enrolments. Those of schemas 21 to 23 are the one of the schema before, as a server of theirs has
// left it. When each was in use: its access tokens and passports had not expired
var older = map[string]time.Time{
	"1":  time.Date(2026, 11, 21, 17, 20, 0, 0, time.UTC),
	"2":  time.Date(2026, 11, 21, 18, 35, 0, 0, time.UTC),
	"4":  time.Date(2026, 11, 21, 20, 40, 0, 0, time.UTC),
	"5":  time.Date(2026, 11, 21, 21, 0, 0, 0, time.UTC),
	"8":  time.Date(2026, 11, 21, 23, 34, 0, 0, time.UTC),
	"9":  time.Date(2026, 11, 22, 6, 3, 40, 0, time.UTC),
	"10": time.Date(2026, 11, 22, 18, 34, 42, 0, time.UTC),
	"12": time.Date(2026, 11, 23, 4, 37, 12, 0, time.UTC),
	"13": time.Date(2026, 11, 23, 7, 9, 54, 0, time.UTC),
	"14": time.Date(2026, 11, 23, 7, 58, 50, 0, time.UTC),
	"15": time.Date(2026, 11, 23, 8, 19, 21, 0, time.UTC),
	"16": time.Date(2026, 11, 23, 11, 10, 50, 0, time.UTC),
	"17": time.Date(2026, 11, 23, 14, 3, 14, 0, time.UTC),
	"18": time.Date(2026, 11, 23, 18, 44, 7, 0, time.UTC),
	"19": time.Date(2026, 11, 23, 21, 0, 24, 0, time.UTC),
	"20": time.Date(2026, 11, 26, 13, 58, 0, 0, time.UTC),
	"21": time.Date(2026, 11, 28, 5, 18, 4, 0, time.UTC),
	"22": time.Date(2026, 11, 28, 5, 18, 4, 0, time.UTC),
	"23": time.Date(2026, 11, 28, 5, 18, 4, 0, time.UTC),
}

// current is the schema of this program.
const current = "24"

// fixture is the content of schema-N.json: the companies of schema-N.db.
type fixture map[string]struct {
	Keys                          []string
	ClientID, ClientSecret, Token string
	Reader                        string
	Passports                     []string
	Revoked                       string
}

// hasMAC reports whether access tokens of a schema have a MAC.
func hasMAC(version string) bool { return len(version) == 2 && version > "10" }

// written copies the file of an older schema to a path where a test may write.
func written(t testing.TB, version string) (string, fixture) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "attestd.db")
	must.OK(t, os.WriteFile(path, got(os.ReadFile("testdata/schema-"+version+".db"))(t), 0o600))
	var f fixture
	must.OK(t, json.Unmarshal(got(os.ReadFile("testdata/schema-"+version+".json"))(t), &f))
	return path, f
}

// shape returns the schema of a file: its version and the text of every table, index and trigger
// without comments and spaces.
func shape(t testing.TB, path string) map[string]string {
	t.Helper()
	db := other(t, path)
	defer db.Close()
	rows, err := db.Query("SELECT type || ' ' || name, coalesce(sql, '') FROM sqlite_schema UNION ALL SELECT 'version', user_version FROM pragma_user_version")
	must.OK(t, err)
	defer rows.Close()
	found := map[string]string{}
	for rows.Next() {
		var name, text string
		must.OK(t, rows.Scan(&name, &text))
		text = regexp.MustCompile(`--.*`).ReplaceAllString(text, "")
		found[name] = regexp.MustCompile(`\s*([^\w\s]|\s)\s*`).ReplaceAllString(text, "$1")
	}
	must.OK(t, rows.Err())
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

func TestOlderSchemaIsUpgraded(t *testing.T) {
	testenv.Needs(t, testenv.NotQuick, testenv.NotRaced)
	storetest.AboutFile(t)
	t.Parallel()
	for version, before := range older {
		path, companies := written(t, version)
		s := open(t, path)
		if n := s.Notices(); len(n) != 1 || !strings.Contains(n[0], "from schema "+version+" to "+current) {
			t.Errorf("schema %s: notices: %q", version, n)
		}
		must.OK(t, s.VerifyAll(ctx, "", 2, nil, nil))
		for id, f := range companies {
			c := got(s.Companies.Get(ctx, id))(t)
			// tokens that were issued before tokens had a MAC are invalid
			who, err := s.Credentials.Authenticate(ctx, keys.HashSecret(f.Token), before)
			if hasMAC(version) && (err != nil || who.Company.ID != id) || !hasMAC(version) && !errors.Is(err, store.ErrNotFound) {
				t.Errorf("schema %s, %s: an access token of before: %v, %v", version, id, who, err)
			}
			for _, secret := range f.Keys {
				if who, err := s.Credentials.Authenticate(ctx, keys.HashSecret(secret), before); err != nil || who.Company.ID != id || who.Role != store.Admin {
					t.Errorf("%s: credential %.6s…: %v, %v", id, secret, who, err)
				}
			}
			for _, secret := range f.Keys {
				if who := got(s.Credentials.Authenticate(ctx, keys.HashSecret(secret), before))(t); !who.Expires.IsZero() {
					t.Errorf("%s: a key expires: %v", id, who)
				}
			}
			_, _, err = s.Credentials.IssueTo(ctx, f.ClientID, f.ClientSecret, time.Hour, before)
			must.OK(t, err)
			if p := got(s.Passport(ctx, by(c, before), f.Passports[0]))(t); p.RevokedAt != "" {
				t.Errorf("%s: a passport is revoked: %+v", id, p)
			}
			if p := got(s.Passport(ctx, by(c, before), f.Revoked))(t); p.RevokedAt == "" || *p.Reason != "lost" {
				t.Errorf("%s: a revocation is gone: %+v", id, p)
			}
			if k := got(s.Credentials.FirstKey(ctx, id))(t); k.Key != f.Keys[0] {
				t.Errorf("%s: first key %+v", id, k)
			}
			if page := all(t, s.Agents.List(ctx, by(c, now), store.AgentFilter{}, "")); len(page) != 2 {
				t.Errorf("%s: agents %v", id, page)
			}
			attest(t, s, c, 10)
			_, err = s.Agents.Register(ctx, by(c, now), "new-bot", nil, many)
			must.OK(t, err)
		}
		must.OK(t, s.VerifyAll(ctx, "", 2, nil, nil))
		must.OK(t, s.Close())
		if n := open(t, path).Notices(); len(n) != 0 {
			t.Errorf("schema %s: at the second start: %q", version, n)
		}
		out := target(t)
		must.OK(t, admin.Backup(ctx, path, out, schema(t), nil)) // a backup runs all its checks
		_, empty := fresh(t)
		compareShapes(t, "upgraded from "+version, shape(t, path), shape(t, empty))
	}
}

// The credentials and agents of schema 2 are still known after an upgrade.
func TestUpgradeKeepsSchema2Data(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	path, companies := written(t, "2")
	s := open(t, path)
	for id, f := range companies {
		c := got(s.Companies.Get(ctx, id))(t)
		first, second := keys.Fingerprint(keys.HashSecret(f.Keys[0])), keys.Fingerprint(keys.HashSecret(f.Keys[1]))
		list := all(t, s.Credentials.List(ctx, by(c, now), ""))
		if len(list) != 3 || list[0].MadeBy != "" || list[1].MadeBy != first || list[2].MadeBy != second {
			t.Errorf("%s: credentials %+v", id, list)
		}
		for _, credential := range list {
			if credential.Role != store.Admin || credential.ExpiresAt != "" || credential.LastUsedAt != "2026-11-21T18:00:00.000Z" {
				t.Errorf("%s: credential %+v", id, credential)
			}
		}
		if err := s.Agents.Check(ctx, by(c, now), "git-bot"); !errors.Is(err, store.ErrDisabled) {
			t.Errorf("%s: git-bot: %v", id, err)
		}
		_, err := s.Credentials.DeleteClient(ctx, by(c, now), f.ClientID)
		must.OK(t, err)
		if _, err := s.Credentials.Authenticate(ctx, keys.HashSecret(f.Token), older["2"]); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: a token outlives its client: %v", id, err)
		}
	}
}

// A file that must be upgraded before it is served can be read, and a backup of it keeps its
// schema, so that the attestd that wrote it can use the backup.
func TestOlderSchemaIsReadable(t *testing.T) {
	testenv.Needs(t, testenv.NotQuick, testenv.NotRaced)
	storetest.AboutFile(t)
	t.Parallel()
	for version := range older {
		path, companies := written(t, version)
		as := shape(t, path)
		content := got(os.ReadFile(path))(t)
		s, err := store.OpenReadOnly(ctx, path)
		must.OK(t, err)
		must.OK(t, s.VerifyAll(ctx, "", 2, nil, nil))
		if k := got(s.Credentials.FirstKey(ctx, "acme"))(t); k.Key != companies["acme"].Keys[0] {
			t.Errorf("schema %s: first key %+v", version, k)
		}
		must.OK(t, s.Close())
		out := target(t)
		must.OK(t, admin.Backup(ctx, path, out, schema(t), nil))
		compareShapes(t, "backup", shape(t, out), as)
		restored := target(t)
		must.OK(t, restore(t, out, restored, admin.RestoreOptions{}))
		compareShapes(t, "restored", shape(t, restored), as)
		must.OK(t, open(t, restored).VerifyAll(ctx, "", 2, nil, nil))
		if string(got(os.ReadFile(path))(t)) != string(content) {
			t.Errorf("schema %s: reading has changed the file", version)
		}
	}
}

// A crash at any moment leaves either the old schema or the new one: the test cuts the write-ahead
// log of an upgrade at every frame and within a frame. With -long it tests the upgrade from one
// schema, with -night those from all.
func TestUpgradeIsAtomic(t *testing.T) {
	testenv.Needs(t, testenv.Slow, testenv.NotRaced)
	storetest.AboutFile(t)
	t.Parallel()
	_, empty := fresh(t)
	newest := shape(t, empty)
	for version := range older {
		if version != "10" && !testenv.Night() {
			continue
		}
		path, _ := written(t, version)
		content := got(os.ReadFile(path))(t)
		old := shape(t, path)
		s := open(t, path)
		log := got(os.ReadFile(path + "-wal"))(t)
		must.OK(t, s.Close())

		outcomes := map[string]int{}
		for cut := range crashes(t, content, log) {
			found := shape(t, cut)
			outcomes[found["version"]]++
			if found["version"] == version {
				compareShapes(t, "absent", found, old)
			} else {
				compareShapes(t, "whole", found, newest)
			}
			s := open(t, cut)
			must.OK(t, s.VerifyAll(ctx, "", 1, nil, nil))
			must.OK(t, s.Close())
			compareShapes(t, "after the next start", shape(t, cut), newest)
		}
		if outcomes[version] == 0 || outcomes[current] == 0 || len(outcomes) != 2 {
			t.Errorf("files by version: %v", outcomes)
		}
	}
}

// A file that does not match its version is refused, and its schema does not change.
func TestUpgradeOfMalformedFileIsRefused(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	for _, wrong := range []struct{ name, version, statement string }{
		{"a column is there already", "1", "ALTER TABLE agent ADD COLUMN disabled_at TEXT"},
		{"an agent of nobody", "1", "INSERT INTO agent VALUES (77, 'a', '', NULL)"},
		{"a role is there already", "2", "ALTER TABLE api_key ADD COLUMN role TEXT"},
		{"a role is there already, two steps ahead", "1", "ALTER TABLE oauth_client ADD COLUMN role TEXT"},
	} {
		path, _ := written(t, wrong.version)
		must.OK(t, other(t, path, wrong.statement, "PRAGMA wal_checkpoint(TRUNCATE)").Close())
		as := shape(t, path)
		if _, err := store.Open(ctx, path, schema(t), store.Options{}); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%s: %v", wrong.name, err)
		}
		compareShapes(t, wrong.name, shape(t, path), as)
	}
}

// The file itself counts the agents, whichever program writes.
func TestAgentsAreCounted(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	path, _ := written(t, "1")
	s := open(t, path)
	c := got(s.Companies.Get(ctx, "acme"))(t)
	db := other(t, path)
	check := func(want int) {
		t.Helper()
		var n int
		must.OK(t, db.QueryRow("SELECT agents FROM company_usage WHERE company = ?", c.Chain).Scan(&n))
		if n != want {
			t.Errorf("%d agents are counted, want %d", n, want)
		}
	}
	check(2)
	register := func(id string) {
		t.Helper()
		_, err := s.Agents.Register(ctx, by(c, now), id, nil, many)
		must.OK(t, err)
	}
	register("third")
	check(3)
	register("third") // registering again replaces the agent
	register("git-bot")
	check(3)
	_, err := db.Exec("DELETE FROM agent WHERE company = ? AND agent_id <> 'third'", c.Chain)
	must.OK(t, err)
	check(1)
	newcomer, _ := company(t, s, "newcomer")
	if err := db.QueryRow("SELECT agents FROM company_usage WHERE company = ?", newcomer.Chain).Scan(new(int)); !errors.Is(err, sql.ErrNoRows) {
		t.Errorf("a company without agents: %v", err)
	}
}
