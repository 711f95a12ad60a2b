package atomicfile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"attestd/internal/atomicfile"
)

func TestFilesAreReplacedAtomically(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "file")
	holds := func(text string, mode fs.FileMode) {
		t.Helper()
		got, err := os.ReadFile(path)
		info, err2 := os.Stat(path)
		if err := errors.Join(err, err2); err != nil || string(got) != text {
			t.Fatalf("%q, %v; want %q", got, err, text)
		}
		if info.Mode().Perm() != mode && runtime.GOOS != "windows" {
			t.Errorf("mode %o, want %o", info.Mode().Perm(), mode)
		}
		if left, err := os.ReadDir(folder); err != nil || len(left) != 1 {
			t.Errorf("files in the folder: %v, %v", left, err)
		}
	}
	if err := atomicfile.Create(path, []byte("one")); err != nil {
		t.Fatal(err)
	}
	holds("one", 0o600)
	if err := atomicfile.Create(path, []byte("two")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("created twice: %v", err)
	}
	holds("one", 0o600)
	for mode, text := range map[fs.FileMode]string{0o644: "three", 0o600: "four"} {
		if err := atomicfile.Replace(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		holds(text, mode)
	}
	if err := atomicfile.SyncFolder(folder); err != nil {
		t.Error(err)
	}
	if err := atomicfile.Replace(filepath.Join(path, "below"), nil, 0o600); err == nil {
		t.Error("a file below a file is written")
	}
}
