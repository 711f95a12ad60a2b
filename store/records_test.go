package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"attestd/chain"
	"attestd/chain/tlog"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/storetest"
)

var _ chain.Reader = (*store.Store)(nil)

func read(t testing.TB, s *store.Store, number, from, to int64) (all []chain.Record) {
	t.Helper()
	must.OK(t, s.Records(ctx, number, from, to, func(r *chain.Record) error {
		c := *r
		c.Payload, c.Delegation = bytes.Clone(r.Payload), bytes.Clone(r.Delegation)
		all = append(all, c)
		return nil
	}))
	return all
}

func TestExtendAndRead(t *testing.T) {
	t.Parallel()
	s, path := fresh(t)
	a, _ := company(t, s, "a")
	b, _ := company(t, s, "b")
	if h := tip(t, s, a); !reflect.DeepEqual(h, chain.Head{Root: chain.EmptyHead().Root, Frontier: []chain.Hash{}, LogRoot: tlog.EmptyRoot(), Log: tlog.Frontier{Roots: []tlog.Hash{}}}) {
		t.Errorf("head of a new chain: %+v", h)
	}
	first := []chain.Extension{extension(a.Chain, chain.EmptyHead(), 3), extension(b.Chain, chain.EmptyHead(), 1)}
	first[0].Nodes = []chain.Node{{Level: 8, Index: 0, Hash: chain.Hash{8}}, {Level: 8, Index: 1, Hash: chain.Hash{9}}}
	must.OK(t, s.Extend(first...))
	second := extension(a.Chain, first[0].Head, 2)
	must.OK(t, s.Extend(second))
	must.OK(t, s.Close())
	s = open(t, path)

	want := append(first[0].Records, second.Records...)
	if r := read(t, s, a.Chain, 0, 5); !reflect.DeepEqual(r, want) {
		t.Errorf("records:\n%v\nwant\n%v", r, want)
	}
	for _, r := range [][2]int64{{0, 1}, {1, 4}, {3, 99}, {-5, 2}, {4, 1 << 60}, {2, 2}, {5, 9}, {3, 1}} {
		lo, hi := min(max(r[0], 0), 5), min(r[1], 5)
		var part []chain.Record
		if lo < hi {
			part = want[lo:hi]
		}
		if records := read(t, s, a.Chain, r[0], r[1]); !reflect.DeepEqual(records, part) {
			t.Errorf("records [%d, %d): %v", r[0], r[1], records)
		}
	}
	head, next, err := s.Tip(ctx, a.Chain)
	if err != nil || next != 5 || !reflect.DeepEqual(head, second.Head) {
		t.Errorf("tip: %+v, %d, %v", head, next, err)
	}
	hashes, err := s.Hashes(ctx, a.Chain, 0, 1, 4)
	if err != nil || !reflect.DeepEqual(hashes, []chain.Hash{want[1].Hash, want[2].Hash, want[3].Hash}) {
		t.Errorf("hashes: %v, %v", hashes, err)
	}
	hashes, err = s.Hashes(ctx, a.Chain, 8, 0, 2)
	if err != nil || !reflect.DeepEqual(hashes, []chain.Hash{{8}, {9}}) {
		t.Errorf("nodes: %v, %v", hashes, err)
	}
	for _, test := range []struct {
		level    int
		from, to int64
	}{{0, 3, 6}, {0, 5, 6}, {0, -1, 2}, {0, 3, 2}, {8, 1, 3}, {16, 0, 1}} {
		if _, err := s.Hashes(ctx, a.Chain, test.level, test.from, test.to); !errors.Is(err, chain.ErrMissing) {
			t.Errorf("hashes %+v: %v", test, err)
		}
	}
	if _, _, err := s.Tip(ctx, 99); !errors.Is(err, chain.ErrMissing) {
		t.Errorf("head of no chain: %v", err)
	}
}

func TestRecordsStops(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	s, _ := fresh(t)
	c, _ := company(t, s, "acme")
	must.OK(t, s.Extend(extension(c.Chain, chain.EmptyHead(), 10)))
	enough := errors.New("enough")
	seen := 0
	err := s.Records(ctx, c.Chain, 0, 10, func(*chain.Record) error { seen++; return enough })
	if err != enough || seen != 1 {
		t.Errorf("yield's own error: %v after %d", err, seen)
	}
	canceled, cancel := context.WithCancel(ctx)
	seen = 0
	err = s.Records(canceled, c.Chain, 0, 10, func(*chain.Record) error { seen++; cancel(); return nil })
	if !errors.Is(err, context.Canceled) || seen != 1 {
		t.Errorf("canceled: %v after %d", err, seen)
	}
}

// A batch is written completely or not at all.
func TestExtendRefuses(t *testing.T) {
	t.Parallel()
	s, path := fresh(t)
	a, _ := company(t, s, "a")
	b, _ := company(t, s, "b")
	good := extension(a.Chain, chain.EmptyHead(), 2)
	stale := extension(b.Chain, chain.Head{Length: 1}, 1)
	root := extension(b.Chain, chain.Head{Root: chain.Hash{1}}, 1)
	nobody := extension(99, chain.EmptyHead(), 1)
	for name, bad := range map[string]chain.Extension{"length": stale, "root": root, "no such chain": nobody} {
		if err := s.Extend(good, bad); !errors.Is(err, chain.ErrStale) {
			t.Errorf("%s: %v", name, err)
		}
		if n := length(t, s, a); n != 0 || len(read(t, s, a.Chain, 0, 9)) != 0 {
			t.Errorf("%s: half a batch was written", name)
		}
	}
	must.OK(t, s.Extend(good))
	if err := s.Extend(good); !errors.Is(err, chain.ErrStale) {
		t.Errorf("twice: %v", err)
	}
	// An attacker has set a head back and left the records in place.
	other(t, path, append(unguarded, fmt.Sprintf("UPDATE head SET length = 0, root = x'%s' WHERE chain = %d", chain.EmptyHead().Root, a.Chain))...)
	if err := s.Extend(good); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("over records: %v", err)
	}
	if _, next, err := s.Tip(ctx, a.Chain); err != nil || next != 2 {
		t.Errorf("next %d, %v", next, err)
	}
}

func TestGuardsKeepRecordsAppendOnly(t *testing.T) {
	t.Parallel()
	s, path := fresh(t)
	c, _ := company(t, s, "acme")
	e := extension(c.Chain, chain.EmptyHead(), 2)
	e.Nodes = []chain.Node{{Level: 8}}
	must.OK(t, s.Extend(e))
	db := other(t, path)
	for _, statement := range []string{
		"UPDATE record SET payload = '{}'",
		"DELETE FROM record WHERE id & 1",
		"REPLACE INTO record SELECT * FROM record",
		"UPDATE node SET hash = zeroblob(32)",
		"DELETE FROM node",
		"UPDATE head SET length = 1",
		"UPDATE head SET root = zeroblob(32)",
		"UPDATE head SET bytes = bytes",
		"UPDATE head SET bytes = bytes + 1, timestamp = ''",
		"UPDATE head SET bytes = bytes + 1, log_root = NULL",
		"DELETE FROM head",
		"UPDATE company SET company_id = 'zoo'",
		"UPDATE company_key SET public_key = zeroblob(32)",
		"UPDATE log_key SET first_record = 1",
		"DELETE FROM log_key",
		"UPDATE log SET name = 'control'",
		"DELETE FROM company_key",
		"DELETE FROM company",
	} {
		if _, err := db.Exec(statement); err == nil {
			t.Errorf("%s: went through", statement)
		}
	}
}

// A tampered record is not refused on reading; the verifier must detect it.
func TestChangedRecordsCanBeRead(t *testing.T) {
	t.Parallel()
	s, path := fresh(t)
	c, _ := company(t, s, "acme")
	attest(t, s, c, 5)
	other(t, path, append(unguarded, "PRAGMA ignore_check_constraints = 1",
		"UPDATE record SET hash = CAST(hash || x'00' AS BLOB) WHERE id & 7 = 1",
		"UPDATE record SET signature = x'' WHERE id & 7 = 2",
		"DELETE FROM record WHERE id & 7 = 4")...)
	records := read(t, s, c.Chain, 0, 5)
	if len(records) != 4 || records[1].Hash != (chain.Hash{}) || records[2].Signature != [64]byte{} {
		t.Errorf("read: %v", records)
	}
	err := s.VerifyAll(ctx, "acme", 1, nil, nil)
	if bad := (*store.VerifyError)(nil); !errors.As(err, &bad) || bad.Company != "acme" || bad.Index != 1 {
		t.Errorf("verify: %v", err)
	}
}

// Acknowledged records are synced: the connection that writes syncs the log at every commit (2 is
// FULL) and keeps its temporary data in memory (2 is MEMORY). Killing a process cannot test the
// first, because the operating system still writes the data that it was given.
func TestWriterSyncsEveryCommit(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	s, _ := fresh(t)
	for name, want := range map[string]int64{"synchronous": 2, "temp_store": 2, "foreign_keys": 1} {
		if got, err := s.Pragma(name); err != nil || got != want {
			t.Errorf("%s is %d, %v; want %d", name, got, err, want)
		}
	}
}
