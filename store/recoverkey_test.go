package store_test

import (
	"crypto/sha256"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"attestd/crypto/keys"
	"attestd/crypto/seal"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/admin"
	"attestd/store/storetest"
)

// said returns the records of one kind in a company's control log.
func said(t testing.TB, s *store.Store, c *store.Company, kind string) []string {
	t.Helper()
	return slices.DeleteFunc(controlRecords(t, s, c), func(r string) bool { return !strings.HasPrefix(r, kind+" ") })
}

// Showing a key again, by the command line or over HTTP, is recorded in its company's control log
// only. If a server has the file open, its next start writes the record.
func TestRecoveredKeyIsRecorded(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	s, path := fresh(t)
	acme, key := company(t, s, "acme")
	zoo, _ := company(t, s, "zoo")
	of := keys.Fingerprint(sha256.Sum256([]byte(key.Key)))
	if k := got(s.Credentials.RecoverKey(ctx, "acme", store.RecoveredByHTTP, now))(t); k.Key != key.Key {
		t.Error("another key")
	}
	want := []string{`api-key.recovered {"by":null,"fingerprint":"` + of + `","subject":"recovery:` + of + `","via":"http"}`}
	if list := said(t, s, acme, "api-key.recovered"); !slices.Equal(list, want) {
		t.Errorf("%q, want %q", list, want)
	}
	recover := func() {
		t.Helper()
		k, notRecorded, err := admin.RecoverKey(ctx, path, schema(t), "acme", master(), now)
		if err != nil || notRecorded != nil || k.Key != key.Key {
			t.Errorf("%v, %v", notRecorded, err)
		}
	}
	recover() // while a server has the file open
	recover()
	must.OK(t, s.Close())
	recover() // while no server has the file open
	s = open(t, path)
	must.OK(t, s.Settings.RecordStart(ctx, nil))
	must.OK(t, s.Settings.RecordStart(ctx, nil))
	list := said(t, s, acme, "api-key.recovered")
	if len(list) != 4 || !strings.Contains(list[3], `"via":"command line"`) || !strings.Contains(list[3], of) {
		t.Errorf("%q", list)
	}
	if list := said(t, s, zoo, "api-key.recovered"); len(list) > 0 {
		t.Errorf("another company's log: %q", list)
	}
	must.OK(t, s.VerifyAll(ctx, "", 2, nil, nil))
	// The row of the key still agrees with the log.
	if _, err := s.Credentials.CreateKey(ctx, by(acme, now), nil, full, 10); err != nil {
		t.Error(err)
	}
}

// If nothing can be written, the key is shown with a note that there is no record.
func TestKeyRecoveryOnReadOnlyDatabase(t *testing.T) {
	storetest.AboutFile(t)
	if os.Getuid() == 0 {
		t.Skip("root writes everywhere")
	}
	t.Parallel()
	s, path := fresh(t)
	_, key := company(t, s, "acme")
	must.OK(t, s.Close())
	must.OK(t, os.Chmod(path, 0o400))
	must.OK(t, os.Chmod(filepath.Dir(path), 0o500))
	t.Cleanup(func() { os.Chmod(filepath.Dir(path), 0o700) })
	k, notRecorded, err := admin.RecoverKey(ctx, path, schema(t), "acme", master(), now)
	if err != nil || notRecorded == nil || k.Key != key.Key {
		t.Errorf("%v, %v", notRecorded, err)
	}
}

// A head file that is created for an existing database trusts its present state; the next start
// records that once in every control log.
func TestLaterHeadFileIsRecorded(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	path, _ := grown(t)
	for start, want := range []int{0, 1, 1} {
		if start == 1 {
			must.OK(t, os.Remove(storetest.Heads(path)))
		}
		s := kept(t, path)
		must.OK(t, s.Settings.RecordStart(ctx, nil))
		for _, id := range []string{"acme", "zoo"} {
			if list := said(t, s, got(s.Companies.Get(ctx, id))(t), "head-file.made"); len(list) != want {
				t.Errorf("start %d: %q", start, list)
			}
		}
		must.OK(t, s.Close())
	}
	fine(t, path)
}

// The next start records a change of the master key, even one that was undone before it, and a move
// with its digest.
func TestRekeysAndMovesAreRecorded(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	storetest.AboutFile(t)
	t.Parallel()
	s, path := fresh(t)
	acme, _ := company(t, s, "acme")
	must.OK(t, s.Close())
	key := seal.NewMaster()
	must.OK(t, admin.Rekey(ctx, path, schema(t), admin.RekeyOptions{Old: master(), New: &key}))
	must.OK(t, admin.Rekey(ctx, path, schema(t), admin.RekeyOptions{Old: &key, New: nil}))
	to := filepath.Join(t.TempDir(), "moved.db")
	moved := got(admin.Move(ctx, path, to, schema(t), admin.MoveOptions{}))(t)
	s = got(store.Open(ctx, to, schema(t), store.Options{}))(t)
	go s.Run(ctx, store.RunOptions{})
	must.OK(t, s.Settings.RecordStart(ctx, nil))
	must.OK(t, s.Settings.RecordStart(ctx, nil))
	list := said(t, s, acme, "database.rekeyed")
	if len(list) != 2 || !strings.Contains(list[0], `"to":"sealed with master key `+key.ID()) || !strings.Contains(list[1], `"to":"in clear"`) {
		t.Errorf("rekeyed: %q", list)
	}
	list = said(t, s, acme, "database.moved")
	if len(list) != 1 || !strings.Contains(list[0], `"digest":"`+moved.Digest+`","from":"file"`) {
		t.Errorf("moved: %q", list)
	}
	must.OK(t, s.VerifyAll(ctx, "", 2, nil, nil))
	must.OK(t, s.Close())
}
