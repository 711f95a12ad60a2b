package postgres_test

import (
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"attestd/internal/testenv"
	"attestd/store/postgres"
	"attestd/store/postgres/pgtest"
)

// If several servers start on an empty database at once, one creates the tables and the others find
// them.
func TestConcurrentStartsCreateOneDatabase(t *testing.T) {
	t.Parallel()
	address := pgtest.Database(t)
	var wait sync.WaitGroup
	for n := range 8 {
		db := open(t, address)
		wait.Go(func() {
			if err := postgres.Create(t.Context(), db, map[string]string{"database_id": fmt.Sprint(n), "service_name": fmt.Sprint(n)}); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	d, err := postgres.Identify(t.Context(), open(t, address))
	if err != nil || d.Version != postgres.Version || d.Settings["database_id"] == "" || d.Settings["database_id"] != d.Settings["service_name"] {
		t.Fatal(d, err)
	}
	wantWrong(t, address)
}

// A role that may not create tables is refused, and leaves nothing.
func TestRoleWithoutCreateIsRefused(t *testing.T) {
	t.Parallel()
	address := pgtest.Database(t)
	other := role(t, address)
	err := postgres.Create(t.Context(), open(t, other), nil)
	if !errors.Is(err, postgres.ErrRefused) || !strings.Contains(err.Error(), "permission denied for schema public") {
		t.Fatal(err)
	}
	if _, err := postgres.Identify(t.Context(), open(t, other)); !errors.Is(err, postgres.ErrNotFound) {
		t.Fatal(err)
	}
}

// createdAt9 returns a database as the first servers with PostgreSQL created it.
func createdAt9(t *testing.T) (*sql.DB, string) {
	t.Helper()
	db, address := created(t)
	if _, err := db.ExecContext(t.Context(), `DROP TABLE summary; ALTER TABLE oauth_token DROP COLUMN mac, DROP COLUMN agent_key, DROP COLUMN bound, DROP COLUMN scope, DROP COLUMN jkt, DROP COLUMN details;
		ALTER TABLE oauth_client DROP COLUMN jwks, DROP COLUMN jwks_uri; DROP TABLE revoked_token;
		ALTER TABLE passport DROP COLUMN jkt CASCADE, DROP COLUMN details CASCADE; ALTER TABLE webhook DROP COLUMN next_control, DROP COLUMN mac CASCADE; DROP FUNCTION webhook_without_mac; ALTER TABLE writer DROP COLUMN schema; ALTER TABLE duty DROP COLUMN run;
		DROP TRIGGER head_bytes_counted ON head; DROP FUNCTION head_bytes_counted; DROP TRIGGER head_only_grows ON head; DROP FUNCTION head_stays; ALTER TABLE head DROP COLUMN bytes;
		CREATE TRIGGER head_only_grows BEFORE UPDATE ON head FOR EACH ROW WHEN (
		    NEW.chain <> OLD.chain OR NEW.epoch < OLD.epoch OR NEW.length < OLD.length OR NEW.length = OLD.length AND (NEW.epoch = OLD.epoch
		      OR (NEW.root, NEW.frontier, NEW.timestamp, NEW.log_root, NEW.log_frontier)
		        IS DISTINCT FROM (OLD.root, OLD.frontier, OLD.timestamp, OLD.log_root, OLD.log_frontier)))
		  EXECUTE FUNCTION refuse_change('a head only grows'); DROP TABLE company_suspension, company_quota, federation_use, federated_token, federation, agent_key, enrolment, attest_policy, company_policy, cedar_policy, cedar_set, agent_groups, decision_policy, person, passkey, invitation, person_session, approval, change_policy, call_watch, refused_call, agent_session, used_proof, token_key; DROP TRIGGER IF EXISTS passport_only_revoked ON passport; DROP TRIGGER passport_no_delete ON passport;
		DROP TRIGGER record_no_update ON record; DROP FUNCTION record_only_pruned;
		CREATE TRIGGER record_no_update BEFORE UPDATE ON record EXECUTE FUNCTION refuse_change('records are append-only');
		DROP TRIGGER company_usage_passport_deleted ON passport; DROP FUNCTION company_usage_passport_deleted; ALTER TABLE company_usage DROP COLUMN deleted_revocations;
		DROP TRIGGER passport_no_truncate ON passport; DROP INDEX passport_live; CREATE INDEX passport_unrevoked ON passport (company, agent_id) WHERE revoked_at IS NULL;
		DROP TRIGGER company_usage_passport_revoked ON passport;
		CREATE OR REPLACE FUNCTION company_usage_passport_revoked() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
		  INSERT INTO company_usage AS u (company, agents, revocations) VALUES (NEW.company, 0, 1)
		    ON CONFLICT (company) DO UPDATE SET revocations = u.revocations + 1;
		  RETURN NULL;
		END $$;
		CREATE TRIGGER company_usage_passport_revoked AFTER UPDATE OF revoked_at ON passport FOR EACH ROW
		  WHEN (OLD.revoked_at IS NULL AND NEW.revoked_at IS NOT NULL) EXECUTE FUNCTION company_usage_passport_revoked();
		CREATE OR REPLACE FUNCTION next_company() RETURNS bigint LANGUAGE plpgsql AS $$
		BEGIN
		  RETURN (SELECT coalesce(max(id), 0) + 1 FROM company);
		END $$;
		UPDATE setting SET value = '9' WHERE name LIKE 'schema%'`); err != nil {
		t.Fatal(err)
	}
	return db, address
}

// A database of schema 9 is brought to the schema of a new one, and the server's role needs no new
// grants.
func TestSchema9IsUpgraded(t *testing.T) {
	testenv.Needs(t, testenv.NotQuick)
	db, address := createdAt9(t)
	server := role(t, address)
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	execute(t, db, "INSERT INTO company (company_id, registered_at) VALUES ('acme', '')")
	execute(t, db, "INSERT INTO log (chain, company, name, log_id, origin) VALUES (1, 1, 'actions', 'a', 'a'), (-1, 1, 'control', 'c', 'c')")
	execute(t, db, "INSERT INTO head (chain, length, root, frontier, timestamp) VALUES (1, 3, sha256('r'), '', ''), (-1, 7, sha256('r'), '', '')")
	execute(t, db, "INSERT INTO webhook (company, webhook_id, url, created_at, public_key, fingerprint, secret, next_record) VALUES (1, 'w', 'u', 't', sha256('p'), 'f', 's', 2)")
	grants := regexp.MustCompile(`(?m)^.*(summary|agent_key|enrolment|attest_policy|company_policy|cedar_policy|cedar_set|agent_groups|decision_policy|person|passkey|invitation|person_session|approval|change_policy|call_watch|refused_call|agent_session|used_proof|token_key|revoked_token|federation|federated_token|federation_use|company_suspension|company_quota).*$`).ReplaceAllString(postgres.Grants("public", u.User.Username()), "")
	execute(t, db, strings.NewReplacer(", next_control", "", ", mac", "", "epoch, bytes", "epoch", ", deleted_revocations", "", "(revoked_at, reason), DELETE", "(revoked_at, reason)", ", UPDATE (payload)", "", "until, run", "until").Replace(grants))
	if err := postgres.Migrate(t.Context(), db, func(int) {}); err != nil {
		t.Fatal(err)
	}
	wantWrong(t, address)
	var settings string
	scan(t, db, &settings, "SELECT string_agg(name || '=' || value, ' ' ORDER BY name) FROM setting WHERE name LIKE 'schema%' OR name LIKE 'unlisted%'")
	// the next start lists the company
	if settings != fmt.Sprintf("schema=%d schema_compatible=20 unlisted_companies=true", postgres.Version) {
		t.Errorf("settings %s", settings)
	}
	// a webhook sends no earlier control record, and the server may store its position
	var position string
	scan(t, db, &position, "SELECT next_record || ' ' || next_control FROM webhook")
	if position != "2 7" {
		t.Errorf("the webhook is at %s", position)
	}
	execute(t, open(t, server), "UPDATE webhook SET next_control = 8")
	if _, err := open(t, server).ExecContext(t.Context(), "INSERT INTO summary VALUES (1, '') ON CONFLICT (id) DO NOTHING"); err != nil {
		t.Fatal(err)
	}
	if _, err := open(t, server).ExecContext(t.Context(), "DELETE FROM summary"); err == nil {
		t.Fatal("a server may delete summaries")
	}
}

// A migration runs each due step once, even if several programs migrate at the same time.
func TestConcurrentMigrationsRunEachStepOnce(t *testing.T) {
	_, address := createdAt9(t)
	steps := []postgres.Step{ // they follow attestd's steps
		{"CREATE TABLE more (n int); INSERT INTO more VALUES (1)", 9},
		{"ALTER TABLE more ADD COLUMN m int NOT NULL DEFAULT 2; INSERT INTO more VALUES (3)", 9},
		{"ALTER TABLE more DROP COLUMN n", 24},
	}
	var mu sync.Mutex
	var taken []int
	var wait sync.WaitGroup
	for range 4 {
		db := open(t, address)
		wait.Go(func() {
			err := postgres.MigrateWith(t.Context(), db, func(version int) {
				mu.Lock()
				defer mu.Unlock()
				taken = append(taken, version)
			}, steps...)
			if err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	slices.Sort(taken)
	var settings string
	scan(t, open(t, address), &settings, "SELECT string_agg(name || '=' || value, ' ' ORDER BY name) FROM setting WHERE name LIKE 'schema%'")
	var want []int // the first step leads to schema 10
	for n := 10; n <= postgres.Version+3; n++ {
		want = append(want, n)
	}
	if !slices.Equal(taken, want) || settings != fmt.Sprintf("schema=%d schema_compatible=24", postgres.Version+3) {
		t.Fatal(taken, settings)
	}
}

// While a database is migrated, servers of the previous version go on until a step after which they
// cannot serve it.
func TestPreviousVersionKeepsServing(t *testing.T) {
	db, _ := created(t)
	adds, takes := postgres.Step{"CREATE TABLE more (n int)", 9}, postgres.Step{"DROP TABLE more", postgres.Version + 2}
	ignore := func(int) {}
	if err := postgres.MigrateWith(t.Context(), db, ignore, adds); err != nil {
		t.Fatal(err)
	}
	if d, err := postgres.Identify(t.Context(), db); err != nil || d.Version != postgres.Version+1 {
		t.Fatal(d, err)
	}
	if err := postgres.MigrateWith(t.Context(), db, ignore, adds, takes); err != nil {
		t.Fatal(err)
	}
	if _, err := postgres.Identify(t.Context(), db); !errors.Is(err, postgres.ErrNewer) {
		t.Fatal(err)
	}
	if err := postgres.Migrate(t.Context(), db, ignore); !errors.Is(err, postgres.ErrNewer) {
		t.Fatal(err)
	}
}

// A step that fails leaves the schema as it was before the step; earlier steps remain.
func TestFailedMigrationStepIsRolledBack(t *testing.T) {
	db, _ := created(t)
	err := postgres.MigrateWith(t.Context(), db, func(int) {}, postgres.Step{"CREATE TABLE more (n int)", 9}, postgres.Step{"CREATE TABLE second (n int); DROP TABLE nowhere", 9})
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("to schema %d", postgres.Version+2)) {
		t.Fatal(err)
	}
	var tables string
	scan(t, db, &tables, "SELECT concat(to_regclass('more'), to_regclass('second'), (SELECT value FROM setting WHERE name = 'schema'))")
	if tables != fmt.Sprintf("more%d", postgres.Version+1) {
		t.Fatal(tables)
	}
}

// The version of a new database is that of the last step, so no step can be forgotten in schema.sql
// or in Version.
func TestSchemaMatchesVersion(t *testing.T) {
	db, _ := created(t)
	d, err := postgres.Identify(t.Context(), db)
	if err != nil || d.Version != postgres.Version || postgres.Version != 9+postgres.StepCount() {
		t.Fatal(d, err)
	}
	if err := postgres.Migrate(t.Context(), db, func(int) { t.Error("a step was taken") }); err != nil {
		t.Fatal(err)
	}
}
