package store_test

import (
	"fmt"
	"strings"
	"testing"

	"attestd/internal/must"
	"attestd/store"
	"attestd/store/storetest"
)

// controlOf is a record of the control log of company 1, with an action, a number of records and a
// subject.
const controlOf = `INSERT INTO record (id, hash, signature, timestamp, payload) VALUES ((-1 << 40) + 9, zeroblob(32), zeroblob(64), 't',
	'{"actionType":"%s","payload":{"records":%s,"subject":"%s"}}')`

// Where a control record of its company says so, a payload of actions may go. Nothing else in a
// record's row changes. For PostgreSQL the package postgres has this test.
func TestGuardLetsOnlyPrunedPayloadsGo(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	s, path := fresh(t)
	for _, id := range []string{"acme", "zoo"} {
		c, _ := company(t, s, id)
		attest(t, s, c, 4)
	}
	must.OK(t, s.Close())
	db := other(t, path)
	refused := func(statement string) {
		t.Helper()
		if _, err := db.Exec(statement); err == nil || !strings.Contains(err.Error(), "records are append-only") {
			t.Errorf("%s: %v", statement, err)
		}
	}
	const first = "UPDATE record SET payload = '' WHERE id = (1 << 40) + 1"
	refused(first)
	for _, wrong := range [][3]any{
		{"payloads.kept", "3", "payloads"}, {"payloads.pruned", "3", "payload"}, {"payloads.pruned", `"many"`, "payloads"},
		{"payloads.pruned", `"3"`, "payloads"}, {"payloads.pruned", "1", "payloads"}, {"payloads.pruned", "-3", "payloads"},
		{"payloads.pruned", "2.5", "payloads"}, {"payloads.pruned", "null", "payloads"},
	} {
		tx := got(db.Begin())(t)
		_, err := tx.Exec(fmt.Sprintf(controlOf, wrong[0], wrong[1], wrong[2]))
		must.OK(t, err)
		if _, err := tx.Exec(first); err == nil {
			t.Errorf("%v lets a payload go", wrong)
		}
		must.OK(t, tx.Rollback())
	}
	must.OK(t, other(t, path, fmt.Sprintf(controlOf, store.PayloadsPruned, "3", "payloads")).Close())
	for _, statement := range []string{
		"UPDATE record SET payload = ' ' WHERE id = (1 << 40) + 1",
		"UPDATE record SET payload = '{}' WHERE id = (1 << 40) + 1",
		"UPDATE record SET payload = '' WHERE id = (1 << 40) + 3", // beyond
		"UPDATE record SET payload = '' WHERE id = (2 << 40) + 1", // another company
		"UPDATE record SET payload = '' WHERE id = -1 << 40",      // control
		"UPDATE record SET payload = '' WHERE id >= 1 << 40",      // all or none
		"REPLACE INTO record SELECT id, hash, signature, timestamp, '', delegation FROM record WHERE id = (1 << 40) + 1",
	} {
		refused(statement)
	}
	for _, column := range []string{
		"id = id + 9", "hash = zeroblob(32)", "signature = zeroblob(64)", "timestamp = 'u'", "delegation = ''",
	} {
		refused("UPDATE record SET payload = '', " + column + " WHERE id = (1 << 40) + 1")
	}
	must.OK(t, other(t, path, "UPDATE record SET payload = '' WHERE id BETWEEN 1 << 40 AND (1 << 40) + 2", first).Close())
	refused(`UPDATE record SET payload = '{"n":1}' WHERE id = (1 << 40) + 1`) // nothing comes back
	var left string
	must.OK(t, db.QueryRow("SELECT group_concat((id >> 40) || ':' || (id & 1099511627775), ' ') FROM (SELECT id FROM record WHERE id > 0 AND payload <> '' ORDER BY id)").Scan(&left))
	if left != "1:3 2:0 2:1 2:2 2:3" {
		t.Error(left)
	}
	var plan strings.Builder // however many control records there are
	rows := got(db.Query("EXPLAIN QUERY PLAN SELECT 1 FROM record AS c WHERE c.id < 0 AND CASE WHEN json_valid(c.payload) THEN json_extract(c.payload, '$.payload.subject') END = 'payloads' AND c.id >= -1 * 1099511627776 AND c.id <= 0"))(t)
	defer rows.Close()
	for rows.Next() {
		var line string
		must.OK(t, rows.Scan(new(int), new(int), new(int), &line))
		plan.WriteString(line)
	}
	if must.OK(t, rows.Err()); !strings.Contains(plan.String(), "control_subject") {
		t.Error(plan.String())
	}
}
