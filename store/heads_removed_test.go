package store_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"attestd/internal/must"
	"attestd/store"
	"attestd/store/storetest"
)

// A head file that is removed under a server is made again with all that it knew, so that an older
// database is detected afterwards. While another file is in its place, it is behind.
func TestRemovedHeadFileIsMadeAgain(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("a file that is open cannot be removed")
	}
	path := filepath.Join(t.TempDir(), "attestd.db")
	heads := store.HeadsBeside(path)
	s := got(store.Open(ctx, path, schema(t), store.Options{Heads: heads}))(t)
	go s.Run(ctx, store.RunOptions{})
	t.Cleanup(func() { s.Close() })
	acme, _ := company(t, s, "acme")
	other, _ := company(t, s, "globex")
	attest(t, s, acme, 3)
	attest(t, s, other, 7)
	older := backUp(t, path)
	attest(t, s, other, 2) // only the removed file knows of these

	must.OK(t, os.Remove(heads))
	for exists := false; !exists; {
		attest(t, s, acme, 1)
		_, err := os.Stat(heads)
		exists = err == nil
	}
	must.OK(t, os.Remove(heads))
	must.OK(t, os.Mkdir(heads, 0o700))
	for s.Rollback.HeadFile() != "behind" {
		attest(t, s, acme, 1)
	}
	must.OK(t, os.Remove(heads))
	for s.Rollback.HeadFile() != "written" {
		attest(t, s, acme, 1)
	}
	length := length(t, s, acme)
	must.OK(t, s.Close())

	must.OK(t, os.Rename(older, path))
	s = got(store.Open(ctx, path, schema(t), store.Options{Heads: heads}))(t)
	defer s.Close()
	known := map[string]int64{}
	for _, b := range s.Rollback.Behind() {
		known[b.Company] = b.Known.Size
	}
	if known["acme"] != length || known["globex"] != 9 {
		t.Errorf("known are %v, want acme at %d and globex at 9", known, length)
	}
}
