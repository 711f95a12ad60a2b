// Package spool keeps attestations on disk until the service has them.
//
// What Add has acknowledged is synced, and stays until the service has answered 201 for it or has
// refused it for good; then it is set apart, with the reason. Nothing is ever dropped. Each
// attestation is sent under the idempotency key that it was added with, so what a process that was
// killed had sent, and what was first tried without the spool, is not recorded twice. The service
// knows a key for 30 days: an attestation whose answer was lost and that waits here for longer than
// that may be recorded twice.
//
// # Files
//
// Many processes may share a folder. In it stand
//
//	queue                      what is being added to
//	00000000000000000001.queue what is full or is being sent, in the order of the numbers
//	00000000000000000001.queue.sent
//	                           which of its lines are done, so that each is sent and set apart once
//	limited                    the last queue that waits for the rate limit: what comes after it goes first
//	refused                    what the service refuses, a JSON object a line: when, why, and the attestation
//	damaged                    lines that were not read as they were written, as they are
//	add.lock, flush.lock       held while someone adds, and while someone sends
//
// A line of a queue is the CRC-32C (Castagnoli) of the rest in eight hex digits, a space, and the
// attestation as an item of POST /v1/attest/batch. A process that is killed while it adds may leave
// an incomplete last line, which nobody was told of; the next one removes it.
package spool

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"sync"

	"attestd/sdk/attestd"
	"attestd/sdk/attestd/private"
)

// DefaultLimit is how many bytes a folder may hold unless Limit is set.
const DefaultLimit = 1 << 30

// ErrFull says that the folder holds Limit bytes. Nothing was added.
var ErrFull = errors.New("spool: full")

// Spool is a folder of attestations that wait. Many goroutines may use it at once; each process
// opens it for itself.
type Spool struct {
	Limit int64 // in bytes, of all files together; set it before the first Add

	// FreshKeys says that a program has made the keys of what it adds. One that stands for
	// something else already, be it because somebody has claimed it, is replaced by a fresh one;
	// else the attestation is refused and set apart.
	FreshKeys bool

	dir    string
	client *attestd.Client

	turn    chan struct{} // holds one while a goroutine of this process writes
	mu      sync.Mutex
	waiting []*entry // the lines that the next to write writes, with one sync for all
}

// Open opens the folder dir, which it makes where there is none. A folder that others may write to,
// or that stands below one, is refused: they could add, change and take away.
func Open(dir string, c *attestd.Client) (*Spool, error) {
	err := private.Check(dir)
	if err == nil {
		if _, err = os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			if err = os.MkdirAll(dir, 0o700); err == nil {
				err = syncFolder(filepath.Dir(dir))
			}
			if err == nil {
				err = private.Check(dir) // somebody may have made a part of it meanwhile
			}
		}
	}
	if err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	return &Spool{Limit: DefaultLimit, dir: dir, client: c, turn: make(chan struct{}, 1)}, nil
}

// Dir is the folder.
func (s *Spool) Dir() string { return s.dir }

// Attest sends an attestation, and adds it where no answer is to be had now: then queued is true
// and the record is empty. What the service refuses for good is returned as the error that it is,
// and not added.
func (s *Spool) Attest(ctx context.Context, a attestd.Attestation) (r attestd.Record, queued bool, err error) {
	if a, err = a.Prepare(); err != nil { // with the key under which it is sent both times
		return r, false, err
	}
	if r, err = s.client.Attest(ctx, a); err == nil || refused(err) {
		return r, false, err
	}
	// Also when the caller's time is over: that is why there was no answer.
	if added := s.Add(context.WithoutCancel(ctx), a); added != nil {
		return r, false, errors.Join(err, added)
	}
	return attestd.Record{}, true, nil
}

// refused reports whether the service has refused for good, and not for now.
func refused(err error) bool {
	var answer *attestd.Error
	if !errors.As(err, &answer) {
		return false
	}
	switch answer.Status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		return false
	}
	return answer.Status >= 400 && answer.Status < 500
}

// entry is a line on its way to the disk.
type entry struct {
	line []byte
	done chan error // of capacity 1
}

// Add returns when the attestation is synced to disk, with its idempotency key. What is added at
// the same time by one process shares a sync. After an error it is not known whether it was added,
// ErrFull and that of a done context aside: then it was not.
func (s *Spool) Add(ctx context.Context, a attestd.Attestation) error {
	a, err := a.Prepare()
	if err != nil {
		return err
	}
	e := &entry{line: appendLine(nil, a), done: make(chan error, 1)}
	s.mu.Lock()
	s.waiting = append(s.waiting, e)
	s.mu.Unlock()
	select {
	case err := <-e.done:
		return err
	case s.turn <- struct{}{}:
		s.write()
		<-s.turn
		return <-e.done
	case <-ctx.Done():
		if s.withdraw(e) {
			return ctx.Err()
		}
		return <-e.done
	}
}

// withdraw takes back an entry that nobody writes yet.
func (s *Spool) withdraw(e *entry) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, other := range s.waiting {
		if other == e {
			s.waiting = append(s.waiting[:i], s.waiting[i+1:]...)
			return true
		}
	}
	return false
}

// write writes all that waits.
func (s *Spool) write() {
	s.mu.Lock()
	entries := s.waiting
	s.waiting = nil
	s.mu.Unlock()
	if len(entries) == 0 {
		return
	}
	for _, e := range s.appendEntries(entries) {
		e.done <- nil
	}
}
