package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/admin"
	"attestd/store/storetest"
)

// readOnly makes a directory that cannot be written after fill has run: for root as a read-only
// mount, for others by its mode.
func readOnly(t *testing.T, fill func(dir string)) string {
	t.Helper()
	if os.Geteuid() != 0 {
		dir := t.TempDir()
		fill(dir)
		must.OK(t, os.Chmod(dir, 0o500))
		t.Cleanup(func() { must.OK(t, os.Chmod(dir, 0o700)) })
		return dir
	}
	dir := smallDisk(t, "8m")
	fill(dir)
	must.OK(t, syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, "size=8m,mode=700"))
	return dir
}

func TestReadOnlyMedia(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	storetest.AboutFile(t)
	t.Parallel()
	path, _ := sample(t)
	s, live := fresh(t)
	c, _ := company(t, s, "late")
	attest(t, s, c, 3)
	dir := readOnly(t, func(dir string) {
		copyTo := func(name, from string) {
			must.OK(t, os.WriteFile(filepath.Join(dir, name), got(os.ReadFile(from))(t), 0o600))
		}
		copyTo("rest.db", path)
		copyTo("emptylog.db", path)
		must.OK(t, os.WriteFile(filepath.Join(dir, "emptylog.db-wal"), nil, 0o600))
		// The files are as a killed server leaves them.
		for _, suffix := range []string{"", "-wal", "-shm"} {
			copyTo("killed.db"+suffix, live+suffix)
		}
		for _, suffix := range []string{"", "-wal"} {
			copyTo("copied.db"+suffix, live+suffix)
		}
	})
	before := list(t, dir)
	for name, company := range map[string]string{"rest.db": "acme", "emptylog.db": "acme", "killed.db": "late"} {
		path := filepath.Join(dir, name)
		s, err := store.OpenReadOnly(ctx, path)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		must.OK(t, s.VerifyAll(ctx, company, 1, nil, nil))
		must.OK(t, s.Unseal(master()))
		got(s.Credentials.FirstKey(ctx, company))(t)
		must.OK(t, s.Close())
		out := target(t)
		must.OK(t, admin.Backup(ctx, path, out, schema(t), nil))
		must.OK(t, restore(t, path, target(t), admin.RestoreOptions{}))
	}
	if _, err := store.OpenReadOnly(ctx, filepath.Join(dir, "copied.db")); !errors.Is(err, store.ErrRefused) || !strings.Contains(err.Error(), "copy both") {
		t.Errorf("a log without its index: %v", err)
	}
	if files := list(t, dir); files != before {
		t.Errorf("left: %s", files)
	}
}
