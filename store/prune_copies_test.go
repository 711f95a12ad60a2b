package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"attestd/chain"
	"attestd/crypto/seal"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/admin"
	"attestd/store/storetest"
)

// reopenAt opens another database as the pruner's.
func (p *pruner) reopenAt(t testing.TB, path string) {
	t.Helper()
	p.path = path
	p.Store = openWith(t, path, p.at.options())
	p.c = got(p.Companies.Get(ctx, "acme"))(t)
}

// A backup of a half pruned database has what is left, verifies, and pruning its restored copy
// continues where it stopped.
func TestPrunedDatabaseIsBackedUp(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	storetest.AboutFile(t)
	t.Parallel()
	p := old(t, 700)
	p.begin(t, 600)
	got(p.Pruning.PruneNext(ctx, p.by(), 300))(t)
	rows := p.kept(t)
	out, restored := target(t), target(t)
	must.OK(t, admin.Backup(ctx, p.path, out, schema(t), nil))
	must.OK(t, p.Close())
	must.OK(t, restore(t, out, restored, admin.RestoreOptions{}))
	p.reopenAt(t, restored)
	must.OK(t, p.VerifyContents(ctx, 2, nil))
	if after := p.kept(t); !maps.Equal(after, rows) || p.missing(t) != 300 {
		t.Error("the copy has other rows")
	}
	if left := got(p.Pruning.PruneNext(ctx, p.by(), 1<<40))(t); left != 0 || p.missing(t) != 600 {
		t.Errorf("%d are left", left)
	}
	// a backup with a missing payload that was not pruned is none
	must.OK(t, p.Close())
	must.OK(t, other(t, restored, append(unguarded, "UPDATE record SET payload = '' WHERE id = (1 << 40) + 600", "PRAGMA wal_checkpoint(TRUNCATE)")...).Close())
	var wrong *store.VerifyError
	if err := admin.Backup(ctx, restored, target(t), schema(t), nil); err == nil || errors.As(err, &wrong) && wrong.Index != 600 {
		t.Errorf("a backup of a damaged database: %v", err)
	}
}

// A backup from before a prune has the payloads, and what was pruned since is undone like any other
// change. One from after it has the history of the database from before.
func TestPruneIsUndoneByARestore(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	storetest.AboutFile(t)
	t.Parallel()
	p := old(t, 300)
	full := backUp(t, p.path)
	p.prune(t, 200)
	pruned := backUp(t, p.path)
	must.OK(t, p.Close())
	undone, err := admin.Restore(ctx, full, p.path, schema(t), admin.RestoreOptions{Force: true})
	if !errors.Is(err, store.ErrRefused) || !strings.Contains(strings.Join(undone.Lines, "\n"), "acme") {
		t.Errorf("%v: %q", err, undone.Lines)
	}
	got(admin.Restore(ctx, full, p.path, schema(t), accepted))(t)
	p.reopenAt(t, p.path)
	if n := p.missing(t); n != 0 {
		t.Errorf("%d payloads are missing", n)
	}
	must.OK(t, p.Close())
	// the other way round nothing of acme is lost
	got(admin.Restore(ctx, pruned, p.path, schema(t), accepted))(t)
	p.reopenAt(t, p.path)
	if n := p.missing(t); n != 200 {
		t.Errorf("%d payloads are missing", n)
	}
}

// Another master key, or a rotation of the company's key, changes nothing of what was pruned.
func TestPrunedDatabaseIsRekeyed(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	m := seal.NewMaster()
	p := old(t, 20)
	p.prune(t, 10)
	_, _, err := p.Companies.RotateKey(ctx, p.by(), true)
	must.OK(t, err)
	if n := p.missing(t); n != 10 {
		t.Errorf("%d payloads are missing after a rotation", n)
	}
	p.append(t, 3)
	p.at.pass(2*day, 2*day)
	p.prune(t, 22)
	must.OK(t, p.Close())
	if master() != nil || storetest.OnPostgres() {
		return
	}
	must.OK(t, rekey(t, p.path, nil, &m))
	s := openSealed(t, p.path, &m)
	if found := got(s.PrunedRecords(ctx, p.c.Chain))(t); found.Records != 22 {
		t.Errorf("%+v", found)
	}
	must.OK(t, s.VerifyAll(ctx, "", 2, nil, nil))
}

// A half pruned database moves to the other engine and back with the same digests, and pruning each
// copy can continue.
func TestPrunedDatabaseMoves(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	bothEngines(t)
	t.Parallel()
	p := old(t, 700)
	p.begin(t, 600)
	got(p.Pruning.PruneNext(ctx, p.by(), 300))(t)
	must.OK(t, p.Close())
	rows := rowsOf(t, p.path)
	url, back := storetest.Shared(t), filepath.Join(t.TempDir(), "back.db")
	there := got(move(t, p.path, url))(t)
	home := got(move(t, url, back))(t)
	if there.Digest != home.Digest {
		t.Errorf("digests %s, %s", there.Digest, home.Digest)
	}
	for table, text := range rowsOf(t, back) {
		if text != rows[table] {
			t.Errorf("table %s is\n%s\nwas\n%s", table, text, rows[table])
		}
	}
	for _, path := range []string{url, back} {
		s := openWith(t, path, p.at.options())
		c := got(s.Companies.Get(ctx, "acme"))(t)
		must.OK(t, s.VerifyAll(ctx, "", 2, nil, nil))
		if left := got(s.Pruning.PruneNext(ctx, by(c, p.at.now()), 1<<40))(t); left != 0 {
			t.Errorf("%s: %d are left", path, left)
		}
		must.OK(t, s.VerifyAll(ctx, "", 2, nil, nil))
		must.OK(t, s.Close())
	}
}

// What a server has verified before a prune does not fit afterwards: it verifies again, and finds
// nothing wrong. A prefix from after the prune holds.
func TestPrunedDatabaseIsVerifiedAnew(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	p := old(t, 700)
	v := chain.NewVerifier(p, 2)
	verify := func(what string, pruned int64) {
		t.Helper()
		if found := got(v.Verify(ctx, p.c.Chain, nil))(t); !found.Valid || found.Pruned != pruned || found.Length != 700 {
			t.Errorf("%s: %+v", what, found)
		}
	}
	verify("before", 0)
	p.begin(t, 600)
	verify("after the control record", 0)
	got(p.Pruning.PruneNext(ctx, p.by(), 300))(t)
	verify("half-way", 300)
	known, _ := v.Prefixes()
	got(p.Pruning.PruneNext(ctx, p.by(), 1<<40))(t)
	verify("at the end", 600)
	again := chain.NewVerifier(p, 2)
	again.Recall(known)
	v = again
	verify("with what was known half-way", 600)
	// and a record that was altered is still found by a verifier that knows it
	must.OK(t, other(t, p.path, append(unguarded, "UPDATE record SET delegation = NULL WHERE id = (1 << 40) + 3")...).Close())
	if found := got(v.Verify(ctx, p.c.Chain, nil))(t); found.Valid {
		t.Error("a delegation of a pruned record was taken away, and it verifies")
	}
}

// The overflow pages of a long payload are overwritten. SQLite may earlier have copied the content
// of the row's own page into the free part of another page.
func TestLongPrunedPayloadIsOverwritten(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	storetest.AboutFile(t)
	t.Parallel()
	p := old(t, 0)
	for i := range 30 {
		got(p.Append(ctx, saying(p.c, fmt.Sprintf(`{"n":%d,"text":"%s secret words"}`, i, strings.Repeat("x", 8192+i*i*10)))))(t)
	}
	p.append(t, 300)
	p.at.pass(2*day, 2*day)
	p.prune(t, 40)
	must.OK(t, p.Close())
	if content := got(os.ReadFile(p.path))(t); bytes.Contains(content, []byte("secret words")) {
		t.Error("the file still has the end of a payload that was pruned")
	}
}
