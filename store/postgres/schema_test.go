package postgres_test

import (
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"attestd/store/postgres"
)

// A company with its logs, a record in each, and one row at least in every other table that guards stand on.
const tenant = `
INSERT INTO company (company_id, registered_at) VALUES ('acme', 't');
INSERT INTO company_key (company, generation, public_key, seed, created_at) VALUES (1, 0, sha256('k'), 's', 't');
INSERT INTO log (chain, company, name, log_id, origin) VALUES (1, 1, 'actions', 'a', 'o/a'), (-1, 1, 'control', 'c', 'o/c');
INSERT INTO log_key (chain, generation, first_record) VALUES (1, 0, 0), (-1, 0, 0);
INSERT INTO head (chain, length, root, frontier, timestamp, log_root, log_frontier) VALUES (1, 0, sha256(''), '', '', sha256(''), ''), (-1, 0, sha256(''), '', '', sha256(''), '');
INSERT INTO record (id, hash, signature, timestamp, payload) VALUES (1::bigint << 40, sha256('r'), sha512('r'), 't', '{}'),
  (-1::bigint << 40, sha256('r'), sha512('r'), 't', '{"actionType":"x","payload":{"subject":"agent:a","text":"\u0000"}}');
INSERT INTO node (chain, level, idx, hash) VALUES (1, 8, 0, sha256('n'));
INSERT INTO checkpoint (log_id, size, note) VALUES ('a', 5, 'n');
INSERT INTO witness_key (id, name, public_key, seed, created_at) VALUES (1, 'w', sha256('w'), 's', 't');
INSERT INTO witness_log (origin, origin_hash, size, root, note) VALUES ('o', sha256('o'), 5, sha256('r'), 'n');
INSERT INTO agent (company, agent_id, registered_at) VALUES (1, 'a', 't'), (1, 'b', 't');
INSERT INTO passport (company, jti, agent_id, scopes, issued_at, expires_at) VALUES (1, 'p', 'a', '[]', 1, 2), (1, 'q', 'b', '[]', 1, 2);
`

// Both engines have the same tables, columns, guards and indices, but for what each has alone.
func TestBothSchemasSayTheSame(t *testing.T) {
	sqlite, err := os.ReadFile("../../schema.sql")
	if err != nil {
		t.Fatal(err)
	}
	alone := []string{"TABLE writer", "TABLE feed", "TABLE duty", "INDEX feed_tx", "writer id", "writer started_at", "writer seq", "writer moved", "writer touched",
		"feed tx", "feed at", "feed chains", "feed lengths", "duty name", "duty holder", "duty until", "head epoch"}
	theirs := []string{"TRIGGER record_no_replace"} // a row that is there is never replaced in PostgreSQL
	want := slices.DeleteFunc(names(string(sqlite)), func(n string) bool { return slices.Contains(theirs, n) })
	have := slices.DeleteFunc(names(postgres.SchemaText), func(n string) bool {
		return slices.Contains(alone, n) || strings.HasSuffix(n, "_no_truncate")
	})
	for _, n := range want {
		if !slices.Contains(have, n) {
			t.Errorf("%s is of SQLite alone", n)
		}
	}
	for _, n := range have {
		if !slices.Contains(want, n) {
			t.Errorf("%s is of PostgreSQL alone", n)
		}
	}
}

// names lists the tables, indices, triggers and columns of a schema.
func names(schema string) (found []string) {
	made := regexp.MustCompile(`^CREATE (?:UNIQUE )?(TABLE|INDEX|TRIGGER) (\w+)`)
	column := regexp.MustCompile(`^  ([a-z_]+) +(?:TEXT|INTEGER|BLOB|text|bigint|bytea|xid8|timestamptz)\b`)
	table := ""
	for line := range strings.Lines(schema) {
		if m := made.FindStringSubmatch(line); m != nil {
			found = append(found, m[1]+" "+m[2])
			table = m[2]
		} else if m := column.FindStringSubmatch(line); m != nil {
			found = append(found, table+" "+m[1])
		}
	}
	return found
}

// What must never change is refused as a constraint, by the name of its guard.
func TestWhatMustNotChangeIsGuarded(t *testing.T) {
	db, _ := created(t)
	execute(t, db, tenant)
	for _, c := range []struct{ guard, statement string }{
		{"record_no_update", "UPDATE record SET payload = '{}'"},
		{"record_no_delete", "DELETE FROM record WHERE id = 7"},
		{"record_no_truncate", "TRUNCATE record"},
		{"record_pkey", "INSERT INTO record SELECT * FROM record"},
		{"node_no_update", "UPDATE node SET hash = sha256('m')"},
		{"node_no_delete", "DELETE FROM node"},
		{"node_no_truncate", "TRUNCATE node"},
		{"head_only_grows", "UPDATE head SET length = -1"},
		{"head_only_grows", "UPDATE head SET length = length"},
		{"head_only_grows", "UPDATE head SET root = sha256('m')"},
		{"head_only_grows", "UPDATE head SET epoch = 1, root = sha256('m')"},
		{"head_only_grows", "UPDATE head SET epoch = 1, log_root = NULL"},
		{"head_only_grows", "UPDATE head SET epoch = -1, length = length + 1"},
		{"head_only_grows", "UPDATE head SET chain = 2, length = 1 WHERE chain = 1"},
		{"head_no_delete", "DELETE FROM head"},
		{"head_no_truncate", "TRUNCATE head"},
		{"log_no_update", "UPDATE log SET origin = 'x'"},
		{"log_no_delete", "DELETE FROM log"},
		{"checkpoint_only_grows", "UPDATE checkpoint SET size = 4"},
		{"checkpoint_only_grows", "UPDATE checkpoint SET log_id = 'c'"},
		{"checkpoint_no_delete", "DELETE FROM checkpoint"},
		{"checkpoint_no_truncate", "TRUNCATE checkpoint"},
		{"company_key_only_ends", "UPDATE company_key SET public_key = sha256('m')"},
		{"company_key_only_ends", "UPDATE company_key SET ended_at = 't', seed = NULL; UPDATE company_key SET ended_at = NULL"},
		{"company_key_only_ends", "UPDATE company_key SET ended_at = 't', compromised_at = 't'; UPDATE company_key SET compromised_at = 'u'"},
		{"company_key_no_delete", "DELETE FROM company_key"},
		{"company_key_no_truncate", "TRUNCATE company_key"},
		{"log_key_no_update", "UPDATE log_key SET first_record = 1"},
		{"log_key_no_delete", "DELETE FROM log_key"},
		{"log_key_no_truncate", "TRUNCATE log_key"},
		{"witness_log_only_grows", "UPDATE witness_log SET size = 4"},
		{"witness_log_only_grows", "UPDATE witness_log SET root = sha256('m')"},
		{"witness_log_no_delete", "DELETE FROM witness_log"},
		{"witness_log_no_truncate", "TRUNCATE witness_log"},
		{"witness_key_is_fixed", "UPDATE witness_key SET name = 'v'"},
		{"witness_key_no_delete", "DELETE FROM witness_key"},
		{"witness_key_no_truncate", "TRUNCATE witness_key"},
		{"company_no_update", "UPDATE company SET metadata = '{}'"},
		{"company_no_delete", "DELETE FROM company"},
		{"company_id_check", "INSERT INTO company (id, company_id, registered_at) VALUES (8388608, 'x', 't')"},
		{"log_check", "INSERT INTO log (chain, company, name, log_id, origin) VALUES (1, 1, 'control', 'x', 'x')"},
		{"record_signature_check", "INSERT INTO record (id, hash, signature, timestamp, payload) VALUES (9, sha256(''), '', '', '')"},
	} {
		_, err := db.ExecContext(t.Context(), c.statement)
		var refused *pgconn.PgError
		if !errors.As(err, &refused) || !strings.HasPrefix(refused.Code, "23") || refused.ConstraintName != c.guard {
			t.Errorf("%s: %v, not refused by %s", c.statement, err, c.guard)
		}
	}
}

// What may change does: a head grows, or comes to a later epoch; a key ends; a checkpoint grows.
func TestWhatMayChangeDoes(t *testing.T) {
	db, _ := created(t)
	execute(t, db, tenant,
		"UPDATE head SET length = 1, root = sha256('r'), frontier = sha256('r') WHERE chain = 1", "UPDATE head SET epoch = epoch + 1", "UPDATE head SET epoch = 2, length = 2 WHERE chain = 1",
		"UPDATE checkpoint SET size = 5, note = 'm'", "UPDATE checkpoint SET size = 6",
		"UPDATE company_key SET ended_at = 't', seed = NULL", "UPDATE company_key SET compromised_at = 't'",
		"UPDATE witness_log SET size = 6, root = sha256('s')", "UPDATE witness_key SET seed = 'x'")
}

// What is bounded is counted, whoever writes it.
func TestUsageIsCounted(t *testing.T) {
	db, _ := created(t)
	execute(t, db, tenant, "DELETE FROM agent WHERE agent_id = 'b'", "UPDATE passport SET revoked_at = 't'", "UPDATE passport SET revoked_at = 'u'",
		"INSERT INTO company (company_id, registered_at) VALUES ('other', 't')", "INSERT INTO agent (company, agent_id, registered_at) VALUES (2, 'a', 't') ON CONFLICT (company, agent_id) DO UPDATE SET metadata = NULL",
		"INSERT INTO agent (company, agent_id, registered_at) VALUES (2, 'a', 't') ON CONFLICT (company, agent_id) DO UPDATE SET metadata = '{}'")
	var counted string
	scan(t, db, &counted, "SELECT string_agg(concat(company, ':', agents, ':', revocations), ' ' ORDER BY company) FROM company_usage")
	if counted != "1:1:2 2:1:0" {
		t.Fatal(counted)
	}
}

// A transaction that is rolled back leaves no gap in the numbers of companies.
func TestCompaniesAreNumberedWithoutAGap(t *testing.T) {
	db, _ := created(t)
	const add = "INSERT INTO company (company_id, registered_at) VALUES (gen_random_uuid(), 't') RETURNING id"
	for _, want := range []int{1, 2, 3} {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var lost, id int
		err = errors.Join(tx.QueryRowContext(t.Context(), add).Scan(&lost), tx.Rollback())
		if scan(t, db, &id, add); err != nil || lost != want || id != want {
			t.Fatalf("company %d was rolled back and company %d came, not %d: %v", lost, id, want, err)
		}
	}
}

// The functions that SQLite has by itself read the same of what control records are, whatever else stands in a document.
func TestTheFunctionsOfSQLite(t *testing.T) {
	db, _ := created(t)
	for _, c := range []struct{ expression, want string }{
		{`json_extract('{"payload":{"subject":"agent:a"}}', '$.payload.subject')`, "agent:a"},
		{`json_extract('{"payload":{"subject":"x","other":"\u0000","\u0000":0}}', '$.payload.subject')`, "x"},
		{`json_extract('{"a":"\u00e9\ud83d\ude00"}', '$.a')`, "é😀"},
		{`json_extract('{"a":{"b":17}}', '$.a.b')`, "17"},
		{`json_extract('{"a":null}', '$.a') IS NULL AND json_extract('{}', '$.a.b') IS NULL AND json_extract('[]', '$.a') IS NULL`, "true"},
		{`json_valid('{"a":"\u0000"}') AND json_valid('null') AND json_valid('[1]')`, "true"},
		{`json_valid('') OR json_valid('{') OR json_valid('{"a":"\ud800"}') OR json_valid(repeat('[', 1000000))`, "false"},
		{`(SELECT string_agg(json_extract(value, '$.n'), ',') FROM json_each('{"p":{"l":[{"n":1},{"n":2}]}}', '$.p.l') AS x)`, "1,2"},
		{`(SELECT count(*) FROM json_each('{}', '$.p.l') AS x)`, "0"},
	} {
		var found string
		scan(t, db, &found, "SELECT ("+c.expression+")::text")
		if found != c.want {
			t.Errorf("%s: %s, not %s", c.expression, found, c.want)
		}
	}
}

// Control records are found by their subject in an index, which records of actions are not in; a payload that is no JSON spoils nothing.
func TestControlRecordsAreIndexed(t *testing.T) {
	db, _ := created(t)
	execute(t, db, tenant, "INSERT INTO record (id, hash, signature, timestamp, payload) VALUES ((-1::bigint << 40) + 1, sha256('r'), sha512('r'), 't', 'not JSON')",
		"INSERT INTO record (id, hash, signature, timestamp, payload) SELECT (-1::bigint << 40) + i, sha256('r'), sha512('r'), 't', '{\"payload\":{\"subject\":\"x\"}}' FROM generate_series(2, 2000) AS i",
		"ANALYZE record")
	const query = "SELECT count(*) FROM record WHERE id < 0 AND CASE WHEN json_valid(payload) THEN json_extract(payload, '$.payload.subject') END = 'agent:a' AND id >= -1::bigint << 40 AND id < 0"
	var n int
	scan(t, db, &n, query)
	if n != 1 {
		t.Fatalf("%d records are of the subject", n)
	}
	rows, err := db.QueryContext(t.Context(), "EXPLAIN "+query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var plan strings.Builder
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		plan.WriteString(line + "\n")
	}
	if err := rows.Err(); err != nil || !strings.Contains(plan.String(), "control_subject") {
		t.Fatal(plan.String(), err)
	}
}

// Appending updates a head in its page, whatever its length: nothing is moved out of line and no index changes.
func TestHeadsAreUpdatedInTheirPages(t *testing.T) {
	db, _ := created(t)
	execute(t, db, tenant, "UPDATE head SET length = 1, frontier = decode(repeat('ab', 1280), 'hex'), log_frontier = decode(repeat('cd', 1280), 'hex')",
		"DO $$ BEGIN FOR i IN 2..50 LOOP UPDATE head SET length = i, root = sha256(int8send(i)); END LOOP; END $$")
	var inPlace int
	scan(t, db, &inPlace, "SELECT pg_relation_size(reltoastrelid) FROM pg_class WHERE oid = 'head'::regclass")
	if inPlace != 0 {
		t.Fatalf("%d bytes of heads are out of line", inPlace)
	}
}
