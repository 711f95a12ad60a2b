package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// If the database or its log was moved once, it counts as changed for good, even if it comes back.
func TestFilesOutOfTheirPlace(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("files that are open cannot be moved")
	}
	for _, suffix := range []string{"", "-wal"} {
		path := filepath.Join(t.TempDir(), "a.db")
		for _, name := range []string{path, path + "-wal"} {
			if err := os.WriteFile(name, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		f, err := OpenFiles(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := f.Look(); err != nil || f.Changed() != nil || !f.Untouched() || !f.OwnsLog() {
			t.Errorf("%q in its place: %v", suffix, err)
		}
		if err := os.Rename(path+suffix, path+".moved"); err != nil {
			t.Fatal(err)
		}
		if err := f.Look(); !errors.Is(err, ErrFileChanged) || f.Changed() == nil || f.OwnsLog() != (suffix == "") {
			t.Errorf("%q moved away: %v", suffix, err)
		}
		if err := os.Rename(path+".moved", path+suffix); err != nil {
			t.Fatal(err)
		}
		if f.Changed() == nil {
			t.Errorf("%q back in its place counts again", suffix)
		}
	}
}

// A log of another database in place of this one's is not removed.
func TestForeignWALIsNotRemoved(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	for _, name := range []string{path, path + "-wal", path + ".other"} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f, err := OpenFiles(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.Rename(path+".other", path+"-wal"); err != nil {
		t.Fatal(err)
	}
	if err := f.Look(); !errors.Is(err, ErrFileChanged) || f.OwnsLog() {
		t.Errorf("owned: %v, %v", f.OwnsLog(), err)
	}
}
