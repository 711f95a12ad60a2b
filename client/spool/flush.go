package spool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"attestd/client"
)

// batchBytes is how long a batch may become, in bytes: well below the default limit of a request body.
const batchBytes = 1 << 20

// lockPoll is how often a Flush looks whether that of another process has ended.
const lockPoll = 50 * time.Millisecond

// Refusal is an attestation that the service has refused, and why.
type Refusal struct {
	At          string          `json:"at"`     // UTC
	Status      int             `json:"status"` // 0 where the line in the queue was damaged
	Code        string          `json:"code,omitempty"`
	Error       string          `json:"error"`
	Attestation json.RawMessage `json:"attestation"` // with its idempotency key
}

// RefusedError says that all was sent, and that some of it was refused and set apart.
type RefusedError struct {
	Refused []Refusal // by this Flush
	Damaged int       // lines that could not be read
	Dir     string
}

func (e *RefusedError) Error() string {
	var why []string
	if n := len(e.Refused); n > 0 {
		why = append(why, fmt.Sprintf("the service refuses %d attestations, the first with %d %s; they are kept in the file refused", n, e.Refused[0].Status, e.Refused[0].Error))
	}
	if e.Damaged > 0 {
		why = append(why, fmt.Sprintf("%d lines are damaged; they are kept in the file damaged", e.Damaged))
	}
	return "spool: " + e.Dir + ": " + strings.Join(why, "; ")
}

// Flush sends what is there when it begins, oldest first, and removes what was answered. It waits for the Flush of another process to end. Where the
// service cannot be reached or refuses the credential, what is not sent stays, and the error says why. What the service refuses for good is set apart, and
// the rest is sent; then the error is a *RefusedError.
func (s *Spool) Flush(ctx context.Context) error {
	lock := s.lock(flushLock)
	if ok, err := lock.TryLockContext(ctx, lockPoll); !ok {
		return fmt.Errorf("spool: another process is sending: %w", err)
	}
	defer lock.Unlock()
	numbers, err := s.take()
	if err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	f := flush{Spool: s, most: client.MaxBatch, apart: RefusedError{Dir: s.dir}}
	for _, n := range numbers {
		if err := f.file(ctx, s.path(sealedName(n))); err != nil {
			return err
		}
	}
	if len(f.apart.Refused)+f.apart.Damaged > 0 {
		return &f.apart
	}
	return nil
}

// take ends the queue that is being added to, and returns the numbers of all that wait.
func (s *Spool) take() ([]uint64, error) {
	lock := s.lock(addLock)
	if err := lock.Lock(); err != nil {
		return nil, err
	}
	defer lock.Unlock()
	if info, err := os.Stat(s.path(current)); err == nil && info.Size() > 0 {
		if err := s.seal(); err != nil {
			return nil, err
		}
	}
	return s.sealed()
}

// flush is one Flush under way.
type flush struct {
	*Spool
	most  int // items of a batch; less once the service has refused more
	apart RefusedError
}

// file sends a queue and removes it.
func (f *flush) file(ctx context.Context, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	items, damaged, _ := read(text)
	for len(items) > 0 {
		n := f.batch(items)
		if err := f.send(ctx, items[:n]); err != nil {
			return err
		}
		items = items[n:]
	}
	if len(damaged) > 0 { // last, so that a Flush that is tried again does not keep them twice
		if err := appendSynced(f.path(damagedAs), append(bytes.Join(damaged, []byte("\n")), '\n')); err != nil {
			return fmt.Errorf("spool: %w", err)
		}
		f.apart.Damaged += len(damaged)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	return syncFolder(f.dir)
}

// batch returns how many of items go into one request, at least one. A key that was added twice goes into two, for the service refuses that in one, and answers the
// second with the record of the first.
func (f *flush) batch(items []client.Attestation) int {
	size, keys := 0, map[string]bool{}
	for n, a := range items[:min(len(items), f.most)] {
		if size += len(a.AppendJSON(nil)); n > 0 && (size > batchBytes || keys[a.IdempotencyKey]) {
			return n
		}
		keys[a.IdempotencyKey] = true
	}
	return min(len(items), f.most)
}

// send sends items until all are answered or set apart.
func (f *flush) send(ctx context.Context, items []client.Attestation) error {
	for len(items) > 0 {
		n := min(len(items), f.most)
		_, err := f.client.AttestBatch(ctx, items[:n])
		var answer *client.Error
		errors.As(err, &answer)
		switch at, named := place(answer, n); {
		case err == nil:
			items = items[n:]
		case !refused(err) || answer.Status == http.StatusUnauthorized || answer.Code == "FORBIDDEN_ROLE" || answer.Status == http.StatusNotFound || answer.Status == http.StatusMethodNotAllowed:
			return err // all that can be sent later, and what no attestation is to blame for
		case named || n == 1:
			if err := f.setApart(items[at], answer); err != nil {
				return err
			}
			items = append(items[:at:at], items[at+1:]...)
		default: // too long for one request, or for what may be sent in a minute
			f.most = n / 2
		}
	}
	return nil
}

// place reads which item of n a refusal names, by its JSON Pointer.
func place(e *client.Error, n int) (at int, named bool) {
	if e == nil {
		return 0, false
	}
	rest, found := strings.CutPrefix(e.Pointer, "/records/")
	digits, _, _ := strings.Cut(rest, "/")
	at, err := strconv.Atoi(digits)
	if !found || err != nil || at < 0 || at >= n {
		return 0, false
	}
	return at, true
}

// setApart keeps what is refused.
func (f *flush) setApart(a client.Attestation, why *client.Error) error {
	r := Refusal{time.Now().UTC().Format(time.RFC3339), why.Status, why.Code, why.Message, a.AppendJSON(nil)}
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := appendSynced(f.path(refusedAs), append(line, '\n')); err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	f.apart.Refused = append(f.apart.Refused, r)
	return nil
}

// Refused returns all that was set apart since somebody removed the file of that name.
func (s *Spool) Refused() (all []Refusal, err error) {
	text, err := os.ReadFile(s.path(refusedAs))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	for line := range bytes.Lines(text) {
		var r Refusal
		if json.Unmarshal(line, &r) == nil { // the last may be incomplete
			all = append(all, r)
		}
	}
	return all, nil
}

// Pending counts what waits to be sent. It reads all of it.
func (s *Spool) Pending() int {
	lock := s.lock(addLock)
	if lock.Lock() != nil {
		return 0 // where nothing can be read, nothing can be counted
	}
	text, _ := os.ReadFile(s.path(current))
	numbers, _ := s.sealed()
	_ = lock.Unlock()
	count := bytes.Count(text, []byte("\n"))
	for _, n := range numbers {
		text, _ := os.ReadFile(s.path(sealedName(n))) // it may have been sent in between
		count += bytes.Count(text, []byte("\n"))
	}
	return count
}
