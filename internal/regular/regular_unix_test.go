//go:build unix

package regular_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"attestd/internal/regular"
)

// Only regular files are opened, and nothing is waited for: neither who writes a pipe nor who reads
// it.
func TestOnlyRegularFilesAreOpened(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	pipe, file := filepath.Join(folder, "pipe"), filepath.Join(folder, "file")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(folder, "link")
	if err := os.Symlink(pipe, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, link, folder, "/dev/zero"} {
		for _, flag := range []int{os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_RDWR | os.O_CREATE} {
			if f, err := regular.Open(path, flag, 0o600); err == nil {
				f.Close()
				t.Errorf("%s is opened with %#x", path, flag)
			}
		}
		if _, err := regular.Read(path); !errors.Is(err, regular.ErrKind) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if text, err := regular.Read(file); err != nil || string(text) != "text" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := regular.Read(file + "2"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	f, err := regular.Open(file, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if n, err := f.WriteAt([]byte("more"), 4); err != nil || n != 4 {
		t.Error(n, err)
	}
}
