package store_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"attestd/chain"
	"attestd/crypto/keyring"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/admin"
	"attestd/store/db"
	"attestd/store/storetest"
)

// control appends n records to the control log of c.
func control(t testing.TB, s *store.Store, c *store.Company, n int) {
	t.Helper()
	for range n {
		got(s.Append(ctx, controlDraft(c)))(t)
	}
}

func tipOf(t testing.TB, s *store.Store, log store.Log) chain.Head {
	t.Helper()
	h, _, err := s.Tip(ctx, log.Chain)
	must.OK(t, err)
	return h
}

// A change to both logs of a company and to rows is one commit: all of it is written, or nothing.
func TestChangeToBothLogsIsAtomic(t *testing.T) {
	t.Parallel()
	var published []int64
	var appended, written int64
	path := target(t)
	s := openWith(t, path, store.RunOptions{Publish: func(batch []chain.Extension, _ bool) {
		for _, e := range batch {
			published = append(published, e.Chain)
		}
	}, Appended: func(records int) { appended += int64(records) }})
	c, _ := company(t, s, "acme")
	zoo, _ := company(t, s, "zoo")
	both := func(setting string) ([]chain.Record, error) {
		return s.ChangeSetting(setting, controlDraft(c), draft(c), draft(zoo), controlDraft(c))
	}
	start := map[int64]int64{}
	for _, of := range []int64{c.Chain, c.Control.Chain, zoo.Chain, zoo.Control.Chain} {
		h, _, err := s.Tip(ctx, of)
		must.OK(t, err)
		start[of] = h.Length
	}
	from := start[c.Control.Chain]
	records := got(both("first"))(t)
	for i, index := range []int64{from, 0, 0, from + 1} {
		if records[i].Index != index {
			t.Errorf("record %d has index %d, want %d", i, records[i].Index, index)
		}
	}
	if _, err := both("first"); err == nil { // violates a constraint
		t.Error("a change that fails went through")
	}
	for of, want := range map[int64]int64{c.Chain: 1, c.Control.Chain: 2, zoo.Chain: 1, zoo.Control.Chain: 0} {
		h, next, err := s.Tip(ctx, of)
		if want += start[of]; err != nil || h.Length != want || next != want {
			t.Errorf("chain %d has %d records, and %d on disk; want %d", of, h.Length, next, want)
		}
		written += h.Length
	}
	companies, _, err := s.Tip(ctx, store.Control.ChainID(db.Installation))
	must.OK(t, err)
	written += companies.Length
	must.OK(t, s.VerifyAll(ctx, "", 2, nil, nil))
	must.OK(t, s.Close())
	if appended != written {
		t.Errorf("%d records counted, %d written", appended, written)
	}
	// Control records are read on request and never published.
	if fmt.Sprint(published) != fmt.Sprint([]int64{c.Chain, zoo.Chain}) {
		t.Errorf("published of chains %v", published)
	}
}

// The number of a chain identifies the company and the log, and the upgrade left the numbers of the
// record rows unchanged.
func TestRowsOfBothLogs(t *testing.T) {
	t.Parallel()
	s, path := fresh(t)
	company(t, s, "zoo")
	c, _ := company(t, s, "acme")
	attest(t, s, c, 2)
	control(t, s, c, 2)
	var rows string
	must.OK(t, other(t, path).QueryRow(`SELECT string_agg(name || ' ' || (record.id >> 40) || ' ' || (record.id & 1099511627775), ', ' ORDER BY record.id)
		FROM record JOIN log ON chain = record.id >> 40 WHERE company = 2`).Scan(&rows))
	want := ""
	for i := range tipOf(t, s, c.Control).Length {
		want += fmt.Sprintf("control -2 %d, ", i)
	}
	if rows != want+"actions 2 0, actions 2 1" || want == "" {
		t.Error(rows)
	}
}

// A changed record of a control log is reported with its log and index, and a backup of it is
// refused. The other logs stay valid.
func TestVerifyFindsAChangedControlRecord(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	s, path := fresh(t)
	c, _ := company(t, s, "acme")
	attest(t, s, c, 10)
	control(t, s, c, 300) // enough for a stored subtree root
	must.OK(t, s.VerifyAll(ctx, "", 2, nil, nil))
	must.OK(t, s.Close())
	must.OK(t, other(t, path, "DROP TRIGGER record_no_update",
		"UPDATE record SET payload = replace(payload, 'test', 'text') WHERE id = (-1 << 40) + 7", "PRAGMA wal_checkpoint(TRUNCATE)").Close())
	read, err := store.OpenReadOnly(ctx, path)
	must.OK(t, err)
	defer read.Close()
	said := map[string]bool{}
	err = read.VerifyAll(ctx, "acme", 2, func(v store.ChainVerdict) { said[v.Title()] = v.Valid }, nil)
	if wrong := (*store.VerifyError)(nil); !errors.As(err, &wrong) || wrong.Log != store.Control || wrong.Index != 7 ||
		!strings.HasPrefix(err.Error(), `company "acme" (control), record 7: `) {
		t.Errorf("%v", err)
	}
	if len(said) != 2 || !said["acme"] || said["acme (control)"] {
		t.Errorf("%v", said)
	}
	if storetest.OnPostgres() {
		return // PostgreSQL has its own backups
	}
	if err := admin.Backup(ctx, path, target(t), schema(t), nil); !errors.As(err, new(*store.VerifyError)) {
		t.Errorf("a backup: %v", err)
	}
}

// A key signs each log from its own index, which the old and the new key have signed for that log.
// Any change to a key or range is found at the first record of the log that it concerns.
func TestRotationsInBothLogs(t *testing.T) {
	t.Parallel()
	s, path := fresh(t)
	c, _ := company(t, s, "acme")
	first := []int64{0} // indices in the control log, by key
	for i, n := range [][2]int{{4, 0}, {0, 3}, {2, 300}, {1, 0}} {
		if i > 0 {
			// the index of the rotation's record
			first = append(first, tipOf(t, s, c.Control).Length)
			c = rotate(t, s, c, now.Add(time.Duration(i)*time.Hour), false)
		}
		attest(t, s, c, n[0])
		control(t, s, c, n[1])
	}
	for log, want := range map[store.Log]string{c.Actions: "[0 4 4 6]", c.Control: fmt.Sprint(first)} {
		origin, ring, err := s.KeyRing(ctx, log.Chain)
		must.OK(t, err)
		var from []int64
		for _, k := range ring {
			from = append(from, k.From)
		}
		if flaws := keyring.Flaws(origin, ring); fmt.Sprint(from) != want || origin != log.Origin || strings.Join(flaws, "") != "" {
			t.Errorf("%s of %s: keys from %v, %q", log.Name, origin, from, flaws)
		}
	}
	must.OK(t, s.VerifyAll(ctx, "", 2, nil, nil))
	must.OK(t, s.Close())
	if !storetest.OnPostgres() {
		must.OK(t, admin.Backup(ctx, path, target(t), schema(t), nil))
	}

	const unguarded = "DROP TRIGGER log_key_no_update; DROP TRIGGER log_key_no_delete; DROP TRIGGER company_key_only_ends; DROP TRIGGER company_key_no_delete; "
	const of = " WHERE chain = -1 AND generation = "
	for statement, at := range map[string]int64{
		"UPDATE log_key SET first_record = first_record + 1" + of + "2":                                                first[2],
		"UPDATE log_key SET first_record = first_record - 1" + of + "2":                                                first[2] - 1,
		"UPDATE log_key SET statement = NULL" + of + "2":                                                               first[2],
		"UPDATE log_key SET statement = NULL, old_signature = NULL, new_signature = NULL, first_record = 0" + of + "2": 0,
		"UPDATE log_key SET old_signature = new_signature" + of + "3":                                                  first[3],
		"DELETE FROM log_key" + of + "0":                                                                               0,
		"DELETE FROM log_key" + of + "1":                                                                               first[1],
		"DELETE FROM log_key" + of + "2":                                                                               first[2],
		// The key before it has ended, and no key follows.
		"DELETE FROM log_key" + of + "3":       first[2],
		"DELETE FROM log_key WHERE chain = -1": 0,
		"UPDATE log_key SET (statement, old_signature, new_signature) = (SELECT statement, old_signature, new_signature FROM log_key WHERE chain = 1 AND generation = 2)" + of + "2": first[2],
		// The range belongs to no key, so it signs nothing.
		"INSERT INTO log_key (chain, generation, first_record) VALUES (-1, 4, 303)": -1,
	} {
		changed := storetest.Copy(t, path)
		must.OK(t, other(t, changed, unguarded+statement).Close())
		s, err := store.OpenReadOnly(ctx, changed)
		must.OK(t, err)
		var invalid *store.VerifyError
		err = s.VerifyAll(ctx, "", 2, nil, nil)
		if at < 0 && err != nil || at >= 0 && (!errors.As(err, &invalid) || invalid.Index != at || invalid.Log != store.Control) {
			t.Errorf("%s: %v, want a failure of the control log at %d", statement, err, at)
		}
		s.Close()
	}
}

// A restore reports what it undoes of a control log in the same way as for the actions.
func TestRestoreComparesControlLogs(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	storetest.AboutFile(t)
	t.Parallel()
	s, path := fresh(t)
	c, _ := company(t, s, "acme")
	attest(t, s, c, 3)
	control(t, s, c, 4)
	kept := tipOf(t, s, c.Control).Length
	in := backUp(t, path)
	control(t, s, c, 2)
	must.OK(t, s.Close())
	ours := backUp(t, path)
	checkRollback(t, in, path, fmt.Sprintf("acme (control): %d records, the backup has %d", kept+2, kept))

	theirs := backUp(t, in)
	s = open(t, theirs)
	control(t, s, c, 2) // the time differs, so the hashes differ
	must.OK(t, s.Close())
	checkRollback(t, theirs, ours, fmt.Sprintf("acme (control): another history: %d records, the backup has %[1]d, and they differ from record %d on", kept+2, kept))

	old, companies := written(t, "4")
	in = backUp(t, old)
	s = open(t, old)
	for id := range companies {
		control(t, s, got(s.Companies.Get(ctx, id))(t), 1)
	}
	must.OK(t, s.Close())
	checkRollback(t, in, old, "acme (control): 1 records, the backup has 0", "zoo (control): 1 records, the backup has 0")
}

// An upgrade gives each company a control log that the current key signs from its first record on,
// and leaves the actions unchanged. Keys that had ended before sign nothing there; later keys are
// proven there as in other logs.
func TestUpgradeCreatesControlLog(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	storetest.AboutFile(t)
	t.Parallel()
	for _, version := range []string{"1", "2", "4", "5"} {
		path, companies := written(t, version)
		// An operator's own view is broken by the upgrade.
		must.OK(t, other(t, path, "CREATE VIEW lengths AS SELECT company, length FROM head").Close())
		before, err := store.OpenReadOnly(ctx, path)
		must.OK(t, err)
		s := open(t, path)
		for id := range companies {
			c := got(s.Companies.Get(ctx, id))(t)
			if a, b := c.Actions, c.Control; a.ID == b.ID || a.Origin == b.Origin || b.Origin != "attestd.local/v1/log/"+b.ID || len(b.ID) != 32 {
				t.Errorf("logs: %+v and %+v", a, b)
			}
			_, ring, err := s.KeyRing(ctx, c.Chain)
			must.OK(t, err)
			var first []int64 // indices by key
			for i := range 3 {
				control(t, s, c, 2)
				// the index of the rotation's record
				first = append(first, tipOf(t, s, c.Control).Length)
				c = rotate(t, s, c, time.Now(), i == 1)
			}
			control(t, s, c, 1)
			_, beside, err := s.KeyRing(ctx, c.Control.Chain)
			must.OK(t, err)
			if n := int64(len(ring)) - 1; len(beside) != 4 || beside[0].Generation != n || beside[0].Rotation != nil || beside[1].From != first[0] || beside[3].From != first[2] {
				t.Errorf("%s: keys of the control log: %+v", id, beside)
			}
		}
		must.OK(t, s.VerifyAll(ctx, "", 2, nil, nil))
		must.OK(t, before.VerifyAll(ctx, "", 2, nil, nil)) // opened for reading before the upgrade
		must.OK(t, before.Close())
	}
	// The logs of actions keep their names, and their published checkpoints remain.
	for _, version := range []string{"4", "5"} {
		path, _ := written(t, version)
		names := func() (all string) {
			must.OK(t, other(t, path).QueryRow(`SELECT group_concat(log_id || origin || coalesce(note, '') || name, ' ' ORDER BY log_id)
				FROM log LEFT JOIN checkpoint USING (log_id) WHERE name = 'actions'`).Scan(&all))
			return all
		}
		was := names()
		must.OK(t, open(t, path).Close())
		if is := names(); is != was || strings.Count(is, "actions") != 2 || strings.Count(is, "\u2014") != 2 {
			t.Errorf("names and checkpoints of the actions:\n%s\nbefore:\n%s", is, was)
		}
	}
}

// Roles, expiry times and keys of schema 4 are still known after an upgrade.
func TestUpgradeKeepsSchema4Data(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	for _, version := range []string{"4", "5"} {
		path, companies := written(t, version)
		s := open(t, path)
		for id := range companies {
			c := got(s.Companies.Get(ctx, id))(t)
			var said []string
			for _, l := range all(t, s.Credentials.List(ctx, by(c, now), "")) {
				said = append(said, fmt.Sprint(l.Role, l.ExpiresAt))
			}
			if strings.Join(said, " ") != "admin admin reader2026-12-24T18:00:00.000Z writer admin" {
				t.Errorf("%s: credentials %q", id, said)
			}
		}
		acme := got(s.Companies.Get(ctx, "acme"))(t)
		origin, ring, err := s.KeyRing(ctx, acme.Chain)
		must.OK(t, err)
		if len(ring) != 3 || strings.Join(keyring.Flaws(origin, ring), "") != "" || ring[1].From != 258 || ring[2].From != 268 ||
			ring[0].CompromisedAt == "" || ring[1].CompromisedAt == "" || ring[2].CompromisedAt != "" {
			t.Errorf("keys: %+v", ring)
		}
		if err := s.Agents.Check(ctx, by(acme, now), "git-bot"); !errors.Is(err, store.ErrDisabled) {
			t.Errorf("git-bot: %v", err)
		}
	}
}
