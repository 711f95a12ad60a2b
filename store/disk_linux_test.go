package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"attestd/chain"
	"attestd/crypto/keys"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/storetest"
)

// smallDisk mounts a memory disk of the given size and returns its directory.
func smallDisk(t *testing.T, size string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=700,size="+size); err != nil {
		testenv.Needs(t, testenv.Root)
		testenv.Missing(t, fmt.Sprintf("a small tmpfs cannot be mounted: %v", err))
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// On a full disk every write fails with an error that says so, acknowledged records stay, and the
// service continues as soon as there is space.
func TestFullDisk(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	dir := smallDisk(t, "8m")
	path := filepath.Join(dir, "attestd.db")
	s := open(t, path)
	c, key := company(t, s, "acme")

	head, acknowledged := chain.EmptyHead(), int64(0)
	ballast := filepath.Join(dir, "ballast")
	for round := range 3 {
		for range 4 {
			must.OK(t, extendBig(s, c, &head))
			acknowledged = head.Length
		}
		if err := os.WriteFile(ballast, make([]byte, 8<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("the disk is not full: %v", err)
		}
		var err error
		for err == nil {
			if err = extendBig(s, c, &head); err == nil {
				acknowledged = head.Length
			}
		}
		if !errors.Is(err, store.ErrUnavailable) {
			t.Fatalf("round %d: %v", round, err)
		}
		if _, err := s.Agents.Register(ctx, by(c, now), "bot", bytes.Repeat([]byte("x"), 100_000), many); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("round %d, another write: %v", round, err)
		}
		if _, err := s.Credentials.Authenticate(ctx, keys.HashSecret(key.Key), now); err != nil {
			t.Errorf("round %d, a read: %v", round, err)
		}
		if n := length(t, s, c); n != acknowledged {
			t.Fatalf("round %d: length %d, acknowledged %d", round, n, acknowledged)
		}
		must.OK(t, os.Truncate(ballast, 0)) // frees the space at once, even if the file is open
		must.OK(t, os.Remove(ballast))
	}
	must.OK(t, s.Close())
	s = open(t, path)
	if h, next, err := s.Tip(ctx, c.Chain); err != nil || h.Length != acknowledged || next != acknowledged {
		t.Errorf("after a restart: %d records, length %d, acknowledged %d, %v", next, h.Length, acknowledged, err)
	}
	must.OK(t, s.Close())
}

// extendBig adds 5 records of 10 kB and advances head when they are durable.
func extendBig(s *store.Store, c *store.Company, head *chain.Head) error {
	e := extension(c.Chain, *head, 5)
	for i := range e.Records {
		e.Records[i].Payload = bytes.Repeat([]byte("x"), 10_000)
	}
	if err := s.Extend(e); err != nil {
		return err
	}
	*head = e.Head
	return nil
}
