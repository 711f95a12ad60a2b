package store_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/storetest"
)

// edited is a sample that an attacker has changed: company 1 is acme with 300 records, company 2
// zoo with 5.
func edited(t *testing.T, statements ...string) *store.Store {
	t.Helper()
	path, _ := sample(t)
	must.OK(t, other(t, path, append([]string{"PRAGMA foreign_keys = 0"}, statements...)...).Close())
	s, err := store.OpenReadOnly(ctx, path)
	must.OK(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// If a chain has a row in one of the tables company, head and record and lacks it in another, the
// failure names the chain, and the other chains are verified nevertheless.
func TestVerifyAllDetectsOrphans(t *testing.T) {
	t.Parallel()
	const (
		noCompany = "DROP TRIGGER company_no_delete"
		noHead    = "DROP TRIGGER head_no_delete"
		noRecord  = "DROP TRIGGER record_no_delete"
		noNode    = "DROP TRIGGER node_no_delete"
	)
	control := func(company int) string { // what is left of the other log
		return fmt.Sprintf("\nchain %d \"\" at 0: the company of this chain is missing; the file holds a head, records", -company)
	}
	listed := func(id string, at int) string { // the verdict on the log of the companies
		return fmt.Sprintf("chain -8388607 \"@installation\" at %d: table company, row %q: is missing, and the log of the companies tells of it\n", at, id)
	}
	for name, test := range map[string]struct {
		statements []string
		want       string // the verdicts other than valid
		valid      string
	}{
		"company gone": {
			[]string{noCompany, "DELETE FROM company WHERE id = 2"},
			listed("zoo", 2) + `chain 2 "" at 0: the company of this chain is missing; the file holds a head, records` + control(2), "acme acme (control)",
		},
		"company in the middle gone": {
			[]string{noCompany, "DELETE FROM company WHERE id = 1"},
			listed("acme", 1) + `chain 1 "" at 0: the company of this chain is missing; the file holds a head, records, subtree roots, a later company` + control(1), "zoo zoo (control)",
		},
		"all of a company gone": {
			[]string{
				noCompany, noHead, noRecord, noNode, "DELETE FROM company WHERE id = 1", "DELETE FROM head WHERE chain = 1",
				"DELETE FROM record WHERE id >> 40 = 1", "DELETE FROM node", "DELETE FROM api_key WHERE company = 1",
			},
			listed("acme", 1) + `chain 1 "" at 0: the company of this chain is missing; the file holds a later company` + control(1), "zoo zoo (control)",
		},
		"company and head gone": {
			[]string{noCompany, noHead, "DELETE FROM company WHERE id = 2", "DELETE FROM head WHERE chain = 2"},
			listed("zoo", 2) + `chain 2 "" at 0: the company of this chain is missing; the file holds records` + control(2), "acme acme (control)",
		},
		"company and records gone": {
			[]string{noCompany, noRecord, "DELETE FROM company WHERE id = 2", "DELETE FROM record WHERE id >> 40 = 2"},
			listed("zoo", 2) + `chain 2 "" at 0: the company of this chain is missing; the file holds a head` + control(2), "acme acme (control)",
		},
		"all companies gone": {
			[]string{noCompany, "DELETE FROM company"},
			`chain 1 "" at 0: the company of this chain is missing; the file holds a head, records, subtree roots` + control(1) + "\n" +
				`chain 2 "" at 0: the company of this chain is missing; the file holds a head, records` + control(2) + "\n" +
				`chain 8388607 "" at 0: the company of this chain is missing; the file holds a head` + control(8388607), "",
		},
		"head gone": {[]string{noHead, "DELETE FROM head WHERE chain = 1"}, `chain 1 "acme" at 0: the stored head is missing`, "acme (control) zoo zoo (control) log of the companies"},
		"all heads gone": {[]string{noHead, "DELETE FROM head"}, `chain 1 "acme" at 0: the stored head is missing` + "\n" +
			`chain -1 "acme" at 0: the stored head is missing` + "\n" + `chain 2 "zoo" at 0: the stored head is missing` + "\n" + `chain -2 "zoo" at 0: the stored head is missing` + "\n" +
			`chain 8388607 "@installation" at 0: the stored head is missing` + "\n" + `chain -8388607 "@installation" at 0: the stored head is missing`, ""},
		"records gone": {[]string{noRecord, "DELETE FROM record WHERE id >> 40 = 1"}, `chain 1 "acme" at 0: record 0 is missing: the stored head covers 300 records`, "acme (control) zoo zoo (control) log of the companies"},
		"records of nobody": {
			[]string{
				"INSERT INTO record SELECT id + (5 << 40), hash, signature, timestamp, payload, delegation FROM record WHERE id >> 40 = 2",
				"INSERT INTO record SELECT -1, hash, signature, timestamp, payload, delegation FROM record WHERE id = 1 << 40",
				"INSERT INTO record SELECT -5 << 40, hash, signature, timestamp, payload, delegation FROM record WHERE id = 1 << 40",
				"INSERT INTO record SELECT 9223372036854775807, hash, signature, timestamp, payload, delegation FROM record WHERE id = 1 << 40",
			},
			`chain -1 "acme" at 2: record 2 stands beyond the stored head, which covers 2 records` + "\n" +
				`chain 8388607 "@installation" at 0: record 0 stands beyond the stored head, which covers 0 records` + "\n" +
				`chain -5 "" at 0: the company of this chain is missing; the file holds records` + "\n" +
				`chain 7 "" at 0: the company of this chain is missing; the file holds records`, "acme zoo zoo (control) log of the companies",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := edited(t, test.statements...)
			var bad, valid string
			var first *store.ChainVerdict
			err := s.VerifyAll(ctx, "", 2, func(v store.ChainVerdict) {
				if v.Valid {
					valid += " " + v.Title()
					return
				}
				if first == nil {
					first = &v
				}
				bad += fmt.Sprintf("\nchain %d %q at %d: %s", v.Chain, v.Company, v.FailedAt, v.Reason)
			}, nil)
			if bad != "\n"+test.want || valid != "" && valid != " "+test.valid || valid == "" && test.valid != "" {
				t.Errorf("not valid:%s\nwant:\n%s\nvalid:%s", bad, test.want, valid)
			}
			v := (*store.VerifyError)(nil)
			if !errors.As(err, &v) || v.Chain != first.Chain || v.Company != first.Company || v.Reason != first.Reason {
				t.Errorf("error %v of %+v", err, first)
			}
		})
	}
}

// Faults outside the chains are found in every file and named.
func TestCheckFindsWhatIsNotOfTheSchema(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ statement, want string }{
		"guard dropped":   {"DROP TRIGGER record_no_update", "trigger record_no_update is missing"},
		"two of them":     {"DROP TRIGGER head_no_delete; DROP TRIGGER head_only_grows", "trigger head_no_delete is missing; trigger head_only_grows is missing"},
		"counter dropped": {"DROP TRIGGER company_usage_agent_added", "trigger company_usage_agent_added is missing"},
		"guard that guards nothing": {
			"DROP TRIGGER record_no_delete; CREATE TRIGGER record_no_delete BEFORE DELETE ON record BEGIN SELECT 1; END",
			"trigger record_no_delete is not the one of this program",
		},
		"guard of another table": {
			"DROP TRIGGER node_no_delete; CREATE TRIGGER node_no_delete BEFORE DELETE ON agent BEGIN SELECT RAISE(ABORT, 'nodes are append-only'); END",
			"trigger node_no_delete is not the one of this program",
		},
		"guard taken apart by what looks like a comment": {
			"DROP TRIGGER record_no_delete; CREATE TRIGGER record_no_delete BEFORE DELETE ON record BEGIN SELECT RAISE(ABORT, 'records are append-only--') WHERE 0; SELECT ('\n'); END",
			"trigger record_no_delete is not the one of this program",
		},
		"trigger added":   {"CREATE TRIGGER extra AFTER INSERT ON passport BEGIN DELETE FROM passport; END", "trigger extra on table passport is not one of this program"},
		"index dropped":   {"DROP INDEX api_key_company", "index api_key_company is missing"},
		"index added":     {"CREATE UNIQUE INDEX extra ON agent (agent_id)", "index extra on table agent is not one of this program"},
		"index changed":   {"DROP INDEX api_key_company; CREATE INDEX api_key_company ON api_key (label)", "index api_key_company is not the one of this program"},
		"column added":    {"ALTER TABLE agent ADD COLUMN extra TEXT", "table agent is not the one of this program"},
		"agent of nobody": {"INSERT INTO agent (company, agent_id, registered_at) VALUES (77, 'a', '')", "table agent refers to a company that is not there (rows: 1); table company_usage refers to a company that is not there (rows: 1)"},
		"company gone": {
			"DROP TRIGGER company_no_delete; DELETE FROM company WHERE id = 2",
			"table api_key refers to a company that is not there (rows: 1); table company_key refers to a company that is not there (rows: 1); table log refers to a company that is not there (rows: 2); trigger company_no_delete is missing",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if strings.Contains(test.statement, "BEGIN") {
				storetest.NotOnPostgres(t, "has statements of SQLite alone: package store/postgres has its own")
			}
			err := edited(t, test.statement).Check(ctx, schema(t))
			if storetest.OnPostgres() { // PostgreSQL has its own texts
				if first := strings.Fields(test.want)[1]; !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), first) {
					t.Errorf("got  %v\nwant something of %s", err, first)
				}
				return
			}
			if !errors.Is(err, store.ErrCorrupt) || err.Error() != store.ErrCorrupt.Error()+": "+test.want {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
		})
	}
}

// Tables that an operator adds are ignored, and so are SQLite's own.
func TestCheckLeavesTheOperatorsOwnAlone(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	s := edited(t, "CREATE TABLE report (x TEXT)", "CREATE INDEX report_x ON report (x)", "CREATE VIEW companies AS SELECT company_id FROM company", "ANALYZE")
	must.OK(t, s.Check(ctx, schema(t)))
}

// A file of an older schema is compared with the result that its upgrade would have.
func TestCheckOfAnOlderSchema(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	storetest.AboutFile(t)
	t.Parallel()
	for statement, want := range map[string]string{
		"PRAGMA user_version":                                            "",
		"DROP TRIGGER record_no_delete":                                  "trigger record_no_delete is missing",
		"ALTER TABLE agent ADD COLUMN disabled_at TEXT":                  "duplicate column",
		"CREATE TABLE company_usage (company, agents)":                   "already exists",
		"CREATE TRIGGER extra AFTER INSERT ON agent BEGIN SELECT 1; END": "trigger extra on table agent is not one of this program",
	} {
		path, _ := written(t, "1")
		must.OK(t, other(t, path, statement).Close())
		s, err := store.OpenReadOnly(ctx, path)
		must.OK(t, err)
		err = s.Check(ctx, schema(t))
		if want == "" && err != nil || want != "" && (!errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", statement, err)
		}
		must.OK(t, s.Close())
	}
}
