package store_test

import (
	"errors"
	"maps"
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

// Each difference that verification names has a remedy that works. Where accept-tables accepts the
// differences, the database verifies afterwards. Where it does not, it recommends a restore from a
// backup, and has accepted nothing of that company.
func TestEachDifferenceHasItsRemedy(t *testing.T) {
	testenv.Needs(t, testenv.Slow, testenv.NotRaced)
	t.Parallel()
	storetest.AboutFile(t)
	start := filled(t)
	list := forgeries()
	maps.Copy(list, rows)
	maps.DeleteFunc(list, func(what, _ string) bool {
		return sealedAway(what) || strings.HasPrefix(what, "approval.") || what == "bytes that were not counted" ||
			slices.ContainsFunc(ofLogs, func(table string) bool { return strings.HasPrefix(what, table) })
	})
	list["settings"] = `UPDATE setting SET value = replace(value, 'open', 'closed') WHERE name = 'trust_settings'`
	taken := 0
	for _, what := range slices.Sorted(maps.Keys(list)) {
		path := storetest.Copy(t, start)
		must.OK(t, other(t, path, append(guards(t, path), list[what])...).Close())
		s := open(t, path)
		var refused error
		for number, id := range map[int64]string{1: "acme", 2: "zoo", db.Installation: db.InstallationID} {
			before, _, err := s.Tip(ctx, store.ControlChain(number))
			must.OK(t, err)
			_, err = admin.AcceptTables(ctx, s, admin.AcceptTablesOptions{Company: id, Reason: "it was me"})
			if err == nil || strings.Contains(err.Error(), "nothing to accept") {
				continue
			}
			if refused = errors.Join(refused, err); !errors.Is(err, store.ErrRefused) && !strings.HasPrefix(what, "company.") {
				t.Errorf("%s: %s is refused with %v", what, id, err)
			}
			if after, _, err := s.Tip(ctx, store.ControlChain(number)); err != nil || after.Length != before.Length {
				t.Errorf("%s: %s is refused, and has %d records more: %v", what, id, after.Length-before.Length, err)
			}
		}
		err := s.VerifyAll(ctx, "", 2, nil, nil)
		var invalid *store.VerifyError
		switch {
		case refused == nil && err == nil:
			taken++
		case refused == nil || !strings.Contains(refused.Error(), "put a backup in place") || !errors.As(err, &invalid):
			t.Errorf("%s: refused: %v; then verify says %v", what, refused, err)
		}
		must.OK(t, s.Close())
	}
	if taken < 100 {
		t.Errorf("%d of %d differences were accepted", taken, len(list))
	}
}
