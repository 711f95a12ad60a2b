package store_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"attestd/chain"
	"attestd/chain/tlog"
	"attestd/crypto/jose"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/ledger"
	"attestd/store/storetest"
)

// archiveSum replaces the SHA-256 of an archive.
var archiveSum = strings.Repeat("a5", 32)

// pruner is a database of acme with old records, whose payloads may go.
type pruner struct {
	*store.Store
	path string
	at   *clocks
	c    *store.Company
}

// old returns a database whose records are two days old.
func old(t testing.TB, records int) *pruner {
	t.Helper()
	p := &pruner{path: storetest.New(t), at: &clocks{wall: now}}
	p.Store = openWith(t, p.path, p.at.options())
	p.c, _ = company(t, p.Store, "acme")
	p.append(t, records)
	p.at.pass(2*day, 2*day)
	return p
}

// append appends records, each third of them with a delegation.
func (p *pruner) append(t testing.TB, n int) {
	t.Helper()
	var drafts []chain.Draft
	for i := range n {
		d := saying(p.c, fmt.Sprintf(`{"n":%d,"text":%q}`, i, strings.Repeat("x", i%9)))
		if i%3 == 0 {
			d.Delegation = []byte(`{"act":{"sub":"x"},"delegationChain":["x"],"subject":"x","tokenId":"1"}`)
		}
		drafts = append(drafts, d)
		if len(drafts) == 100 || i == n-1 {
			got(p.AppendAll(ctx, drafts))(t)
			drafts = nil
		}
	}
}

func (p *pruner) by() store.Caller { return by(p.c, p.at.now()) }

// reopen opens the database again, as after a kill.
func (p *pruner) reopen(t testing.TB) {
	t.Helper()
	must.OK(t, p.Close())
	p.Store = openWith(t, p.path, p.at.options())
}

// root is that of the log tree of the first records.
func root(t testing.TB, s *store.Store, number, records int64) tlog.Hash {
	t.Helper()
	leaves, tree := chain.Leaves{Keys: got(s.KeySet(ctx, number))(t)}, tlog.Frontier{}
	must.OK(t, s.Records(ctx, number, 0, records, func(r *chain.Record) error {
		leaf := leaves.Of(r)
		tree, _ = tree.Append(leaf.Hash())
		return nil
	}))
	return tree.Root()
}

// begin begins to prune the first records.
func (p *pruner) begin(t testing.TB, records int64) store.PrunedRecords {
	t.Helper()
	return got(p.Pruning.BeginPrune(ctx, p.by(), records, root(t, p.Store, p.c.Chain, records), archiveSum))(t)
}

// prune deletes all payloads of the first records.
func (p *pruner) prune(t testing.TB, records int64) {
	t.Helper()
	p.begin(t, records)
	if left := got(p.Pruning.PruneNext(ctx, p.by(), 1<<40))(t); left != 0 {
		t.Fatalf("%d records are left", left)
	}
}

// missing verifies everything, and returns how many payloads are missing in front.
func (p *pruner) missing(t testing.TB) (n int64) {
	t.Helper()
	for _, v := range verified(t, p.Store) {
		if v.Chain == p.c.Chain {
			n = v.Pruned
		}
	}
	has := false
	index := int64(0)
	must.OK(t, p.Records(ctx, p.c.Chain, 0, 1<<30, func(r *chain.Record) error {
		if r.IsPruned() && has || has != !r.IsPruned() && index != n {
			t.Errorf("record %d is pruned: %v", r.Index, r.IsPruned())
		}
		has = !r.IsPruned()
		index++
		return nil
	}))
	return n
}

// kept is everything that pruning leaves unchanged: the tables except payloads of actions, and the
// control log.
func (p *pruner) kept(t testing.TB) map[string]string {
	t.Helper()
	db := other(t, p.path)
	defer db.Close()
	all := map[string]string{}
	for name, query := range map[string]string{
		"record":  "SELECT id, hash, signature, timestamp, delegation FROM record WHERE id > 0 ORDER BY id",
		"node":    "SELECT chain, level, idx, hash, log_hash FROM node ORDER BY chain, level, idx",
		"head":    "SELECT chain, length, root, frontier, timestamp, log_root, log_frontier, bytes FROM head WHERE chain > 0 ORDER BY chain",
		"summary": "SELECT id, terms FROM summary ORDER BY id",
		"later":   fmt.Sprintf("SELECT id, payload FROM record WHERE id >= (1 << 40) + %d ORDER BY id", 600),
	} {
		all[name] = dump(t, db, storetest.Statement(query))
	}
	return all
}

// Nothing is pruned by a wrong clock: not after a leap, until that is right again or trusted, and
// not by one that was ahead of the database when the server began, unless the operator has accepted
// it.
func TestPruneByAWrongClock(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	p := old(t, 10)
	p.append(t, 10)
	number := p.c.Chain
	refuses := func(what, says string, records int64) {
		t.Helper()
		_, err := p.Pruning.BeginPrune(ctx, p.by(), records, root(t, p.Store, number, records), archiveSum)
		if !errors.Is(err, store.ErrNotPrunable) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", what, err)
		}
	}
	refuses("records of this minute", "not a day old", 20)
	p.at.pass(3*day, time.Second)
	refuses("records of this minute, after a leap", "leapt", 20)
	refuses("old records, after a leap", "leapt", 10)
	p.at.pass(-3*day, time.Second)
	refuses("records of this minute, when the clock is right again", "not a day old", 20)

	p.at.pass(3*day, 0)
	p.reopen(t)
	refuses("records of this minute, after a start by a wrong clock", "--accept-clock", 20)
	p.at.pass(-3*day, time.Second)
	p.prune(t, 10) // they are old by the right one

	must.OK(t, p.Close())
	p.at.pass(3*day, 0)
	o := p.at.options()
	o.AcceptClock = true
	p.Store = openWith(t, p.path, o)
	must.OK(t, p.Ready(ctx)) // wait until the server runs
	p.prune(t, 20)
}

// Pruning deletes the payloads of the first actions, a few at a time, also across kills, and
// changes nothing else. At each moment the database verifies.
func TestPruneTakesPayloadsAlone(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	p := old(t, 1000)
	zoo, _ := company(t, p.Store, "zoo")
	attest(t, p.Store, zoo, 3)
	before := p.kept(t)
	if left := got(p.Pruning.PruneNext(ctx, p.by(), 100))(t); left != 0 || p.missing(t) != 0 {
		t.Errorf("%d are left before anything was pruned", left)
	}
	if none := got(p.PrunedRecords(ctx, p.c.Chain))(t); none != (store.PrunedRecords{}) {
		t.Errorf("nothing was pruned: %+v", none)
	}
	head := tipOf(t, p.Store, p.c.Control)
	first := p.begin(t, 600)
	if first.Records != 600 || first.Index != head.Length || first.Archive != archiveSum || first.At == "" {
		t.Errorf("%+v", first)
	}
	if n := p.missing(t); n != 0 {
		t.Errorf("%d are missing too early", n)
	}
	for _, step := range []struct{ most, left int64 }{{1, 599}, {298, 301}, {300, 1}, {0, 1}, {1 << 40, 0}, {10, 0}} {
		if left := got(p.Pruning.PruneNext(ctx, p.by(), step.most))(t); left != step.left {
			t.Errorf("%d records are left, want %d", left, step.left)
		}
		if n := p.missing(t); n != 600-step.left {
			t.Errorf("%d are missing, want %d", n, 600-step.left)
		}
		p.reopen(t)
	}
	if after := p.kept(t); !maps.Equal(before, after) {
		for name := range before {
			if before[name] != after[name] {
				t.Errorf("table %s was changed", name)
			}
		}
	}
	if again := got(p.PrunedRecords(ctx, p.c.Chain))(t); again != first {
		t.Errorf("%+v, and was %+v", again, first)
	}
	if other := got(p.PrunedRecords(ctx, zoo.Chain))(t); other.Records != 0 {
		t.Errorf("another company: %+v", other)
	}
	// more of them, half of which another program has deleted
	bytes := tip(t, p.Store, p.c).Bytes
	p.append(t, 300)
	p.at.pass(2*day, 2*day)
	second := p.begin(t, 1200)
	if second.Bytes <= first.Bytes || second.Index <= first.Index || second.Skeleton == first.Skeleton {
		t.Errorf("%+v after %+v", second, first)
	}
	other(t, p.path, "UPDATE record SET payload = '' WHERE id BETWEEN (1 << 40) + 900 AND (1 << 40) + 1100").Close()
	must.OK(t, p.VerifyAll(ctx, "", 2, nil, nil))
	if left := got(p.Pruning.PruneNext(ctx, p.by(), 1<<40))(t); left != 0 || p.missing(t) != 1200 {
		t.Errorf("%d are left", left)
	}
	// a quota gives nothing back
	p.append(t, 1)
	if now := tip(t, p.Store, p.c); now.Bytes <= bytes || now.Length != 1301 {
		t.Errorf("%+v", now)
	}
	must.OK(t, p.VerifyAll(ctx, "", 2, nil, nil))
	if differences := p.Tables.Changed(); len(differences) > 0 {
		t.Error(differences)
	}
}

// wantNotPrunable demands that payloads of the first records may not go, for a reason.
func (p *pruner) wantNotPrunable(t testing.TB, records int64, sum, why string) {
	t.Helper()
	before := tipOf(t, p.Store, p.c.Control).Length
	_, err := p.Pruning.BeginPrune(ctx, p.by(), records, root(t, p.Store, p.c.Chain, max(0, min(records, length(t, p.Store, p.c)))), sum)
	if !errors.Is(err, store.ErrNotPrunable) || !errors.Is(err, store.ErrRefused) || !strings.Contains(err.Error(), why) {
		t.Errorf("%d records: %v, want %s", records, err, why)
	}
	if tipOf(t, p.Store, p.c.Control).Length != before {
		t.Errorf("%d records, %s: something was recorded", records, why)
	}
}

// Payloads that may still be needed stay, and those that were pruned stay pruned.
func TestPruneIsRefused(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	p := old(t, 20)
	p.wantNotPrunable(t, 0, archiveSum, "first 0 records are pruned already")
	p.wantNotPrunable(t, -1, archiveSum, "pruned already")
	p.wantNotPrunable(t, 21, archiveSum, "the log has 20 records")
	p.wantNotPrunable(t, 5, "abc", "no SHA-256")
	p.wantNotPrunable(t, 5, archiveSum+"00", "no SHA-256")
	if _, err := p.Pruning.BeginPrune(ctx, p.by(), 5, root(t, p.Store, p.c.Chain, 6), archiveSum); !errors.Is(err, store.ErrNotPrunable) || !strings.Contains(err.Error(), "another one") {
		t.Errorf("with the root of more: %v", err)
	}
	p.append(t, 1)
	p.at.pass(23*time.Hour, 23*time.Hour)
	p.wantNotPrunable(t, 21, archiveSum, "record 20 is not a day old")
	p.begin(t, 20)
	p.wantNotPrunable(t, 20, archiveSum, "first 20 records are pruned already")
	p.wantNotPrunable(t, 19, archiveSum, "first 20 records are pruned already")
	p.at.pass(time.Hour, time.Hour)
	p.begin(t, 21)
	got(p.Pruning.PruneNext(ctx, p.by(), 1<<40))(t)

	h := got(p.Webhooks.Create(ctx, p.by(), store.Webhook{URL: "https://hooks.example.com/"}, webhookSecret(), 2))(t)
	got(once(t, p.Store, keyed(p.c, "a key", "a request")))(t) // record 21
	p.append(t, 1)
	p.at.pass(2*day, 2*day)
	p.wantNotPrunable(t, 22, archiveSum, "a retry of record 21")
	p.at.pass(ledger.KeyLifetime, ledger.KeyLifetime)
	p.wantNotPrunable(t, 22, archiveSum, "webhook "+h.ID)
	must.OK(t, p.Webhooks.SaveProgress(ctx, nil, map[string]store.Progress{h.ID: {Next: 22}}))
	p.begin(t, 22)
	p.wantNotPrunable(t, 23, archiveSum, "webhook "+h.ID)
	got(p.Webhooks.Disable(ctx, p.by(), h.ID, store.WebhookRequested))(t)
	// the names of statements stay taken for ever, and prevent no prune
	d := signed(t, got(jose.GenerateKey(jose.EdDSA))(t), p.c, 0, "1")
	first := got(once(t, p.Store, d))(t)
	p.at.pass(2*day, 2*day)
	p.prune(t, 24)
	again := got(once(t, p.Store, d))(t)
	if !again.Replayed || again.Index != first.Index || again.Hash != first.Hash || !again.IsPruned() {
		t.Errorf("a retry of record %d: %+v", first.Index, again)
	}
	if r := got(p.Retries.Recorded(ctx, p.by(), &d.Keys[0], &d))(t); r.Index != first.Index || !r.IsPruned() {
		t.Errorf("%+v", r)
	}
	must.OK(t, p.VerifyAll(ctx, "", 2, nil, nil))
}

// Nothing is pruned of a company whose tables or records were altered.
func TestPruneOfDamagedCompanyIsRefused(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	for what, damage := range map[string]string{
		"payload":    `UPDATE record SET payload = replace(payload, '"n":3,', '"n":4,') WHERE id = (1 << 40) + 3`,
		"time":       "UPDATE record SET timestamp = '2026-03-04T05:06:07.009Z' WHERE id = (1 << 40) + 3",
		"delegation": "UPDATE record SET delegation = NULL WHERE id = (1 << 40) + 3",
		"missing":    "UPDATE record SET payload = '' WHERE id = (1 << 40) + 3",
		"gone":       "DELETE FROM record WHERE id = (1 << 40) + 3",
	} {
		p := old(t, 10)
		sum := root(t, p.Store, p.c.Chain, 8)
		must.OK(t, other(t, p.path, append(unguarded, damage)...).Close())
		if _, err := p.Pruning.BeginPrune(ctx, p.by(), 8, sum, archiveSum); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%s: %v", what, err)
		}
	}
	// what was pruned before is still what the company has signed
	p := old(t, 10)
	p.prune(t, 5)
	sum := root(t, p.Store, p.c.Chain, 8)
	must.OK(t, other(t, p.path, append(unguarded, "UPDATE record SET timestamp = '2026-03-04T05:06:07.009Z' WHERE id = (1 << 40) + 3")...).Close())
	if _, err := p.Pruning.BeginPrune(ctx, p.by(), 8, sum, archiveSum); !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), "not those whose payloads were pruned") {
		t.Errorf("pruned before: %v", err)
	}
	if err := p.VerifyAll(ctx, "", 2, nil, nil); err == nil {
		t.Error("it verifies")
	}
	halted := old(t, 10)
	got(halted.Agents.Register(ctx, halted.by(), "bot", nil, many))(t)
	must.OK(t, other(t, halted.path, "UPDATE agent SET disabled_at = 'x'").Close())
	if err := halted.VerifyAll(ctx, "", 2, nil, nil); err == nil {
		t.Fatal("it verifies")
	}
	if _, err := halted.Pruning.BeginPrune(ctx, halted.by(), 5, root(t, halted.Store, halted.c.Chain, 5), archiveSum); !errors.Is(err, store.ErrTablesChanged) {
		t.Errorf("with changed tables: %v", err)
	}
}

// The control record says who has pruned what, in this form, which verifiers read for good.
func TestPruneIsRecorded(t *testing.T) {
	t.Parallel()
	p := old(t, 12)
	k := clerk{T: t, s: p.Store, c: p.c, read: tipOf(t, p.Store, p.c.Control).Length}
	said := p.begin(t, 7)
	sum := root(t, p.Store, p.c.Chain, 7)
	k.writes("prune", did(p.c, store.PayloadsPruned, "payloads", details{"records": 7, "bytes": said.Bytes, "archive": archiveSum,
		"root": fmt.Sprintf("%x", sum[:]), "skeleton": fmt.Sprintf("%x", said.Skeleton[:])}))
	got(p.Pruning.PruneNext(ctx, p.by(), 1<<40))(t)
	k.writes("taking the payloads away")
}

// Of two that begin at once, each is done or refused, and what was pruned never gets less.
func TestPrunesAtOnce(t *testing.T) {
	t.Parallel()
	p := old(t, 20)
	five, nine := root(t, p.Store, p.c.Chain, 5), root(t, p.Store, p.c.Chain, 9)
	errs := make(chan error)
	go func() {
		_, err := p.Pruning.BeginPrune(ctx, p.by(), 5, five, archiveSum)
		errs <- err
	}()
	go func() {
		_, err := p.Pruning.BeginPrune(ctx, p.by(), 9, nine, archiveSum)
		errs <- err
	}()
	begun := 0
	for range 2 {
		if err := <-errs; err == nil {
			begun++
		} else if !errors.Is(err, store.ErrNotPrunable) {
			t.Error(err)
		}
	}
	if found := got(p.PrunedRecords(ctx, p.c.Chain))(t); begun == 0 || begun == 2 && found.Records != 9 {
		t.Errorf("%d have begun: %+v", begun, found)
	}
	must.OK(t, p.VerifyAll(ctx, "", 2, nil, nil))
}
