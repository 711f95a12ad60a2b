package backups_test

import (
	"bytes"
	"os"
	"slices"
	"testing"
	"time"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store/admin/backups"
	"attestd/store/storetest"
)

// Only the newest backups are retained, by their numbers: a clock that was ahead once changes
// nothing. Backups of other databases and unfinished ones do not count.
func TestNewestBackupsAreKept(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	l, other, place := serve(t), serve(t), folder(t)
	foreign, err := other.make(t, place, 0, 1)
	must.OK(t, err)
	var names []string
	for i, step := range []int{0, 100_000, 1, 2, 3} {
		made, err := l.make(t, place, step, 2)
		must.OK(t, err)
		if want := max(0, i-1); len(made.Removed) != min(want, 1) || len(made.Left) != 0 {
			t.Errorf("backup %d removed %v and left %v", i, made.Removed, made.Left)
		}
		names = append(names, made.Name)
	}
	if kept := done(t, place); !slices.Equal(kept, append([]string{foreign.Name}, names[3:]...)) {
		t.Errorf("kept: %v", kept)
	}
	if all, _ := place.List(t.Context()); len(all) != 6 {
		t.Errorf("there: %v", all)
	}
}

// A backup that has records which the database lacks is not removed, nor one that was changed.
func TestBackupWithMoreThanTheDatabaseIsNotRemoved(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	l, place := serve(t), folder(t)
	first, err := l.make(t, place, 0, 1)
	must.OK(t, err)
	l.attest(t, 10)
	more, err := l.make(t, place, 1, 2)
	must.OK(t, err)
	must.OK(t, l.Close())
	storetest.Replace(t, l.path, storetest.Copy(t, place.Address(first.Name))) // a rollback
	l.open(t)
	var last backups.Made
	for step := 2; step < 5; step++ {
		l.attest(t, 4) // longer than before in the end, with another history
		last, err = l.make(t, place, step, 1)
		must.OK(t, err)
		if !slices.ContainsFunc(last.Left, func(why string) bool { return bytes.Contains([]byte(why), []byte(more.Name)) }) {
			t.Errorf("step %d left %v", step, last.Left)
		}
	}
	if kept := done(t, place); !slices.Equal(kept, []string{more.Name, last.Name}) {
		t.Errorf("kept: %v", kept)
	}
	if restored(t, place, more.Name) != 10 {
		t.Error("the backup with more is not as it was")
	}
	must.OK(t, os.WriteFile(place.Address(last.Name), []byte("cut"), 0o600))
	made, err := l.make(t, place, 6, 1)
	must.OK(t, err)
	if len(made.Left) != 2 || len(made.Removed) != 0 {
		t.Errorf("removed %v, left %v", made.Removed, made.Left)
	}
}

// A locked backup is removed by a later one, when its lock has ended.
func TestLockedBackupIsRemovedLater(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	l, f := serve(t), newS3(t, true)
	now := time.Now()
	place := f.place(t, func(o *backups.BucketOptions) { o.Now = func() time.Time { return now.Add(-2 * time.Hour) } })
	expired, err := l.make(t, place, 0, 1)
	must.OK(t, err)
	place = f.place(t)
	o := l.options(t, 0)
	o.Keep, o.At = 1, now
	locked, err := backups.Make(t.Context(), l.path, place, o)
	must.OK(t, err)
	if !slices.Equal(locked.Removed, []string{expired.Name}) {
		t.Errorf("removed %v, left %v", locked.Removed, locked.Left)
	}
	last, err := backups.Make(t.Context(), l.path, place, o)
	must.OK(t, err)
	if len(last.Removed)+len(last.Left) != 0 || len(done(t, place)) != 2 {
		t.Errorf("removed %v, left %v", last.Removed, last.Left)
	}
	if len(f.keys()) != 4 {
		t.Errorf("there: %v", f.keys())
	}
	// who has the credentials and removes one before, does so in vain
	if err := place.Remove(t.Context(), locked.Name, locked.Version); err == nil || len(done(t, place)) != 2 {
		t.Errorf("removed a locked backup: %v", err)
	}
}

// What a killed backup has left is removed by the next one: at once where it has no writer any
// more, and a day later where that cannot be seen.
func TestUnfinishedBackupsAreRemoved(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	l, place := serve(t), folder(t)
	made, err := l.make(t, place, 0, 0)
	must.OK(t, err)
	n, _ := backups.ParseName(made.Name)
	unfinished := func(change byte, suffix string) string {
		n.Nonce[3] = change
		name := n.String() + suffix
		must.OK(t, os.WriteFile(place.Address(name), []byte("a part"), 0o600))
		return name
	}
	partial, whole := unfinished(1, ".partial"), unfinished(2, "")
	stranger := "attestd.db.partial"
	must.OK(t, os.WriteFile(place.Address(stranger), nil, 0o600))
	there := func(name string) bool {
		names, err := place.List(t.Context())
		must.OK(t, err)
		return slices.Contains(names, name)
	}
	_, err = l.make(t, place, 1, 0)
	must.OK(t, err)
	if there(partial) || !there(whole) || !there(stranger) {
		t.Error("six hours later")
	}
	_, err = l.make(t, place, 5, 0)
	must.OK(t, err)
	if there(whole) || !there(stranger) || len(done(t, place)) != 3 {
		t.Error("a day later")
	}
}
