package store_test

import (
	"os"
	"testing"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store/storetest"
)

// The accepted rollback is already in the control log when power fails after the commit of the
// acceptance and before the head file is written; the head file is still the old one. Accepting
// again updates the head file and adds no second record. A later rollback gets its own record.
func TestAcceptedRollbackIsRecordedOnce(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	path, older := grown(t)
	acceptances := func() (n int64) {
		t.Helper()
		db := storetest.Stranger(t, path)
		must.OK(t, db.QueryRow(`SELECT count(*) FROM record WHERE CAST(payload AS text) LIKE '%rollback.accepted%'`).Scan(&n))
		must.OK(t, db.Close())
		return n
	}
	before := got(os.ReadFile(storetest.Heads(path)))(t)
	storetest.Replace(t, path, storetest.Copy(t, older))
	accept(t, path)
	for range 3 {
		// This is the head file on disk after the power failure.
		must.OK(t, os.WriteFile(storetest.Heads(path), before, 0o600))
		if list := accept(t, path); len(list) == 0 {
			t.Error("nothing was accepted")
		}
		if n := acceptances(); n != 1 {
			t.Errorf("the control logs have %d acceptances", n)
		}
	}
	fine(t, path)

	s := kept(t, path)
	attest(t, s, got(s.Companies.Get(ctx, "acme"))(t), 20)
	must.OK(t, s.Close())
	newer := storetest.Copy(t, path)
	s = kept(t, path)
	attest(t, s, got(s.Companies.Get(ctx, "acme"))(t), 20)
	must.OK(t, s.Close())
	storetest.Replace(t, path, newer)
	accept(t, path)
	if n := acceptances(); n != 2 {
		t.Errorf("after another rollback the control logs have %d acceptances", n)
	}
	s = kept(t, path)
	must.OK(t, s.VerifyAll(ctx, "", 2, nil, nil))
	if len(s.Rollback.Behind()) != 0 {
		t.Errorf("behind: %+v", s.Rollback.Behind())
	}
	must.OK(t, s.Close())
}
