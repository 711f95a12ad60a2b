//go:build unix

package private_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/sdk/attestd/private"
)

// A path is refused where somebody else may write to it or to any folder above it, also where a
// link leads through such a folder; a folder with the sticky bit above it is none.
func TestFoldersThatOthersMayWriteAreRefused(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	folder := func(name string, mode os.FileMode) string {
		path := filepath.Join(base, name)
		must.OK(t, os.MkdirAll(path, 0o700))
		must.OK(t, os.Chmod(path, mode))
		return path
	}
	own := folder("own", 0o755)
	group, others, sticky := folder("group", 0o770), folder("others", 0o707), folder("sticky", 0o777|os.ModeSticky)
	for _, below := range []string{group, others, sticky, own} {
		must.OK(t, os.MkdirAll(filepath.Join(below, "a", "b"), 0o700))
	}
	must.OK(t, os.Symlink(filepath.Join(group, "a"), filepath.Join(own, "leads-into-group")))
	must.OK(t, os.Symlink(filepath.Join(own, "a"), filepath.Join(group, "stands-in-group")))
	must.OK(t, os.Symlink(filepath.Join(own, "a"), filepath.Join(own, "link")))
	must.OK(t, os.Symlink("loop", filepath.Join(own, "loop")))
	for path, ok := range map[string]bool{
		own: true, filepath.Join(own, "a", "b"): true, filepath.Join(own, "not", "there"): true, filepath.Join(own, "link", "b"): true,
		filepath.Join(sticky, "a", "b"): true, filepath.Join(sticky, "new"): true, sticky: false,
		group: false, others: false, filepath.Join(group, "a", "b"): false, filepath.Join(others, "a"): false, filepath.Join(group, "new"): false,
		filepath.Join(own, "leads-into-group"): false, filepath.Join(group, "stands-in-group"): false, filepath.Join(own, "loop"): false,
		filepath.Join(own, "leads-into-group", "b"): false,
	} {
		if err := private.Check(path); (err == nil) != ok {
			t.Errorf("%s: %v", strings.TrimPrefix(path, base), err)
		}
	}
}

// What belongs to another user is refused, and what belongs to root is not. Only root can make such
// a folder.
func TestFoldersOfOtherUsersAreRefused(t *testing.T) {
	t.Parallel()
	testenv.Needs(t, testenv.Root)
	path := filepath.Join(t.TempDir(), "theirs")
	must.OK(t, os.Mkdir(path, 0o700))
	must.OK(t, os.Chown(path, 12345, 12345))
	for _, p := range []string{path, filepath.Join(path, "below")} {
		if err := private.Check(p); err == nil || !strings.Contains(err.Error(), "another user") {
			t.Error(p, err)
		}
	}
}

// All who ask for a secret at the same time get the same one; it is its user's alone, and none that
// is not is taken.
func TestSecret(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "secret")
	got := make([][]byte, 20)
	var all sync.WaitGroup
	for i := range got {
		all.Go(func() {
			var err error
			if got[i], err = private.Secret(path); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, secret := range got {
		if len(secret) != 32 || !bytes.Equal(secret, got[0]) {
			t.Fatal("two secrets")
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info, err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); len(left) > 0 {
		t.Error(left)
	}
	must.OK(t, os.Chmod(path, 0o640))
	if _, err := private.Secret(path); err == nil {
		t.Error("a secret that the group may read is taken")
	}
	must.OK(t, os.WriteFile(path, []byte("short"), 0o600))
	must.OK(t, os.Chmod(path, 0o600))
	if _, err := private.Secret(path); err == nil {
		t.Error("what is no secret is taken")
	}
}
