package attack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"attestd/internal/harness"
	"attestd/internal/testenv"
)

// The disk fills up under load, and has room again.
func TestFullDiskUnderLoad(t *testing.T) { besieged(t, fullDisk) }

// fullDisk fills the disk under load and frees space again.
func fullDisk(ctx context.Context, r *run) (err error) {
	folder, err := r.Lab.Folder()
	if err != nil {
		return err
	}
	if err := syscall.Mount("tmpfs", folder, "tmpfs", 0, "size=64m,mode=700"); err != nil {
		testenv.Needs(r, testenv.Root)
		testenv.Missing(r, fmt.Sprintf("a small tmpfs cannot be mounted: %v", err))
	}
	defer func() { err = errors.Join(err, syscall.Unmount(folder, syscall.MNT_DETACH)) }()
	db := filepath.Join(folder, "attestd.db")
	s, err := r.Lab.Serve(ctx, db, "--rate-limits", "off")
	if err != nil {
		return err
	}
	defer func() { _ = s.Stop() }()
	c := &harness.Client{Addr: s.Addr}
	defer c.Close()
	key, err := c.Register("acme")
	if err != nil {
		return err
	}
	ready := harness.Request{Method: "GET", Path: "/readyz"}
	rounds := 20
	if short() {
		rounds = 2
	}
	var w written
	for round := range rounds {
		ballast := filepath.Join(folder, "ballast")
		if err := fill(ballast); err != nil {
			return err
		}
		bounded, cancel := context.WithTimeout(ctx, harness.Patience)
		w.write(bounded, s.Addr, key, "NOT_DONE")
		cancel()
		// longer than the interval of probes
		for end := time.Now().Add(1200 * time.Millisecond); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
			if err := c.Call(503, ready, nil); err != nil {
				r.Errorf("filling %d: %v", round, err)
			}
		}
		if err := os.Remove(ballast); err != nil {
			return err
		}
		for end := time.Now().Add(harness.Patience); ; time.Sleep(50 * time.Millisecond) {
			if err = c.Call(200, ready, nil); err == nil {
				break
			}
			if time.Now().After(end) {
				return err
			}
		}
		bounded, cancel = context.WithTimeout(ctx, 200*time.Millisecond)
		w.write(bounded, s.Addr, key)
		cancel()
	}
	r.Count(rounds, "fillings of the disk")
	if err := s.Stop(); err != nil {
		return err
	}
	return w.hold(ctx, r, db)
}

// fill uses every byte of a disk.
func fill(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := io.Copy(f, endless{}); !errors.Is(err, syscall.ENOSPC) {
		return errors.Join(errors.New("the disk is not full"), err)
	}
	return nil
}

type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }
