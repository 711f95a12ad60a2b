package store_test

import (
	"os"
	"testing"

	"attestd/internal/testenv"
	"attestd/store/storetest"
)

// Power that fails after the commit of an acceptance and before its head file is made leaves the
// rollback accepted in the control log and the old head file. Accepting it once more brings up the
// head file, and the record stands once. Another rollback later has its own record (promise 78).
func TestAcceptedRollbackIsRecordedOnce(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	path, older := grown(t)
	acceptances := func() (n int64) {
		t.Helper()
		db := storetest.Stranger(t, path)
		must(t, db.QueryRow(`SELECT count(*) FROM record WHERE CAST(payload AS text) LIKE '%rollback.accepted%'`).Scan(&n))
		must(t, db.Close())
		return n
	}
	before := got(os.ReadFile(storetest.Heads(path)))(t)
	storetest.Replace(t, path, storetest.Copy(t, older))
	accept(t, path)
	for range 3 {
		// as the disk has it after the power failed
		must(t, os.WriteFile(storetest.Heads(path), before, 0o600))
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
	must(t, s.Close())
	newer := storetest.Copy(t, path)
	s = kept(t, path)
	attest(t, s, got(s.Companies.Get(ctx, "acme"))(t), 20)
	must(t, s.Close())
	storetest.Replace(t, path, newer)
	accept(t, path)
	if n := acceptances(); n != 2 {
		t.Errorf("after another rollback the control logs have %d acceptances", n)
	}
	s = kept(t, path)
	must(t, s.VerifyAll(ctx, "", 2, nil, nil))
	if len(s.Rollback.Behind()) != 0 {
		t.Errorf("behind: %+v", s.Rollback.Behind())
	}
	must(t, s.Close())
}
