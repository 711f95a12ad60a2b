package test

import (
	"os"
	"path/filepath"
	"testing"

	"attestd/internal/must"
	"attestd/store/storetest"
)

// An archive that the disk has no room for leaves nothing.
func TestArchiveOnAFullDisk(t *testing.T) {
	db := storetest.New(t)
	t.Parallel()
	disk := smallDisk(t)
	s := serve(t, db, "--rate-limits", "off")
	c := s.register(t, "acme")
	fill(t, c, 250) // 5 MB
	out := filepath.Join(disk, "acme.ndjson")
	exits(t, 1, "no space left on device", "archive", "--company", "acme", "--before", "0s", "--out", out, "--db", db)
	left, err := os.ReadDir(disk)
	must.OK(t, err)
	if len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	must.OK(t, s.interrupt())
}
