package postgres_test

import (
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"attestd/internal/testenv"
	"attestd/store/postgres"
)

// role creates a role that may log in and nothing else, and returns the URL for that role.
func role(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	name := "Server of " + strings.TrimPrefix(u.Path, "/") // roles belong to the whole cluster
	db := open(t, address)
	execute(t, db, `CREATE ROLE "`+name+`" LOGIN PASSWORD 'p'`)
	t.Cleanup(func() {
		db := open(t, address)
		if _, err := db.Exec(`DROP OWNED BY "` + name + `"; DROP ROLE "` + name + `"`); err != nil {
			t.Error(err)
		}
	})
	return with(t, address, name, "p", nil)
}

// granted returns the URL of a role with the grants of a server.
func granted(t *testing.T, address string) string {
	t.Helper()
	server := role(t, address)
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	execute(t, open(t, address), "REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA public FROM PUBLIC", postgres.Grants("public", u.User.Username()))
	return server
}

// With the printed grants alone, a role can do everything that a server does.
func TestGrantsSufficeToServe(t *testing.T) {
	_, address := created(t)
	db := open(t, granted(t, address))
	if d, err := postgres.Identify(t.Context(), db); err != nil || d.Namespace != "public" {
		t.Fatal(err)
	}
	execute(t, db, strings.Replace(tenant, "INSERT INTO witness_log", "INSERT INTO cosignature (log_id, witness, size, note, line) VALUES ('a', 'w', 1, 'n', 'l'); INSERT INTO witness_log", 1))
	execute(t, db,
		"UPDATE head SET length = 1, root = sha256('r'), frontier = sha256('r'), timestamp = 't', log_root = sha256('l'), log_frontier = sha256('l') WHERE chain = 1",
		"UPDATE head SET epoch = epoch + 1 WHERE chain = 1",
		"SELECT * FROM head ORDER BY chain FOR UPDATE",
		"UPDATE company_key SET ended_at = 't', compromised_at = 't', seed = NULL",
		"INSERT INTO setting (name, value) VALUES ('trust_settings', '{}')", "DELETE FROM setting WHERE name = 'trust_settings' RETURNING value",
		"INSERT INTO setting (name, value) SELECT 'export', '1' WHERE NOT EXISTS (SELECT 1 FROM duty WHERE run = 'r') ON CONFLICT (name) DO NOTHING",
		"INSERT INTO checkpoint (log_id, size, note) VALUES ('a', 6, 'm') ON CONFLICT (log_id) DO UPDATE SET size = excluded.size, note = excluded.note WHERE excluded.size >= checkpoint.size",
		"INSERT INTO cosignature (log_id, witness, size, note, line) VALUES ('a', 'w', 2, 'n', 'l') ON CONFLICT (log_id, witness) DO UPDATE SET size = excluded.size, note = excluded.note, line = excluded.line",
		"INSERT INTO witness_log (origin, origin_hash, size, root, note) VALUES ('o', sha256('o'), 6, sha256('s'), 'n') ON CONFLICT (origin) DO UPDATE SET size = excluded.size, root = excluded.root, note = excluded.note",
		"INSERT INTO idempotency_key (chain, name, request, idx, expires_at) VALUES (1, sha256('a'), sha256('b'), 0, 1)",
		"INSERT INTO idempotency_key (chain, name, request, idx, expires_at) VALUES (1, sha256('a'), sha256('b'), 0, 1) ON CONFLICT (chain, name) DO UPDATE SET request = excluded.request, idx = excluded.idx, expires_at = excluded.expires_at",
		"DELETE FROM idempotency_key WHERE expires_at < 2",
		"INSERT INTO webhook (company, webhook_id, url, created_at, public_key, fingerprint, secret, next_record) VALUES (1, 'w', 'u', 't', sha256('p'), 'f', 's', 0)",
		"UPDATE webhook SET next_record = 1, next_control = 1, attempts = 1, retry_at = 1", "UPDATE webhook SET disabled_at = 't', disabled_reason = 'gone'",
		"UPDATE webhook SET secret = 't', public_key = sha256('q'), fingerprint = 'g', former_secret = 's', former_until = 1", "DELETE FROM webhook",
		"INSERT INTO api_key (company, hash, key, created_at) VALUES (1, 'h', 'k', 't')", "UPDATE api_key SET last_used_at = 't'", "DELETE FROM api_key",
		"INSERT INTO oauth_client (company, client_id, secret_hash, created_at) VALUES (1, 'c', sha256('s'), 't')", "UPDATE oauth_client SET last_used_at = 't'",
		"INSERT INTO oauth_token (hash, company, expires_at, client) SELECT 'h', company, 1, id FROM oauth_client", "DELETE FROM oauth_client", "DELETE FROM oauth_token",
		"INSERT INTO agent (company, agent_id, registered_at) VALUES (1, 'a', 't') ON CONFLICT (company, agent_id) DO UPDATE SET registered_at = excluded.registered_at, metadata = excluded.metadata",
		"UPDATE agent SET disabled_at = 't'", "UPDATE passport SET revoked_at = 't', reason = 'r'",
		"INSERT INTO passport (company, jti, agent_id, scopes, issued_at, expires_at, revoked_at) VALUES (1, 'r', 'a', '[]', 1, 2, 't')", "DELETE FROM passport WHERE jti = 'r'",
		"INSERT INTO agent_session (company, agent_id, kid, sid) VALUES (1, 'a', 'hook', 's')", "DELETE FROM agent_session",
		"UPDATE company_usage SET revocations = revocations",
		"INSERT INTO writer (started_at) VALUES ('t')", "UPDATE writer SET seq = 1, moved = '{1}', touched = now()", "SELECT FROM writer FOR UPDATE", "DELETE FROM writer",
		"INSERT INTO feed (chains, lengths) VALUES ('{1}', '{1}')", "SELECT * FROM feed WHERE tx >= pg_snapshot_xmin(pg_current_snapshot())",
		"DELETE FROM feed WHERE ctid IN (SELECT ctid FROM feed ORDER BY tx LIMIT 10) AND at < now()",
		"INSERT INTO duty (name, holder, until, run) VALUES ('n', 'h', now(), 'r') ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until, run = excluded.run",
		"UPDATE duty SET until = now()", "DELETE FROM duty",
		"SELECT pg_advisory_xact_lock(1)",
		"SELECT json_extract(payload, '$.actionType') FROM record WHERE id < 0 AND CASE WHEN json_valid(payload) THEN json_extract(payload, '$.payload.subject') END = 'agent:a'",
		"SELECT value FROM json_each('{}', '$.a') AS x",
	)
	for _, statement := range []string{"UPDATE passport SET revoked_at = NULL", "UPDATE passport SET revoked_at = NULL, reason = NULL WHERE jti = 'p'"} {
		var refused *pgconn.PgError
		if _, err := db.ExecContext(t.Context(), statement); !errors.As(err, &refused) || refused.ConstraintName != "passport_only_revoked" {
			t.Errorf("%s: %v", statement, err)
		}
	}
	wrong, err := postgres.Check(t.Context(), db)
	if err != nil || len(wrong) != 0 {
		t.Fatal(wrong, err)
	}
}

// A role with the grants cannot change or remove a protected row, even if the owner has disabled
// the guards.
func TestGrantsAreMinimal(t *testing.T) {
	testenv.Needs(t, testenv.NotQuick)
	owner, address := created(t)
	execute(t, owner, tenant)
	db := open(t, granted(t, address))
	fixed := []string{"record", "node", "log", "log_key", "company", "company_key", "head", "checkpoint", "cosignature", "witness_key", "witness_log", "agent", "passport", "company_usage"}
	for _, table := range fixed {
		execute(t, owner, "ALTER TABLE "+table+" DISABLE TRIGGER ALL")
	}
	refused := func(statement string) {
		t.Helper()
		_, err := db.ExecContext(t.Context(), statement)
		var e *pgconn.PgError
		if !errors.As(err, &e) || e.Code != "42501" {
			t.Errorf("%s: %v", statement, err)
		}
	}
	for _, table := range fixed {
		if table != "passport" { // only what has ended: see TestPassportsGoADayAfterTheirEnd
			refused("DELETE FROM " + table)
		}
		refused("TRUNCATE " + table + " CASCADE")
		refused("ALTER TABLE " + table + " DISABLE TRIGGER ALL")
		refused("DROP TABLE " + table)
	}
	for _, statement := range []string{
		"UPDATE record SET hash = hash", "UPDATE record SET payload = '', timestamp = timestamp", "UPDATE record SET delegation = NULL", "SELECT * FROM node FOR UPDATE", "UPDATE node SET hash = hash", "UPDATE log SET origin = origin", "UPDATE log_key SET first_record = 1",
		"UPDATE company SET metadata = '{}'", "UPDATE company_key SET public_key = public_key", "UPDATE head SET chain = chain", "UPDATE checkpoint SET log_id = log_id",
		"UPDATE witness_log SET origin = origin", "UPDATE witness_key SET seed = seed", "UPDATE setting SET value = value", "UPDATE api_key SET hash = hash, role = 'admin'",
		"UPDATE oauth_client SET secret_hash = secret_hash", "UPDATE oauth_token SET expires_at = 1", "UPDATE passport SET expires_at = 9", "UPDATE agent SET company = 1",
		"CREATE TABLE more (n int)", "CREATE OR REPLACE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'", "SET session_replication_role = replica",
	} {
		refused(statement)
	}
}

// The grants revoke what the role had before, and every table has a line.
func TestGrantsCoverEveryTable(t *testing.T) {
	db, address := created(t)
	server := role(t, address)
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	execute(t, db, `GRANT ALL ON ALL TABLES IN SCHEMA public TO "`+u.User.Username()+`"`, postgres.Grants("public", u.User.Username()))
	var excess int
	scan(t, db, &excess, `SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND (has_table_privilege($1, oid, 'UPDATE') OR has_table_privilege($1, oid, 'TRUNCATE'))`, u.User.Username())
	if excess != 0 {
		t.Errorf("%d tables may be changed as a whole", excess)
	}
	rows, err := db.QueryContext(t.Context(), "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' ORDER BY relname COLLATE \"C\"")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var tables []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		tables = append(tables, name)
	}
	if granted := postgres.Granted(); rows.Err() != nil || !slices.Equal(tables, granted) {
		t.Errorf("tables %q, and grants for %q", tables, granted)
	}
}

// A role without grants is refused, and the error names the command that prints them.
func TestRoleWithoutGrantsIsRefused(t *testing.T) {
	_, address := created(t)
	_, err := postgres.Identify(t.Context(), open(t, role(t, address)))
	if !errors.Is(err, postgres.ErrRefused) || !strings.Contains(err.Error(), "`attestd migrate` prints the grants") {
		t.Fatal(err)
	}
}
