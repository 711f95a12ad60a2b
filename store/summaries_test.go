package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"attestd/chain"
	"attestd/chain/search"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/storetest"
)

// summaries returns the stored summaries of a chain by number.
func summaries(t testing.TB, s *store.Store, number int64) map[int64][]byte {
	t.Helper()
	found := map[int64][]byte{}
	must.OK(t, s.Summaries(ctx, number, 0, 1<<20, false, func(index int64, summary []byte) error {
		found[index] = bytes.Clone(summary)
		return nil
	}))
	return found
}

// wantSummaries demands that exactly the summaries of the given ranges exist, and that each agrees
// with the records.
func wantSummaries(t testing.TB, s *store.Store, number int64, ranges ...int64) {
	t.Helper()
	found := summaries(t, s, number)
	for _, index := range ranges {
		if want := got(search.Summarize(ctx, s, number, index))(t); !bytes.Equal(found[index], want) || want == nil {
			t.Errorf("summary %d of chain %d is %x, want %x", index, number, found[index], want)
		}
	}
	if len(found) != len(ranges) {
		t.Errorf("chain %d has %d summaries, want those of %v", number, len(found), ranges)
	}
}

// act appends n records of several agents.
func act(t testing.TB, s *store.Store, c *store.Company, n int) {
	t.Helper()
	for n > 0 {
		var drafts []chain.Draft
		for i := range min(n, 100) {
			payload := fmt.Appendf(nil, `{"agentId":"bot-%d","companyId":%q,"actionType":"act-%d","payload":%d}`, i%7, c.ID, i%3, i)
			canonical := fmt.Appendf(nil, `{"actionType":"act-%d","agentId":"bot-%d","companyId":%q,"payload":%d}`, i%3, i%7, c.ID, i)
			drafts = append(drafts, chain.Draft{Chain: c.Chain, Payload: payload, Canonical: canonical})
		}
		_, err := s.AppendAll(ctx, drafts)
		must.OK(t, err)
		n -= len(drafts)
	}
}

// The writer of the log stores the summary of each range of which it has written all records. A
// range that a restart interrupted gets its summary later, exactly once.
func TestSummariesAreWrittenWithTheRecords(t *testing.T) {
	t.Parallel()
	s, path := fresh(t)
	a, _ := company(t, s, "acme")
	b, _ := company(t, s, "globex")
	act(t, s, a, 100)
	act(t, s, b, 600)
	act(t, s, a, 500)
	wantSummaries(t, s, a.Chain, 0, 1)
	wantSummaries(t, s, b.Chain, 0, 1)
	must.OK(t, s.Close())

	s = open(t, path)
	act(t, s, a, 400) // 1000 records: range 2 was begun before the restart
	wantSummaries(t, s, a.Chain, 0, 1)
	act(t, s, a, 100)
	wantSummaries(t, s, a.Chain, 0, 1, 3)
	must.OK(t, s.FillSummaries(ctx, nil))
	wantSummaries(t, s, a.Chain, 0, 1, 2, 3)
	must.OK(t, s.Close())
	s = open(t, path)
	wantSummaries(t, s, a.Chain, 0, 1, 2, 3)
	verified(t, s)
}

// A transaction that fails leaves nothing in a summary.
func TestSummaryOmitsLostTransaction(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	s, _ := fresh(t)
	c, _ := company(t, s, "acme")
	act(t, s, c, 200)
	lost := extension(c.Chain, tip(t, s, c), 100)
	for i := range lost.Records {
		lost.Records[i].Payload = []byte(`{"agentId":"nobody","companyId":"acme","actionType":"nothing","payload":1}`)
		lost.Records[i].Delegation = nil
	}
	if err := s.Extend(lost, extension(99, chain.EmptyHead(), 1)); !errors.Is(err, chain.ErrStale) {
		t.Fatal(err)
	}
	act(t, s, c, 100)
	must.OK(t, s.FillSummaries(ctx, nil))
	wantSummaries(t, s, c.Chain, 0)
}

// A file from before summaries can be searched unchanged, and gets them once, in the background.
func TestOldRecordsGetSummaries(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	storetest.AboutFile(t)
	t.Parallel()
	path, _ := written(t, "9")
	s := open(t, path)
	c := got(s.Companies.Get(ctx, "acme"))(t)
	delegated := func() int64 {
		counts := got(search.Count(ctx, s, c.Chain, search.Filter{Agent: "deploy-bot", DelegatedBy: "*"}, []int64{0, 600}))(t)
		return counts[0]
	}
	wantSummaries(t, s, c.Chain)
	if n := delegated(); n != 300 {
		t.Errorf("%d records by delegation before, want 300", n)
	}
	act(t, s, c, 200) // range 2 is interrupted, range 3 is not begun
	rests := 0
	must.OK(t, s.FillSummaries(ctx, func(_ time.Duration) { rests++ }))
	wantSummaries(t, s, c.Chain, 0, 1, 2)
	if n := delegated(); n != 300 {
		t.Errorf("%d records by delegation after, want 300", n)
	}
	must.OK(t, s.FillSummaries(ctx, func(_ time.Duration) { rests++ }))
	if rests != 3 {
		t.Errorf("%d summaries were made, want 3", rests)
	}
	must.OK(t, s.VerifyAll(ctx, "", 2, nil, nil))
}

// A search finds the same records whichever summaries are missing, for example after a crash while
// they were being made, and wherever it begins and ends. The next start makes the missing ones.
func TestSearchesWhileSummariesAreMissing(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	s, path := fresh(t)
	c, _ := company(t, s, "acme")
	act(t, s, c, 1030)
	var records []chain.Record
	must.OK(t, s.Records(ctx, c.Chain, 0, 1030, func(r *chain.Record) error {
		records = append(records, chain.Record{Index: r.Index, Payload: bytes.Clone(r.Payload)})
		return nil
	}))
	finds := func(f search.Filter, from, to int64, backward bool) {
		var found, want []int64
		for scan := search.NewScan(s, c.Chain, f, from, to, backward); !scan.Done(); {
			must.OK(t, scan.Step(ctx, func(r *chain.Record) bool { found = append(found, r.Index); return true }))
		}
		for _, r := range records[from:to] {
			if got(f.Matches(&r))(t) {
				want = append(want, r.Index)
			}
		}
		if backward {
			slices.Reverse(want)
		}
		if counts := got(search.Count(ctx, s, c.Chain, f, []int64{from, to}))(t); !slices.Equal(found, want) || counts[0] != int64(len(want)) {
			t.Errorf("%+v in [%d, %d), backward %v: %v, %v counted, want %v", f, from, to, backward, found, counts, want)
		}
	}
	filters := []search.Filter{{Agent: "bot-3", Action: "act-1"}, {Action: "act*"}, {Agent: "nobody"}, {Agent: "bot-6", Text: "x"}, {DelegatedBy: "*"}}
	for _, gone := range []int64{-1, 1, 3, 0, 2} {
		if gone >= 0 {
			must.OK(t, other(t, path, fmt.Sprintf("DELETE FROM summary WHERE id = %d", c.Chain<<32+gone)).Close())
		}
		for _, from := range []int64{0, 1, 255, 256, 257, 511, 700} {
			for i, to := range []int64{from, from + 1, 257, 512, 768, 1023, 1024, 1030} {
				finds(filters[i%len(filters)], from, max(from, to), gone%2 == 0)
			}
		}
	}
	wantSummaries(t, s, c.Chain)
	must.OK(t, s.Close())
	s = open(t, path)
	must.OK(t, s.FillSummaries(ctx, nil))
	wantSummaries(t, s, c.Chain, 0, 1, 2, 3)
}

// A range with a damaged record gets no summary: a search reaches the record and reports the
// damage.
func TestDamagedRangeHasNoSummary(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	path, _ := written(t, "9")
	must.OK(t, other(t, path, append(unguarded, "UPDATE record SET payload = '{' WHERE id = 1 << 40 | 7")...).Close())
	s := open(t, path)
	c := got(s.Companies.Get(ctx, "acme"))(t)
	must.OK(t, s.FillSummaries(ctx, nil))
	wantSummaries(t, s, c.Chain, 1)
	var damaged *search.DamageError
	if _, err := search.Count(ctx, s, c.Chain, search.Filter{Agent: "nobody"}, []int64{0, 600}); !errors.As(err, &damaged) || damaged.Index != 7 {
		t.Error(err)
	}
}

// A summary that disagrees with its records could hide a record from a search: verification names
// it, and also a summary that belongs to no range.
func TestVerificationComparesSummaries(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	for does, trick := range map[string]struct {
		sql    string
		failed int64
	}{
		"a summary is another's":         {"UPDATE summary SET terms = (SELECT terms FROM summary WHERE id = 4294967297) WHERE id = 4294967296", 0},
		"a summary is nothing":           {"UPDATE summary SET terms = x'01' WHERE id = 4294967297", 256},
		"a summary stands where none is": {"INSERT INTO summary SELECT 4294967298, terms FROM summary WHERE id = 4294967296", 512},
	} {
		s, path := fresh(t)
		c, _ := company(t, s, "acme")
		act(t, s, c, 600)
		verified(t, s)
		must.OK(t, other(t, path, trick.sql).Close())
		err := s.VerifyAll(ctx, "", 1, nil, nil)
		var failed *store.VerifyError
		if !errors.As(err, &failed) || failed.Index != trick.failed {
			t.Errorf("%s: %v, want a failure at %d", does, err, trick.failed)
		}
	}
}

// Two servers extend one chain, so neither of them writes a whole range. The summaries that are
// made later agree with the records.
func TestSummariesOfAChainOfTwoServers(t *testing.T) {
	testenv.Concurrent(t)
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	url := storetest.Shared(t)
	servers := []*store.Store{openWith(t, url, store.RunOptions{}), openWith(t, url, store.RunOptions{})}
	c, _ := company(t, servers[0], "acme")
	for i := range 9 {
		act(t, servers[i%2], c, 100)
	}
	// The range of records 1024 to 1279 is incomplete, and both servers wrote the one before.
	act(t, servers[1], c, 300)
	var both sync.WaitGroup
	for _, s := range servers {
		both.Go(func() {
			if err := s.FillSummaries(ctx, nil); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	wantSummaries(t, servers[0], c.Chain, 0, 1, 2, 3)
	verified(t, servers[1])
}
