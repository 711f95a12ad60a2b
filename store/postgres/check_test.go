package postgres_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"attestd/internal/testenv"
	"attestd/store/postgres"
)

var update = flag.Bool("update", false, "write catalog.txt anew")

// Check compares a database with catalog.txt, which must agree with schema.sql.
func TestCatalogMatchesSchema(t *testing.T) {
	db, _ := created(t)
	have, err := postgres.Catalog(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("catalog.txt", []byte(have), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if have != postgres.CatalogText {
		t.Fatal("catalog.txt is not what schema.sql makes: go generate ./store/postgres")
	}
}

// A database that Create has made has no fault, in any namespace and with any tables of the
// operator in addition.
func TestCheckFindsNothingInANewDatabase(t *testing.T) {
	db, address := created(t)
	execute(t, db, "CREATE TABLE of_the_operator (n int PRIMARY KEY, CHECK (n > 0))", "CREATE VIEW a_view AS SELECT count(*) FROM record",
		"CREATE FUNCTION mine() RETURNS int LANGUAGE sql AS 'SELECT 1'", "ALTER TABLE head SET (fillfactor = 30)")
	wantWrong(t, address)
	execute(t, db, "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET quote_all_identifiers = on', current_database()); END $$")
	wantWrong(t, address)
	execute(t, db, "CREATE SCHEMA elsewhere")
	moved := with(t, address, "", "", map[string][]string{"search_path": {"elsewhere, public"}})
	if err := postgres.Create(t.Context(), open(t, moved), nil); err != nil {
		t.Fatal(err)
	}
	wantWrong(t, moved)
}

// Check names each object that is missing, changed, disabled or added.
func TestCheckNamesWhatIsWrong(t *testing.T) {
	testenv.Needs(t, testenv.NotQuick)
	for _, c := range []struct{ damage, want string }{
		{"DROP TRIGGER record_no_update ON record", "trigger record.record_no_update is missing"},
		{"ALTER TABLE record DISABLE TRIGGER record_no_delete", "trigger record.record_no_delete is disabled"},
		{"ALTER TABLE head ENABLE REPLICA TRIGGER head_only_grows", "trigger head.head_only_grows is not the one of this program"},
		{"ALTER TABLE head DISABLE TRIGGER ALL", "constraint head.head_chain_fkey is disabled"},
		{"CREATE OR REPLACE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'", "function refuse_change() is not the one of this program"},
		{"ALTER FUNCTION refuse_change() SECURITY DEFINER", "function refuse_change() is not the one of this program"},
		{"ALTER TABLE record DROP CONSTRAINT record_hash_check", "constraint record.record_hash_check is missing"},
		{"ALTER TABLE record ALTER timestamp DROP NOT NULL", "column record.timestamp is not the one of this program"},
		{"ALTER TABLE head DROP COLUMN epoch CASCADE", "column head.epoch is missing"},
		{"ALTER TABLE agent ALTER metadata TYPE text COLLATE \"default\"", "column agent.metadata is not the one of this program"},
		{"ALTER TABLE record ADD COLUMN more text", "column record.more is not one of this program"},
		{"ALTER TABLE record ADD CONSTRAINT mine CHECK (id <> 7)", "constraint record.mine is not one of this program"},
		{"CREATE INDEX mine ON head (length)", "index head.mine is not one of this program"},
		{"DROP INDEX control_subject", "index record.control_subject is missing"},
		{"ALTER TABLE feed SET UNLOGGED", "table feed is not the one of this program"},
		{"ALTER TABLE record ENABLE ROW LEVEL SECURITY", "table record is not the one of this program"},
		{"CREATE POLICY mine ON record USING (false)", "policy record.mine is not one of this program"},
		{"CREATE RULE mine AS ON INSERT TO record DO INSTEAD NOTHING", "rule record.mine is not one of this program"},
		{"CREATE TABLE mine () INHERITS (record)", "child record.mine is not one of this program"},
		{"CREATE FUNCTION mine() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'; CREATE TRIGGER mine BEFORE INSERT ON record FOR EACH ROW EXECUTE FUNCTION mine()",
			"trigger record.mine is not one of this program"},
		{"DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET session_replication_role = replica', current_database()); END $$",
			"no guard fires in the sessions of every role in this database: session_replication_role = replica"},
		{"DO $$ BEGIN EXECUTE format('ALTER ROLE pgtest IN DATABASE %I SET session_replication_role = Replica', current_database()); END $$",
			"no guard fires in the sessions of role pgtest in this database: session_replication_role = replica"},
		{"SET session_replication_role = replica; INSERT INTO agent (company, agent_id, registered_at) VALUES (9, 'a', '')", "table agent refers to a company that is not there (rows: 1)"},
	} {
		t.Run(c.want, func(t *testing.T) {
			db, address := created(t)
			execute(t, db, c.damage)
			wantWrong(t, address, c.want)
		})
	}
}

// A schema of a newer program that this program may use is not compared with its own.
func TestCheckLeavesANewerSchemaToANewerProgram(t *testing.T) {
	db, _ := created(t)
	execute(t, db, fmt.Sprintf("UPDATE setting SET value = '%d' WHERE name = 'schema'", postgres.Version+1))
	if _, err := postgres.Check(t.Context(), db); !errors.Is(err, postgres.ErrNewer) {
		t.Fatal(err)
	}
}

// wantWrong checks a database and compares the beginnings of the reported sentences.
func wantWrong(t *testing.T, address string, want ...string) {
	t.Helper()
	wrong, err := postgres.Check(t.Context(), open(t, address))
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range want {
		if !slices.ContainsFunc(wrong, func(found string) bool { return strings.HasPrefix(found, w) }) {
			t.Errorf("not found: %s, but %q", w, wrong)
		}
	}
	if len(want) == 0 && len(wrong) > 0 {
		t.Errorf("a whole schema: %q", wrong)
	}
}
