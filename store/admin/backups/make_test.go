package backups_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"filippo.io/age"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/admin"
	"attestd/store/admin/backups"
	"attestd/store/storetest"
)

// A backup of a database that a server writes is read back, verified and restored, in every place,
// in plaintext and encrypted. It has at least the records from before its beginning.
func TestBackupIsReadBackVerifiedAndRestored(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	l, k := serve(t), key(t)
	l.attest(t, 300)
	bucket, locked := newS3(t, false), newS3(t, true)
	locked.saysLock = true
	for name, place := range map[string]backups.Place{"folder": folder(t), "bucket": bucket.place(t), "locked bucket": locked.place(t)} {
		kinds := []string{"none", "opened", "not opened"}
		if name != "folder" {
			kinds = kinds[:2]
		}
		for step, encryption := range kinds {
			o := l.options(t, step)
			if encryption != "none" {
				encryptTo(&o, key(t), k)
			}
			if encryption == "opened" {
				o.Identities = []age.Identity{k}
			}
			l.attest(t, 1)
			made, err := backups.Make(t.Context(), l.path, place, o)
			if err != nil {
				t.Fatalf("%s, encryption %s: %v", name, encryption, err)
			}
			n, ok := backups.ParseName(made.Name)
			if !ok || n.Number != step+1 || !n.Time.Equal(o.At) || n.Encrypted != (encryption != "none") || made.WasOpened() == (encryption == "not opened") {
				t.Errorf("%s, encryption %s: %+v", name, encryption, made)
			}
			if locks := name == "locked bucket"; locks != (made.Lock == "governance") || locks != (made.RetainUntil != nil) || locks && time.Until(*made.RetainUntil) < 59*time.Minute {
				t.Errorf("%s: lock %q until %v", name, made.Lock, made.RetainUntil)
			}
			if got := restored(t, place, made.Name, k); got < 301 || made.Records <= got || len(made.Heads) == 0 {
				t.Errorf("%s, encryption %s: %d records, the manifest says %d", name, encryption, got, made.Records)
			}
			list, err := backups.List(t.Context(), place)
			must.OK(t, err)
			must.OK(t, backups.Verify(t.Context(), place, list[step], t.TempDir(), o))
		}
		if names := done(t, place); len(names) != len(kinds) {
			t.Errorf("%s: done: %v", name, names)
		}
	}
	l.nothingLeft(t)
}

// Without a secret key of a recipient, a backup cannot be read or restored.
func TestEncryptedBackupNeedsIdentity(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	l, place, k := serve(t), folder(t), key(t)
	o := l.options(t, 0)
	encryptTo(&o, k)
	o.Identities = []age.Identity{key(t)}
	if _, err := backups.Make(t.Context(), l.path, place, o); !errors.Is(err, store.ErrRefused) || len(done(t, place)) != 0 {
		t.Errorf("with an identity that is no recipient: %v", err)
	}
	o.Identities = nil
	made, err := backups.Make(t.Context(), l.path, place, o)
	must.OK(t, err)
	text, err := os.ReadFile(place.Address(made.Name))
	must.OK(t, err)
	if !backups.IsEncrypted(text) || strings.Contains(string(text), "SQLite format") || strings.Contains(string(text), "acme") {
		t.Error("the file is not encrypted")
	}
	for name, identities := range map[string][]age.Identity{"none": nil, "another": {key(t)}} {
		r, err := place.Read(t.Context(), made.Name, "")
		must.OK(t, err)
		to := filepath.Join(t.TempDir(), "new.db")
		if _, err := backups.Restore(t.Context(), r, to, schema(t), identities, admin.RestoreOptions{At: at}); !errors.Is(err, store.ErrRefused) {
			t.Errorf("restored with %s: %v", name, err)
		}
		must.OK(t, r.Close())
		if left, err := os.ReadDir(filepath.Dir(to)); err != nil || len(left) != 0 {
			t.Errorf("left: %v, %v", left, err)
		}
	}
	for _, bad := range []string{"AGE-SECRET-KEY-1QQQQ", k.String(), "ssh-ed25519 AAAA", ""} {
		if _, err := backups.ParseRecipients([]string{bad}); err == nil || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("a recipient that is none: %v", err)
		}
	}
}

// A database that does not verify, that is behind its head file, or that is none, becomes no
// backup, and costs none.
func TestWrongDatabaseBecomesNoBackup(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	l, place := serve(t), folder(t)
	l.attest(t, 10)
	first, err := l.make(t, place, 0, 1)
	must.OK(t, err)
	heads := filepath.Join(t.TempDir(), "heads")
	older := storetest.Copy(t, place.Address(first.Name))
	must.OK(t, l.Close())
	s, err := store.Open(t.Context(), l.path, schema(t), store.Options{Heads: heads})
	must.OK(t, err)
	ended := make(chan error, 1)
	go func() { ended <- s.Run(context.WithoutCancel(t.Context()), store.RunOptions{}) }()
	l.Store = s
	l.attest(t, 5)
	must.OK(t, s.Close())
	<-ended
	o := l.options(t, 1)
	o.Keep, o.Heads = 1, heads
	if _, err := backups.Make(t.Context(), older, place, o); !errors.Is(err, store.ErrRolledBack) {
		t.Errorf("behind its head file: %v", err)
	}
	storetest.Stranger(t, l.path, "DROP TRIGGER record_no_update", "UPDATE record SET payload = '{}' WHERE id = (1 << 40) + 3").Close()
	var invalid *store.VerifyError
	if _, err := l.make(t, place, 2, 1); !errors.As(err, &invalid) || invalid.Index != 3 {
		t.Errorf("changed: %v", err)
	}
	if _, err := backups.Make(t.Context(), filepath.Join(t.TempDir(), "none.db"), place, o); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("none: %v", err)
	}
	if names := done(t, place); !slices.Equal(names, []string{first.Name}) {
		t.Errorf("done: %v", names)
	}
	if all, err := place.List(t.Context()); err != nil || len(all) != 2 {
		t.Errorf("left: %v, %v", all, err)
	}
	l.nothingLeft(t)
}

// The name of a backup is strict: nothing else is listed, removed or read.
func TestNamesAreStrict(t *testing.T) {
	t.Parallel()
	const good = "attestd-00112233445566778899aabbccddeeff-00000007-20260304T050607Z-0badcafe.db"
	for _, name := range []string{good, good + ".age"} {
		if n, ok := backups.ParseName(name); !ok || n.String() != name || n.Number != 7 {
			t.Errorf("%s is no name", name)
		}
	}
	for _, bad := range []string{"", "../" + good, good + "/", good + ".json", good + ".partial", good + "\n", strings.ToUpper(good), "x" + good,
		strings.Replace(good, "00000007", "0000000７", 1), strings.Replace(good, "0304", "0230", 1), strings.Replace(good, "00000007", "-0000007", 1),
		"attestd.db", good + ".age.age", strings.Replace(good, "00112233", "../../..", 1)} {
		if _, ok := backups.ParseName(bad); ok {
			t.Errorf("%q is a name", bad)
		}
	}
}
