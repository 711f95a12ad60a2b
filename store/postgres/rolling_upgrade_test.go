package postgres_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/postgres"
)

// A rolling upgrade from any schema that may still be served leaves a database that verifies, its
// counts of bytes too: a server of schema 17, which counts none, appends before the upgrade,
// between any two of its steps, and both in turns and concurrently with new servers. Wrong counts
// are in the control log.
func TestRollingUpgradeEndsWithAValidDatabase(t *testing.T) {
	testenv.Needs(t, testenv.NotQuick, testenv.Plain)
	for from := 15; from <= 20; from++ {
		t.Run(fmt.Sprint("schema ", from), func(t *testing.T) {
			db, address := createdAt9(t)
			if err := postgres.MigrateTo(t.Context(), db, from); err != nil {
				t.Fatal(err)
			}
			fill(t, db, address)
			older := startOlder(t, address)
			older.append(t, 1, "acme", 5)
			for version := from + 1; version <= 20; version++ {
				if err := postgres.MigrateTo(t.Context(), db, version); err != nil {
					t.Fatal(err)
				}
				older.append(t, 1, "acme", 4) // crosses a stored node and a summary
			}
			wrong := miscounts(t, db)
			if wrong["1"] == 0 {
				t.Fatal("the older server has left nothing wrong")
			}
			if from%2 == 0 { // an upgrade that ends before the bytes are counted again
				if err := postgres.Migrate(t.Context(), db, func(int) {}); err != nil {
					t.Fatal(err)
				}
				older.append(t, 1, "acme", 3)
			}
			migrated, err := store.Migrate(t.Context(), address, store.Options{})
			if err != nil || migrated.Recounted != 1 || migrated.Version != postgres.Version {
				t.Fatalf("%+v, %v", migrated, err)
			}
			older.append(t, 1, "acme", 2)
			if wrong := miscounts(t, db); len(wrong) > 0 {
				t.Errorf("after the upgrade: %v", wrong)
			}

			server := start(t, address, "new")
			for range 3 {
				appendNew(t, server, 1, "acme", 2)
				older.append(t, 1, "acme", 2)
			}
			second := start(t, address, "second")
			another := startOlder(t, address)
			var all sync.WaitGroup
			all.Go(func() { older.append(t, 1, "acme", 20) })
			all.Go(func() { another.append(t, 2, "zoo", 20) })
			all.Go(func() { appendNew(t, server, 1, "acme", 20) })
			all.Go(func() { appendNew(t, second, 2, "zoo", 20) })
			all.Wait()
			appendNew(t, server, 1, "acme", 1)
			if err := server.VerifyAll(t.Context(), "", 2, nil, nil); err != nil {
				t.Error(err)
			}
			// the control log of the company tells it, once
			want := fmt.Sprintf(`[{"log":"actions","difference":%d}]`, wrong["1"])
			if told := recounted(t, db); told != want {
				t.Errorf("the control logs tell %s, want %s", told, want)
			}
			var left int
			scan(t, db, &left, "SELECT count(*) FROM setting WHERE name IN ('uncounted_bytes', 'unrecorded')")
			if left != 0 {
				t.Error("something is left to do")
			}
		})
	}
}

// miscounts returns by how many bytes each head counts too few or too many; heads that are right
// are left out.
func miscounts(t *testing.T, db *sql.DB) map[string]int64 {
	t.Helper()
	var text string
	scan(t, db, &text, `SELECT coalesce(json_object_agg(chain, found - bytes), '{}') FROM (SELECT chain, bytes,
		(SELECT coalesce(sum(octet_length(payload) + coalesce(octet_length(delegation), 0)), 0) FROM record
			WHERE id BETWEEN head.chain * 1099511627776 AND head.chain * 1099511627776 + 1099511627775) AS found FROM head) AS h WHERE found <> bytes`)
	wrong := map[string]int64{}
	if err := json.Unmarshal([]byte(text), &wrong); err != nil {
		t.Fatal(err)
	}
	return wrong
}

// recounted returns what the control logs say of counts.
func recounted(t *testing.T, db *sql.DB) (told string) {
	t.Helper()
	scan(t, db, &told, `SELECT coalesce('[' || string_agg(concat('{"log":"', p->>'log', '","difference":', (p->>'to')::bigint - (p->>'from')::bigint, '}'), ',' ORDER BY id) || ']', '')
		FROM (SELECT id, payload::json->'payload' AS p FROM record WHERE id < 0 AND payload LIKE '%"actionType":"bytes.recounted"%') AS r`)
	return told
}

// start starts a server of this program.
func start(t *testing.T, address, name string) *store.Store {
	t.Helper()
	text, err := os.ReadFile("../../schema.sql")
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(t.Context(), address, string(text), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	go s.Run(context.Background(), store.RunOptions{})
	t.Cleanup(func() { s.Close() })
	if err := s.Settings.RecordStart(t.Context(), map[string]string{"program": name}); err != nil {
		t.Fatal(err)
	}
	return s
}

func appendNew(t *testing.T, s *store.Store, number int64, company string, n int) {
	for range n {
		if _, err := s.Append(t.Context(), action(number, company)); err != nil {
			t.Error(err)
			return
		}
	}
}

// fill gives a database of an older schema the rows of two companies with records, as far as it has
// columns for them.
func fill(t *testing.T, db *sql.DB, address string) {
	t.Helper()
	execute(t, db, "CREATE SCHEMA newest")
	newest := with(t, address, "", "", url.Values{"search_path": {"newest"}})
	text, err := os.ReadFile("../../schema.sql")
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(t.Context(), newest, string(text), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(context.Background(), store.RunOptions{}) }()
	for i, id := range []string{"acme", "zoo"} {
		c, _, err := s.Companies.Create(t.Context(), id, nil, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Agents.Register(t.Context(), store.Caller{Company: c, At: time.Now()}, "bot", nil, store.AgentBounds{Most: 10}); err != nil {
			t.Fatal(err)
		}
		appendNew(t, s, int64(i+1), id, 248)
	}
	if err := errors.Join(s.Close(), <-ended); err != nil {
		t.Fatal(err)
	}
	rows, err := db.QueryContext(t.Context(), `SELECT table_name, string_agg(quote_ident(column_name), ', ') FROM information_schema.columns AS old
		JOIN information_schema.columns AS new USING (table_name, column_name) WHERE old.table_schema = 'public' AND new.table_schema = 'newest'
			AND table_name NOT IN ('writer', 'feed', 'duty', 'budget') GROUP BY table_name`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	copies := []string{"SET session_replication_role = replica", "DELETE FROM public.setting WHERE name NOT LIKE 'schema%'"}
	for rows.Next() {
		var table, columns string
		if err := rows.Scan(&table, &columns); err != nil {
			t.Fatal(err)
		}
		where := ""
		if table == "setting" {
			where = " WHERE name NOT LIKE 'schema%'"
		}
		copies = append(copies, fmt.Sprintf("INSERT INTO public.%s (%s) SELECT %s FROM newest.%s%s", table, columns, columns, table, where))
	}
	if err := rows.Err(); err != nil || len(copies) < 20 {
		t.Fatal(copies, err)
	}
	copies = append(copies, "RESET session_replication_role", "DROP SCHEMA newest CASCADE")
	execute(t, db, strings.Join(copies, ";\n"))
}

// beside lists each column that a step has added to a table that older servers write, and why it is
// right while they run.
var beside = map[string]string{
	"federated_token.client":            "no older server makes such tokens, which are under an HMAC",
	"federated_token.delegation":        "no older server makes such tokens, which are under an HMAC",
	"federated_token.details":           "NULL limits nothing, and a token with details is refused by older servers for its HMAC",
	"oauth_token.details":               "NULL limits nothing, and a token with details is refused by older servers for its HMAC",
	"passport.details":                  "NULL limits nothing, as is what an older server issues",
	"head.bytes":                        "the trigger head_bytes_counted: TestRollingUpgradeEndsWithAValidDatabase",
	"company_usage.deleted_revocations": "the trigger company_usage_passport_deleted: TestPassportsGoADayAfterTheirEnd",
	"agent_key.statement_version":       "the default is what the keys of an older server make",
	"webhook.mac":                       "the trigger webhook_without_mac",
	"duty.run":                          "it counts beside the holder alone, which an older server sets to itself",
	"writer.schema":                     "NULL means an older server",
}

// A developer who adds a column to a table that servers write states what makes it right while
// older ones still run.
func TestAddedColumnsHoldBesideOlderServers(t *testing.T) {
	t.Parallel()
	added := postgres.AddedColumns(15)
	for _, column := range added {
		if beside[column] == "" {
			t.Errorf("servers of the schema before know no %s: what makes it right while they write?", column)
		}
		if trigger, is := strings.CutPrefix(beside[column], "the trigger "); is {
			name, _, _ := strings.Cut(trigger, ":")
			if !strings.Contains(postgres.SchemaText, "CREATE TRIGGER "+name+" ") {
				t.Errorf("%s: there is no trigger %s", column, name)
			}
		}
	}
	for column := range beside {
		if !slices.Contains(added, column) {
			t.Errorf("no step adds %s", column)
		}
	}
}
