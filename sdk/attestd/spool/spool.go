// Package spool keeps attestations on disk until the service has them.
//
// An attestation is synced to disk when Add returns. It stays there until the service has answered
// 201, or has refused it permanently; a refused one is moved to another file with the reason.
// Nothing is ever dropped. Each attestation is sent with the idempotency key that it was added
// with, so one that a killed process had sent is not recorded twice. The service stores a key for
// 30 days: an attestation whose response was lost, and that is spooled for longer, may be recorded
// twice.
//
// # Files
//
// Several processes may share a folder. Its files are:
//
//	queue                      the queue for new attestations
//	00000000000000000001.queue queues that are full or being sent, in the order of their numbers
//	00000000000000000001.queue.sent
//	                           the lines that are done, so that each is processed once
//	sessions/                  for each session of an agent a file of its places; see [Session]
//	removed                    the sessions whose file was removed, because they are over for long
//	limited                    the last rate-limited queue; later queues are sent first
//	refused                    refused attestations, as JSON lines with time, reason and attestation;
//	                           of a statement that is what was called refused in the log
//	damaged                    lines with a wrong checksum, unchanged
//	add.lock, flush.lock       locks of processes that add and send
//
// A line of a queue is the CRC-32C (Castagnoli) of the rest in eight hex digits, a space, and the
// attestation as an item of POST /v1/attest/batch. A process that is killed in Add may leave an
// incomplete last line, which was not acknowledged; the next process removes it. A line whose first
// byte is "x" was sent by who added it.
//
// A statement is its own idempotency key, so what waits is the signed request. The file of a
// session has a line for each of its statements, again with a checksum: sid, seq, hash, jti and
// which refused places it names. Who adds a statement holds the lock of the session's file, and
// while it writes that of the folder: first the line of the queue, then the place. So at most the
// last line of the queue lacks its place, after a kill, and who adds next, or ends the queue, adds
// that place first.
//
// The file has another line for each place whose statement the service has refused, with the code.
// It is written first, then the refused attestation goes to the file refused, and then out of the
// queue: a process that is killed in between leaves what the next Flush sets apart, and does not
// send again. A last line marks that the session goes on elsewhere, under the agent's next key.
package spool

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"attestd/sdk/attestd"
	"attestd/sdk/attestd/private"
)

// DefaultLimit is the largest size of a folder in bytes, unless Limit is set.
const DefaultLimit = 1 << 30

// ErrFull reports that the folder has Limit bytes. Nothing was added.
var ErrFull = errors.New("spool: full")

// ErrBusy reports that another process held a lock of the folder for longer than Patience.
var ErrBusy = errors.New("spool: another process holds a lock")

// FolderError reports that the folder could not be read or written: the disk is full or read-only,
// something else is at the path of a file, or the lock was not to be had.
type FolderError struct{ Err error }

func (e *FolderError) Error() string { return e.Err.Error() }
func (e *FolderError) Unwrap() error { return e.Err }

func folderError(err error) error {
	if err == nil {
		return nil
	}
	return &FolderError{err}
}

// Spool is a folder of unsent attestations. It is safe for concurrent use; each process opens its
// own Spool.
type Spool struct {
	Limit int64 // in bytes, of all files together; set it before the first Add

	// FreshKeys states that the program derived the keys of its attestations. A key that was used
	// for another request, perhaps by an attacker, is then replaced by a new one. Otherwise such an
	// attestation is refused.
	FreshKeys bool

	// Patience is how long a call waits for a lock that another process holds; 0 is without end.
	Patience time.Duration

	dir    string
	client *attestd.Client

	turn    chan struct{} // holds one while a goroutine of this process writes
	mu      sync.Mutex
	waiting []*entry // the lines that the next to write writes, with one sync for all
}

// Open opens the folder dir and creates a missing one. It refuses a folder that others can write,
// or that is below one, because they could add, change and remove attestations.
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

// Dir returns the path of the folder.
func (s *Spool) Dir() string { return s.dir }

// Attest sends an attestation, and adds it where no answer is to be had now: then queued is true
// and the record is empty. What the service refuses for good is returned as the error that it is,
// and not added.
func (s *Spool) Attest(ctx context.Context, a attestd.Attestation) (r attestd.Record, queued bool, err error) {
	if a, err = a.Prepare(); err != nil { // with the key under which it is sent both times
		return r, false, err
	}
	r, err = s.client.Attest(ctx, a)
	if err == nil || refused(err) {
		return r, false, err
	}
	answered := err
	// Also when the caller's time is over: that is why there was no answer.
	if added := s.Add(context.WithoutCancel(ctx), a); added != nil {
		return r, false, errors.Join(err, added)
	}
	if errors.As(answered, new(*attestd.RecordMismatchError)) {
		return attestd.Record{}, true, answered // no other caller reports it
	}
	return attestd.Record{}, true, nil
}

// refused reports whether the service has refused for good, and not for now.
func refused(err error) bool {
	var answer *attestd.Error
	return errors.As(err, &answer) && answer.Refuses()
}

// entry is a line on its way to the disk.
type entry struct {
	line []byte
	done chan error // of capacity 1
}

// Add returns when the attestation is synced to disk, with its idempotency key. What is added at
// the same time by one process shares a sync. After an error it is not known whether it was added,
// ErrFull, ErrBusy and that of a done context aside: then it was not. Those of the folder are a
// [FolderError].
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

// withdraw takes back an entry that is not being written yet.
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
