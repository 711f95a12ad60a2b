package backups_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store/admin/backups"
)

// small mounts an empty file system of a size.
func small(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=700,size="+size); err != nil {
		testenv.Missing(t, fmt.Sprintf("a small tmpfs cannot be mounted: %v", err))
	}
	t.Cleanup(func() { must.OK(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	return dir
}

// A destination that is full, or becomes so while a backup is written, costs no backup, and neither
// does a temporary folder without room.
func TestFullDiskCostsNoBackup(t *testing.T) {
	testenv.Needs(t, testenv.Root, testenv.NotRaced)
	t.Parallel()
	l := serve(t)
	l.attestText(t, 40, strings.Repeat("x", 10_000))
	place, err := backups.OpenFolder(small(t, "2m"))
	must.OK(t, err)
	first, err := l.make(t, place, 0, 1)
	must.OK(t, err)
	filler := func(dir string, left int64) {
		var s syscall.Statfs_t
		must.OK(t, syscall.Statfs(dir, &s))
		must.OK(t, os.WriteFile(filepath.Join(dir, "filler"), make([]byte, int64(s.Bavail)*s.Bsize-left), 0o600))
	}
	filler(place.String(), 100<<10)
	if _, err := l.make(t, place, 1, 1); err == nil || !strings.Contains(err.Error(), "free") {
		t.Errorf("a full destination: %v", err)
	}
	must.OK(t, os.Remove(place.Address("filler")))
	o := l.options(t, 2)
	o.Keep = 1
	o.Copied = func() { filler(place.String(), 100<<10) }
	if _, err := backups.Make(t.Context(), l.path, place, o); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("a destination that becomes full: %v", err)
	}
	must.OK(t, os.Remove(place.Address("filler")))
	o.Copied, o.Temp = nil, small(t, "256k")
	if _, err := backups.Make(t.Context(), l.path, place, o); err == nil || !strings.Contains(err.Error(), "--backup-temp") {
		t.Errorf("a full temporary folder: %v", err)
	}
	if names, err := place.List(t.Context()); err != nil || len(names) != 2 || !slices.Equal(done(t, place), []string{first.Name}) {
		t.Errorf("there: %v, %v", names, err)
	}
	o.Temp = ""
	next, err := backups.Make(t.Context(), l.path, place, o)
	if err != nil || !slices.Equal(next.Removed, []string{first.Name}) {
		t.Errorf("with room: removed %v, %v", next.Removed, err)
	}
	l.nothingLeft(t)
}
