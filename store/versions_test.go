package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/admin"
	"attestd/store/db"
	"attestd/store/storetest"
)

// Two servers of one database differ in version and settings, as in every rolling upgrade. What a
// company's control log says of the settings is what the database says of them, wherever the
// company registers, and as the first one too.
func TestRegistrationBesideAnotherVersion(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	database := storetest.Shared(t)
	older, newer := openWith(t, database, store.RunOptions{}), openWith(t, database, store.RunOptions{})
	must.OK(t, older.Settings.RecordStart(ctx, map[string]string{"program": "attestd/1", "publicAddress": "https://a.example", "onlyOlder": "on"}))
	must.OK(t, newer.Settings.RecordStart(ctx, map[string]string{"program": "attestd/2", "publicAddress": "https://b.example", "onlyNewer": "on"}))
	for i, s := range []*store.Store{older, newer, older} {
		c, _ := company(t, s, fmt.Sprint("acme", i))
		attest(t, s, c, 1)
		list := controlRecords(t, s, c)
		if len(list) != 2 || !strings.Contains(list[0], `"program":"attestd/2"`) || !strings.Contains(list[0], `"publicAddress":"https://b.example"`) ||
			strings.Contains(list[0], "onlyOlder") || !strings.Contains(list[0], "onlyNewer") || !strings.Contains(list[0], `"rowKey":"`) {
			t.Errorf("company %d: %q", i, list)
		}
	}
	for i, s := range []*store.Store{older, newer} {
		must.OK(t, s.VerifyAll(ctx, "", 2, nil, nil))
		changeable(t, s, "acme0", "acme1", "acme2")
		// each starts again
		must.OK(t, s.Settings.RecordStart(ctx, map[string]string{"program": fmt.Sprint("attestd/", 3+i)}))
	}
	must.OK(t, older.VerifyAll(ctx, "", 2, nil, nil))
	must.OK(t, newer.VerifyAll(ctx, "", 2, nil, nil))
}

// changeable shows that companies can be changed, and that another one can register.
func changeable(t testing.TB, s *store.Store, ids ...string) {
	t.Helper()
	must.OK(t, s.Tables.Check(ctx, db.Installation))
	for _, id := range ids {
		c := got(s.Companies.Get(ctx, id))(t)
		must.OK(t, s.Tables.Check(ctx, c.Chain))
		got(s.Agents.Register(ctx, by(c, now), "bot", nil, many))(t)
	}
	number := got(s.Companies.Count(ctx))(t)
	company(t, s, fmt.Sprint("late", number))
	if list := s.Tables.Changed(); len(list) > 0 {
		t.Errorf("changed: %v", list)
	}
}

// lockedOut returns a closed database in which two companies registered as older programs
// recorded it: with the settings of the process, while the database had those of another one. The
// log of the companies began so too.
func lockedOut(t testing.TB, further int) string {
	t.Helper()
	s, path := fresh(t)
	must.OK(t, s.Settings.RecordStart(ctx, map[string]string{"program": "attestd/1", "onlyOlder": "on", "stream": "open"}))
	company(t, s, "acme")
	company(t, s, "zoo")
	for i := range further {
		company(t, s, fmt.Sprint("more", i))
	}
	must.OK(t, s.Close())
	must.OK(t, other(t, path, `UPDATE setting SET value = replace(replace(value, 'attestd/1', 'attestd/2'), '"stream":"open"', '"stream":"off"') WHERE name = 'trust_settings'`).Close())
	s = open(t, path)
	var invalid *store.VerifyError
	if err := s.VerifyAll(ctx, "", 2, nil, nil); !errors.As(err, &invalid) || !strings.Contains(invalid.Reason, "table setting") {
		t.Fatalf("before: %v", err)
	}
	if err := s.Tables.Check(ctx, db.Installation); !errors.Is(err, store.ErrTablesChanged) {
		t.Fatalf("before: %v", err)
	}
	must.OK(t, s.Close())
	return path
}

// A company whose registration has other settings than the database is unlocked by the next start,
// whichever settings that has, and so are registrations. The settings that the log had before are
// recorded.
func TestNextStartUnlocksCompanies(t *testing.T) {
	t.Parallel()
	path := lockedOut(t, 0)
	for _, program := range []string{"attestd/2", "attestd/1"} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			s := open(t, storetest.Copy(t, path))
			settings := map[string]string{"program": program, "stream": "off"}
			must.OK(t, s.Settings.RecordStart(ctx, settings))
			c := got(s.Companies.Get(ctx, "acme"))(t)
			list := said(t, s, c, "settings.changed")
			if len(list) != 1 || !strings.Contains(list[0], `"onlyOlder":{"from":"on","to":null}`) || !strings.Contains(list[0], `"stream":{"from":"open","to":"off"}`) ||
				strings.Contains(list[0], `"program"`) != (program == "attestd/2") {
				t.Errorf("recorded %q", list)
			}
			must.OK(t, s.VerifyAll(ctx, "", 2, nil, nil))
			changeable(t, s, "acme", "zoo")
			must.OK(t, s.Settings.RecordStart(ctx, settings))
			if list := said(t, s, c, "settings.changed"); len(list) != 1 {
				t.Errorf("the next start recorded %q", list)
			}
			must.OK(t, s.VerifyAll(ctx, "", 2, nil, nil))
		})
	}
}

// So it is of more companies than one transaction compares.
func TestNextStartUnlocksManyCompanies(t *testing.T) {
	testenv.Needs(t, testenv.NotQuick, testenv.NotRaced)
	t.Parallel()
	s := open(t, lockedOut(t, 600))
	must.OK(t, s.Settings.RecordStart(ctx, map[string]string{"program": "attestd/3"}))
	must.OK(t, s.VerifyAll(ctx, "", 2, nil, nil))
	changeable(t, s, "acme", "zoo", "more0", "more599")
	// one of the steps before the start records it, or the start itself
	for id, want := range map[string]int{"acme": 2, "more599": 1} {
		if list := said(t, s, got(s.Companies.Get(ctx, id))(t), "settings.changed"); len(list) != want {
			t.Errorf("%s: recorded %q", id, list)
		}
	}
}

// A difference in settings is accepted as others are, also of the log of the companies.
func TestSettingsAreAccepted(t *testing.T) {
	t.Parallel()
	s := open(t, lockedOut(t, 0))
	for _, id := range []string{"acme", "zoo", db.InstallationID} {
		got(admin.AcceptTables(ctx, s, admin.AcceptTablesOptions{Company: id, Reason: "another version recorded it"}))(t)
	}
	must.OK(t, s.VerifyAll(ctx, "", 2, nil, nil))
	changeable(t, s, "acme", "zoo")
	c := got(s.Companies.Get(ctx, "acme"))(t)
	if list := said(t, s, c, "settings.changed"); len(list) != 1 || !strings.Contains(list[0], `"program":{"from":"attestd/1","to":"attestd/2"}`) || strings.Contains(list[0], "databaseId") {
		t.Errorf("recorded %q", list)
	}
	if list := said(t, s, c, "tables.accepted"); len(list) != 1 || !strings.Contains(list[0], "another version recorded it") {
		t.Errorf("recorded %q", list)
	}
}

// A server of a version that does not know what the database is records at its start that nothing
// says it. That changes nothing, and does not free a fixed setting for another value.
func TestStartOfAProgramThatKnowsNoIdentity(t *testing.T) {
	t.Parallel()
	s, _ := fresh(t)
	must.OK(t, s.Settings.RecordStart(ctx, map[string]string{"program": "attestd/2"}))
	c, _ := company(t, s, "acme")
	record := func(changed string) {
		t.Helper()
		d := controlDraft(c)
		d.Payload = []byte(`{"actionType":"settings.changed","agentId":"service","companyId":"acme","log":"control","payload":{"by":null,"changed":` + changed + `,"subject":"database"}}`)
		d.Canonical = d.Payload
		got(s.Append(ctx, d))(t)
	}
	record(`{"serviceName":{"from":"service","to":null},"trustDomain":{"from":"attestd.local","to":null}}`)
	must.OK(t, s.VerifyAll(ctx, "", 2, nil, nil))
	must.OK(t, s.Settings.RecordStart(ctx, map[string]string{"program": "attestd/2"}))
	must.OK(t, s.VerifyAll(ctx, "", 2, nil, nil))
	record(`{"trustDomain":{"from":null,"to":"evil.example"}}`)
	var invalid *store.VerifyError
	if err := s.VerifyAll(ctx, "", 2, nil, nil); !errors.As(err, &invalid) || !strings.Contains(invalid.Reason, "is fixed") {
		t.Errorf("another trust domain: %v", err)
	}
}

// registeredByOlder registers a company as a server of an older version does: with the settings
// that this server was given, although another one has stored others since.
func registeredByOlder(t testing.TB, s *store.Store, database, id string) *store.Company {
	t.Helper()
	db := stranger(t, database, `CREATE TABLE stored AS SELECT value FROM setting WHERE name = 'trust_settings'`,
		`UPDATE setting SET value = replace(value, 'attestd/2', 'attestd/1') WHERE name = 'trust_settings'`)
	c, _ := company(t, s, id)
	for _, statement := range []string{`UPDATE setting SET value = (SELECT value FROM stored) WHERE name = 'trust_settings'`, `DROP TABLE stored`} {
		_, err := db.Exec(statement)
		must.OK(t, err)
	}
	must.OK(t, db.Close())
	return c
}

// During a rolling upgrade servers of an older version register companies after the last new server
// has started. A running server unlocks them. An external write into the row of the settings is
// recorded nowhere.
func TestRunningServerUnlocksCompanies(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	database := storetest.Shared(t)
	s := openWith(t, database, store.RunOptions{})
	must.OK(t, s.Settings.RecordStart(ctx, map[string]string{"program": "attestd/2"}))
	company(t, s, "before")
	must.OK(t, s.Settings.AgreeSettings(ctx, func(context.Context) error { return errors.New("nothing is to be recorded") }))
	for i, id := range []string{"acme", "zoo"} {
		c := registeredByOlder(t, s, database, id)
		if err := s.Tables.Check(ctx, c.Chain); !errors.Is(err, store.ErrTablesChanged) {
			t.Fatalf("before: %v", err)
		}
		lies := errors.New("the log of the companies does not verify")
		if err := s.Settings.AgreeSettings(ctx, func(context.Context) error { return lies }); !errors.Is(err, lies) {
			t.Errorf("recorded by a log that does not verify: %v", err)
		}
		verified := 0
		for range 2 {
			must.OK(t, s.Settings.AgreeSettings(ctx, func(context.Context) error { verified++; return nil }))
		}
		list := said(t, s, c, "settings.changed")
		if verified != 1 || len(list) != 1 || !strings.Contains(list[0], `"program":{"from":"attestd/1","to":"attestd/2"}`) {
			t.Errorf("%s: verified %d times, recorded %q", id, verified, list)
		}
		must.OK(t, s.VerifyAll(ctx, "", 2, nil, nil))
		changeable(t, s, []string{"acme", "zoo"}[:i+1]...)
	}

	c, _ := company(t, s, "victim")
	must.OK(t, stranger(t, database, `UPDATE setting SET value = replace(value, 'attestd/2', 'attestd/3') WHERE name = 'trust_settings'`).Close())
	must.OK(t, s.Settings.AgreeSettings(ctx, func(context.Context) error { return nil }))
	if list := said(t, s, c, "settings.changed"); len(list) != 0 {
		t.Errorf("recorded %q", list)
	}
	if err := s.Tables.Check(ctx, c.Chain); !errors.Is(err, store.ErrTablesChanged) {
		t.Errorf("a changed row: %v", err)
	}
}
