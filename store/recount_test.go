package store_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/admin"
	"attestd/store/db"
	"attestd/store/storetest"
)

// recounted counts again what verification finds to be counted wrongly, as attestd verify --recount
// does, and returns what it has corrected.
func recounted(t testing.TB, s *store.Store) (corrected []string) {
	t.Helper()
	must.OK(t, admin.Recount(ctx, s, allVerdicts(t, s), func(v store.ChainVerdict) {
		corrected = append(corrected, fmt.Sprintf("%s: %+d", v.Title(), v.Bytes.Found-v.Bytes.Counted))
	}))
	return corrected
}

func allVerdicts(t testing.TB, s *store.Store) (verdicts []store.ChainVerdict) {
	t.Helper()
	err := s.VerifyAll(ctx, "", 2, func(v store.ChainVerdict) { verdicts = append(verdicts, v) }, nil)
	if err != nil && !store.IsVerdict(err) {
		t.Fatal(err)
	}
	return verdicts
}

// wantMiscounted expects that all logs verify, and that so many heads count their bytes wrongly.
func wantMiscounted(t testing.TB, s *store.Store, logs int) {
	t.Helper()
	err := s.VerifyAll(ctx, "", 2, func(v store.ChainVerdict) {
		if !v.Valid {
			t.Errorf("%s does not verify: %s", v.Title(), v.Reason)
		}
	}, nil)
	var invalid *store.VerifyError
	var miscount *store.MiscountError
	if errors.As(err, &invalid) || !errors.As(err, &miscount) || miscount.Logs != logs {
		t.Errorf("verify says %v, want %d heads that count wrongly", err, logs)
	}
}

// A head that counts its bytes wrongly is corrected, of any log, and where payloads were pruned.
// The control log has the former count, and appends continue from the right one. The log is valid
// meanwhile, and copies of the database are.
func TestRecountCorrectsHeads(t *testing.T) {
	t.Parallel()
	p := old(t, 300)
	p.append(t, 20)
	p.prune(t, 280)
	must.OK(t, p.Close())
	must.OK(t, other(t, p.path, "UPDATE head SET bytes = bytes - 77 WHERE chain = 1", "UPDATE head SET bytes = 0 WHERE chain = -1",
		fmt.Sprintf("UPDATE head SET bytes = bytes + 5 WHERE chain = %d", store.ControlChain(db.Installation))).Close())
	p.Store = openWith(t, p.path, p.at.options())
	wantMiscounted(t, p.Store, 3)
	must.OK(t, p.VerifyContents(ctx, 2, nil))

	before := tip(t, p.Store, p.c)
	control, _, err := p.Tip(ctx, p.c.Control.Chain)
	must.OK(t, err)
	p.append(t, 1) // the log remembers the head
	corrected := recounted(t, p.Store)
	if len(corrected) != 3 || corrected[0] != "acme: +77" || corrected[2] != "log of the companies: -5" {
		t.Errorf("corrected: %q", corrected)
	}
	must.OK(t, p.VerifyAll(ctx, "", 2, nil, nil))
	p.append(t, 10)
	p.prune(t, 300)
	must.OK(t, p.VerifyAll(ctx, "", 2, nil, nil))
	if again := recounted(t, p.Store); len(again) != 0 {
		t.Errorf("corrected again: %q", again)
	}
	if more := tip(t, p.Store, p.c).Length - before.Length; more != 11 {
		t.Errorf("%d records more", more)
	}
	records := controlRecords(t, p.Store, p.c)[control.Length:]
	for i, want := range []string{`"from":` + fmt.Sprint(tipBytes(t, p, before.Bytes)), `"log":"control"`} {
		if !strings.Contains(records[i], `bytes.recounted`) || !strings.Contains(records[i], want) {
			t.Errorf("control record: %s, want %s", records[i], want)
		}
	}
}

// tipBytes returns what the head counted when it was corrected, with the record that came before.
func tipBytes(t testing.TB, p *pruner, before int64) int64 {
	t.Helper()
	return before + int64(len(`{"actionType":"build","agentId":"bot","companyId":"acme","payload":{"n":0,"text":""}}`)+
		len(`{"act":{"sub":"x"},"delegationChain":["x"],"subject":"x","tokenId":"1"}`))
}

// What is counted again follows from records that verify: a company with a log that fails is left
// out, and the others are not.
func TestRecountLeavesOutFailingCompany(t *testing.T) {
	t.Parallel()
	s, path := fresh(t)
	for _, id := range []string{"acme", "zoo"} {
		c, _ := company(t, s, id)
		attest(t, s, c, 3)
	}
	must.OK(t, s.Close())
	must.OK(t, other(t, path, append(slices.Clone(unguarded), "UPDATE head SET bytes = bytes + 1 WHERE chain > 0",
		"UPDATE record SET payload = replace(payload, 'bot', 'not') WHERE id = (1 << 40) + 1")...).Close())
	s = open(t, path)
	if corrected := recounted(t, s); !slices.Equal(corrected, []string{"zoo: -1"}) {
		t.Errorf("corrected: %q", corrected)
	}
	var invalid *store.VerifyError
	if err := s.VerifyAll(ctx, "", 2, nil, nil); !errors.As(err, &invalid) || invalid.Company != "acme" {
		t.Errorf("verify says %v", err)
	}
}

// Bytes are counted again while servers append: a server's cached head is invalid once it was
// corrected.
func TestRecountBesideServers(t *testing.T) {
	testenv.Needs(t, testenv.NotQuick, testenv.Plain)
	t.Parallel()
	url := storetest.Shared(t)
	first := openWith(t, url, store.RunOptions{})
	c, _ := company(t, first, "acme")
	attest(t, first, c, 50)
	db := connectPG(t, url)
	for round := range 5 {
		got(db.Exec("UPDATE head SET bytes = bytes + 1000, epoch = epoch + 1 WHERE chain = $1", c.Chain))(t)
		attest(t, first, c, 2) // which it builds on from now on
		second := openWith(t, url, store.RunOptions{})
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for range 40 {
				if _, err := first.Append(ctx, draft(c)); err != nil {
					t.Error(err)
				}
			}
		}()
		verdicts := allVerdicts(t, second)
		must.OK(t, admin.Recount(ctx, second, verdicts, func(v store.ChainVerdict) {
			if v.Bytes.Found-v.Bytes.Counted != -1000 {
				t.Errorf("round %d: %+v", round, v.Bytes)
			}
		}))
		<-ended
		attest(t, first, c, 2)
		must.OK(t, first.VerifyAll(ctx, "", 2, nil, nil))
		must.OK(t, second.Close())
	}
}

// attestd migrate counts again where payloads were pruned too, without the keys that sign records.
// The next start of a server records what was wrong, once.
func TestMigrateCountsWherePayloadsWerePruned(t *testing.T) {
	testenv.Needs(t, testenv.NotQuick, testenv.Plain)
	t.Parallel()
	p := &pruner{path: storetest.NewOnPostgres(t), at: &clocks{wall: now}}
	p.Store = openWith(t, p.path, p.at.options())
	must.OK(t, p.Settings.RecordStart(ctx, map[string]string{"stream": "open"}))
	p.c, _ = company(t, p.Store, "acme")
	p.append(t, 300)
	p.at.pass(2*day, 2*day)
	p.append(t, 3)
	p.prune(t, 290)
	must.OK(t, p.VerifyAll(ctx, "", 2, nil, nil))
	db := connectPG(t, p.path)
	got(db.Exec(`UPDATE head SET bytes = bytes - 9 WHERE chain = 1`))(t)
	// as the step to schema 21 does
	got(db.Exec(`INSERT INTO setting (name, value) VALUES ('uncounted_bytes', 'true')`))(t)
	for _, want := range []int{1, 0} {
		if m := got(store.Migrate(ctx, p.path, store.Options{}))(t); m.Recounted != want || len(m.Steps) != 0 {
			t.Errorf("%+v, want %d counts corrected", m, want)
		}
	}
	p.append(t, 1)
	must.OK(t, p.VerifyAll(ctx, "", 2, nil, nil))
	before := len(controlRecords(t, p.Store, p.c))
	must.OK(t, p.Settings.RecordStart(ctx, map[string]string{"stream": "open"}))
	must.OK(t, p.Settings.RecordStart(ctx, map[string]string{"stream": "open"}))
	records := controlRecords(t, p.Store, p.c)[before:]
	if len(records) != 1 || !strings.HasPrefix(records[0], "bytes.recounted {") || !strings.Contains(records[0], `"records":303,"subject":"bytes"`) {
		t.Errorf("recorded: %q", records)
	}
	must.OK(t, p.VerifyAll(ctx, "", 2, nil, nil))
}
