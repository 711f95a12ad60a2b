package store_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"attestd/internal/must"
	"attestd/store"
	"attestd/store/storetest"
)

// A head file on its own full disk does not stop appends: it stays behind, a notice reports that,
// it raises no false alarm at a start, and it is updated when there is space.
func TestHeadFileOnFullDisk(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	disk := smallDisk(t, "64k")
	path, heads := filepath.Join(t.TempDir(), "attestd.db"), filepath.Join(disk, "heads")
	serve := func() *store.Store {
		s := got(store.Open(ctx, path, schema(t), store.Options{Heads: heads}))(t)
		go s.Run(ctx, store.RunOptions{})
		t.Cleanup(func() { s.Close() })
		return s
	}
	s := serve()
	acme, _ := company(t, s, "acme")
	attest(t, s, acme, 3)
	ballast := filepath.Join(disk, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 64<<10), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	for i := 0; s.Rollback.HeadFile() != "behind"; i++ { // each company needs more space
		company(t, s, fmt.Sprintf("company-%d", i))
	}
	attest(t, s, acme, 3)
	older := backUp(t, path)
	must.OK(t, s.Close())

	s = serve()
	if len(s.Rollback.Behind()) > 0 || s.Rollback.HeadFile() != "behind" || len(s.Notices()) != 1 {
		t.Errorf("behind: %+v; the head file is %s; notices %q", s.Rollback.Behind(), s.Rollback.HeadFile(), s.Notices())
	}
	attest(t, s, acme, 3)
	must.OK(t, os.Truncate(ballast, 0)) // frees the space at once, even if the file is open
	must.OK(t, os.Remove(ballast))
	for s.Rollback.HeadFile() == "behind" {
		attest(t, s, acme, 1)
	}
	length := length(t, s, acme)
	must.OK(t, s.Close())
	must.OK(t, os.Rename(older, path))
	s = serve()
	if list := s.Rollback.Behind(); len(list) != 1 || list[0].Known.Size != length {
		t.Errorf("%d logs are behind; acme had %d records", len(list), length)
	}
}
