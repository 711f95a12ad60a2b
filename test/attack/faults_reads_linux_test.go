package attack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"attestd/internal/harness"
)

// unreadableFrom is the argument with which this program executes another one for which reads of a
// file fail from an offset on.
const unreadableFrom = "unreadable-from"

func init() {
	if len(os.Args) < 4 || os.Args[1] != unreadableFrom {
		return
	}
	offset, err := strconv.ParseUint(os.Args[2], 10, 32)
	if err == nil {
		err = harness.FailReads(uint32(offset))
	}
	if err == nil {
		err = unix.Exec(os.Args[3], os.Args[3:], os.Environ())
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// The disk refuses to read a part of what was written.
func TestReadErrorsUnderLoad(t *testing.T) { besieged(t, readErrors) }

// readErrors makes the disk fail reads of what a server has written, from an offset on. Requests
// that need them fail, nothing is reported as damaged, and everything acknowledged is there when
// the disk can be read again.
func readErrors(ctx context.Context, r *run) error {
	const readable = 2 << 20 // the log grows beyond this before its checkpoint
	const most = 20_000      // appends; the first thousand fill readable
	self, err := os.Executable()
	if err != nil {
		return err
	}
	folder, err := r.Lab.Folder()
	if err != nil {
		return err
	}
	db := filepath.Join(folder, "attestd.db")
	s, err := r.Lab.ServeUnder(ctx, []string{self, unreadableFrom, strconv.Itoa(readable)}, db, "--rate-limits", "off")
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
	var w written
	bounded, cancel := context.WithTimeout(ctx, harness.Patience)
	w.writeSome(bounded, s.Addr, key, most, "NOT_DONE")
	cancel()
	if w.refused.Load() == 0 {
		r.Errorf("%d appends were made, and nothing that failed to be read was in their way", w.acknowledged.Load())
	}
	last := w.acknowledged.Load() - 1
	for _, path := range []string{"/v1/chain?limit=1", fmt.Sprintf("/v1/chain?limit=1&offset=%d", last),
		fmt.Sprint("/v1/proof/", last), "/v1/verify", "/v1/records?limit=5", "/v1/agents", "/readyz"} {
		a, err := c.Do(harness.Request{Method: "GET", Path: path, Key: key})
		if err != nil {
			return err
		}
		text := string(a.Body)
		if a.Status != 200 && (a.Status != 503 || !strings.Contains(text, `"NOT_DONE"`)) ||
			strings.Contains(text, "corrupt") || strings.Contains(text, `"valid":false`) {
			r.Errorf("GET %s, which the disk refuses, is answered %d: %.200s", path, a.Status, text)
		}
	}
	r.Count(int(w.acknowledged.Load()), "appends")
	r.Count(int(w.refused.Load()), "refused")
	// Its stop moves the log into the database and writes the head file, for which it has to read.
	// Which of these reads is the first to be refused depends on how far SQLite had come, and so do
	// the words: those of the system, or SQLite's for a page that it cannot have. In each case the
	// server must say that the storage is unavailable, and leave all to the next start.
	err = s.Stop()
	if err != nil && strings.Contains(err.Error(), "exit status 1:") {
		if at := strings.LastIndex(err.Error(), "\nattestd: "); at >= 0 && strings.HasPrefix(err.Error()[at:], "\nattestd: storage unavailable: ") {
			err = nil
		}
	}
	return errors.Join(err, w.hold(ctx, r, db))
}
