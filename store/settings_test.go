package store_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"attestd/chain"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/admin"
	"attestd/store/storetest"
)

// controlRecords returns the records of a company's control log, each as "kind payload".
func controlRecords(t testing.TB, s *store.Store, c *store.Company) (list []string) {
	t.Helper()
	must.OK(t, s.Records(ctx, c.Control.Chain, 0, 1<<20, func(r *chain.Record) error {
		var said struct {
			ActionType, Log string
			Payload         json.RawMessage
		}
		err := json.Unmarshal(r.Payload, &said)
		if said.Log != "control" {
			t.Errorf("record %d says it is of the log %q", r.Index, said.Log)
		}
		list = append(list, said.ActionType+" "+string(said.Payload))
		return err
	}))
	return list
}

// A start records in every control log the settings that have changed, and nothing if none has. A
// new company's log gets all settings.
func TestSettingsAreRecorded(t *testing.T) {
	t.Parallel()
	s, path := fresh(t)
	must.OK(t, s.Settings.RecordStart(ctx, map[string]string{"stream": "open"}))
	acme, _ := company(t, s, "acme")
	zoo, _ := company(t, s, "zoo")
	list := controlRecords(t, s, acme)
	for _, says := range []string{`"settings":{`, `"keysAtRest":"`, `"stream":"open"`, `"serviceName":"service"`, `"trustDomain":"attestd.local"`, `"databaseId":"`, `"rowKey":"`} {
		if len(list) != 2 || !strings.Contains(list[0], says) {
			t.Errorf("registered without %s: %q", says, list)
		}
	}
	must.OK(t, s.Close())
	for _, stream := range []string{"open", "off", "off"} {
		s = open(t, path)
		must.OK(t, s.Settings.RecordStart(ctx, map[string]string{"stream": stream}))
		must.OK(t, s.VerifyAll(ctx, "", 1, nil, nil))
		must.OK(t, s.Close())
	}
	s = open(t, path)
	must.OK(t, s.Settings.RecordStart(ctx, map[string]string{"registration": "closed"}))
	for _, c := range []*store.Company{acme, zoo} {
		want := []string{
			`settings.changed {"by":null,"changed":{"stream":{"from":"open","to":"off"}},"subject":"database"}`,
			`settings.changed {"by":null,"changed":{"registration":{"from":null,"to":"closed"},"stream":{"from":"off","to":null}},"subject":"database"}`,
		}
		if list := controlRecords(t, s, c)[2:]; fmt.Sprint(list) != fmt.Sprint(want) {
			t.Errorf("%s: %q", c.ID, list)
		}
	}
}

// The next start records a restore once, with the lengths of the replaced logs.
func TestRestoreIsRecorded(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	storetest.AboutFile(t)
	t.Parallel()
	s, path := fresh(t)
	acme, _ := company(t, s, "acme")
	attest(t, s, acme, 3)
	in := backUp(t, path)
	attest(t, s, acme, 2)
	company(t, s, "late")
	must.OK(t, s.Close())
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	over, beside := path, target(t)
	must.OK(t, restore(t, in, over, admin.RestoreOptions{At: at, Force: true, AcceptRollback: true}))
	must.OK(t, restore(t, in, beside, admin.RestoreOptions{At: at}))
	for path, replaced := range map[string]string{over: `{"actions":5,"control":2}`, beside: "null"} {
		for range 2 {
			s := open(t, path)
			must.OK(t, s.Settings.RecordStart(ctx, nil))
			list := controlRecords(t, s, acme)
			want := `database.restored {"by":null,"replaced":` + replaced + `,"restoredAt":"2026-11-21T12:00:00.000Z","subject":"database"}`
			if len(list) != 4 || list[2] != want || !strings.HasPrefix(list[3], "settings.changed ") {
				t.Errorf("records %q, want %s", list, want)
			}
			must.OK(t, s.VerifyAll(ctx, "", 1, nil, nil))
			must.OK(t, s.Close())
		}
	}
}
