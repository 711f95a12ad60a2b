package store_test

import (
	"maps"
	"testing"
	"time"

	"attestd/internal/must"
	"attestd/internal/testenv"
)

// The summaries of records whose payloads were pruned stay. One that is missing is not made again,
// and none is missed; those of later records are made and compared as ever.
func TestSummariesOfPrunedRecordsStay(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	p := old(t, 1100)
	must.OK(t, p.FillSummaries(ctx, nil))
	before := summaries(t, p.Store, p.c.Chain)
	if len(before) != 4 {
		t.Fatalf("%d summaries", len(before))
	}
	p.prune(t, 600)
	if after := summaries(t, p.Store, p.c.Chain); !maps.EqualFunc(before, after, func(a, b []byte) bool { return string(a) == string(b) }) {
		t.Error("summaries have changed")
	}
	must.OK(t, p.VerifyAll(ctx, "", 2, nil, nil))
	must.OK(t, other(t, p.path, "DELETE FROM summary WHERE id IN (4294967296 + 1, 4294967296 + 3)").Close())
	for range 2 {
		p.reopen(t)
		made := 0
		must.OK(t, p.FillSummaries(ctx, func(time.Duration) { made++ }))
		if made > 1 {
			t.Errorf("%d summaries were made", made)
		}
		if after := summaries(t, p.Store, p.c.Chain); len(after) != 3 || after[1] != nil || string(after[3]) != string(before[3]) {
			t.Errorf("%d summaries", len(after))
		}
		must.OK(t, p.VerifyAll(ctx, "", 2, nil, nil))
	}
	must.OK(t, other(t, p.path, "UPDATE summary SET terms = zeroblob(9) WHERE id = 4294967296 + 3").Close())
	if err := p.VerifyAll(ctx, "", 2, nil, nil); err == nil {
		t.Error("a wrong summary of records that are there verifies")
	}
}
