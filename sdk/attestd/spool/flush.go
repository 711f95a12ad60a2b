package spool

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"attestd/crypto/statement"
	"attestd/internal/bounded"
	"attestd/internal/regular"
	"attestd/sdk/attestd"
)

// batchBytes is how long a batch may become, in bytes: well below the default limit of a request
// body.
const batchBytes = 1 << 20

// lockPoll is how often a Flush looks whether that of another process has ended.
const lockPoll = 50 * time.Millisecond

// Refusal is an attestation that the service has refused, and why.
type Refusal struct {
	At          string          `json:"at"`     // UTC
	Status      int             `json:"status"` // 0 where the line in the queue was damaged
	Code        string          `json:"code,omitempty"`
	Error       string          `json:"error"`
	RequestID   string          `json:"requestId,omitempty"` // of the service's log
	Attestation json.RawMessage `json:"attestation"`         // with its idempotency key
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
		why = append(why, fmt.Sprintf("the service refuses %d attestations, the first with %d %s; they are in the file refused", n, e.Refused[0].Status, e.Refused[0].Error))
	}
	if e.Damaged > 0 {
		why = append(why, fmt.Sprintf("%d lines are damaged; they are in the file damaged", e.Damaged))
	}
	return "spool: " + e.Dir + ": " + strings.Join(why, "; ")
}

// LimitedError says that the service takes no more for now: what is left waits, and After is how
// long at least.
type LimitedError struct {
	After time.Duration
	Err   error // the service's answer; nil where none was asked for
}

func (e *LimitedError) Error() string {
	return fmt.Sprintf("spool: the service's rate limit is reached; what is left can be sent in %v", e.After.Round(time.Second))
}

func (e *LimitedError) Unwrap() error { return e.Err }

// Flush sends what is there when it begins, oldest first, and removes what was answered. It waits
// for the Flush of another process to end. Where the service cannot be reached or refuses the
// credential, what is not sent stays, and the error says why. What the service refuses for good is
// set apart, and the rest is sent; then the error is a *RefusedError. What it answers with another
// record waits for the next Flush, and the error is an *attestd.RecordMismatchError.
//
// Where the rate limit does not allow all of it, the error is a *LimitedError. From then on a Flush
// sends first what was added since, and leaves half of the limit free of what waited before, for
// what happens meanwhile.
func (s *Spool) Flush(ctx context.Context) error {
	lock := s.lock(flushLock)
	if ok, err := lock.TryLockContext(ctx, lockPoll); !ok {
		return fmt.Errorf("spool: another process is sending: %w", err)
	}
	defer lock.Unlock()
	numbers, err := s.sealQueue()
	if err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	f := flush{Spool: s, recorded: refusals{s, bounded.NewMap[string, *places](maxRefusalFiles)}, most: attestd.MaxBatch, apart: RefusedError{Dir: s.dir}}
	if f.backlog, err = s.backlog(time.Now()); err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	since, _ := slices.BinarySearch(numbers, f.backlog.last+1)
	for _, n := range slices.Concat(numbers[since:], numbers[:since]) {
		err := f.file(ctx, n)
		if errors.As(err, new(*LimitedError)) {
			f.backlog.last = numbers[len(numbers)-1]
			err = errors.Join(err, s.saveBacklog(f.backlog))
		}
		if err != nil {
			return err
		}
	}
	err = s.saveBacklog(backlog{})
	if f.mismatch != nil {
		err = errors.Join(err, f.mismatch)
	}
	if f.blocked.first != nil {
		err = errors.Join(err, f.blocked.first)
	}
	if len(f.apart.Refused)+f.apart.Damaged > 0 {
		return errors.Join(err, &f.apart)
	}
	return err
}

// sealQueue ends the queue that is being added to, and returns the numbers of all that wait.
func (s *Spool) sealQueue() ([]uint64, error) {
	lock := s.lock(addLock)
	if err := lock.Lock(); err != nil {
		return nil, err
	}
	defer lock.Unlock()
	if info, err := os.Stat(s.path(current)); err == nil && info.Size() > 0 {
		if err := errors.Join(s.repairLocked(), s.seal()); err != nil {
			return nil, err
		}
	}
	return s.sealed()
}

// flush is one Flush under way.
type flush struct {
	*Spool
	recorded refusals
	most     int  // items of a batch; less once the service has refused more
	cut      bool // most is less because more were not answered
	backlog  backlog
	asked    bool // the service has answered, or has not
	apart    RefusedError
	// the first answer that was of something else; what was sent then waits for the next Flush
	mismatch *attestd.RecordMismatchError
	blocked  blocked
}

// blocked is what the service has not answered: something before it has, such as a gateway that
// takes the content of an attestation for an attack, or the connection is lost whenever it is sent,
// because it is too large for something. That attestation waits for the next Flush, and so do later
// ones of its session, which are recorded behind it. The others go on.
type blocked struct {
	first    error
	sessions map[string]bool
	alone    int // single attestations in a row that were not answered
	lost     int // lost connections in a row with several attestations
}

// maxAlone is how many single attestations in a row are not answered before a Flush ends: then the
// service cannot be reached. After maxLost lost connections attestations are sent one by one, so
// that few attempts, which may take long, find that out.
const (
	maxAlone = 3
	maxLost  = 3
)

// item is a line of a queue that is not done.
type item struct {
	attestd.Attestation
	line int
}

// file sends a queue and removes it.
func (f *flush) file(ctx context.Context, number uint64) error {
	path := f.path(sealedName(number))
	text, err := regular.Read(path)
	if err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	all := lines(text)
	done, err := openProgress(f.path(progressName(number)), text, len(all))
	if err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	if err := f.send(ctx, all, done, number <= f.backlog.last); err != nil || len(done.left()) > 0 {
		return err
	}
	for _, name := range []string{path, done.path} { // in this order: a progress alone says nothing
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("spool: %w", err)
		}
	}
	return syncFolder(f.dir)
}

// batch returns how many of items go into one request, at least one. A key that was added twice
// goes into two, for the service refuses that in one, and answers the second with the record of the
// first.
func batch(items []item) int {
	size, keys := 0, map[string]bool{}
	for i, a := range items {
		key := a.IdempotencyKey + a.Statement // it has one of the two
		if size += len(a.AppendJSON(nil)); i > 0 && (size > batchBytes || keys[key]) {
			return i
		}
		keys[key] = true
	}
	return len(items)
}

// items reads the first of the lines that are left, n at most. Those that are damaged are set
// apart, and so are statements whose refusal a process has noted that was killed then.
func (f *flush) items(all [][]byte, done *progress, left []int, n int) (items []item, err error) {
	var damaged []byte
	var lines, sent []int
	for _, line := range left[:min(n, len(left))] {
		if !isLive(all[line]) {
			sent = append(sent, line)
			continue
		}
		a, ok := readLine(all[line])
		if !ok {
			damaged, lines = append(append(damaged, all[line]...), '\n'), append(lines, line)
			continue
		}
		if key, renewed := done.keys[line]; renewed {
			a.IdempotencyKey = key
		}
		recorded, err := f.refusalOf(a)
		if err != nil {
			return nil, err
		}
		if recorded != nil {
			if err := f.setApart(a, recorded); err != nil {
				return nil, err
			}
			sent = append(sent, line)
			continue
		}
		items = append(items, item{a, line})
	}
	if len(lines) > 0 {
		if err = appendOnce(f.path(damagedAs), damaged); err != nil {
			return nil, fmt.Errorf("spool: %w", err)
		}
		done.finish(lines)
		f.apart.Damaged += len(lines)
	}
	if len(sent) > 0 {
		done.finish(sent)
	}
	return items, nil
}

// send sends what is left of a queue until all is answered or set apart. late says that it has
// waited for the rate limit.
func (f *flush) send(ctx context.Context, all [][]byte, done *progress, late bool) error {
	waiting := map[int]bool{} // lines that are left for the next Flush
	waits := func() []int { return slices.DeleteFunc(done.left(), func(line int) bool { return waiting[line] }) }
	for left := waits(); len(left) > 0; left = waits() {
		room, err := f.room(len(left), late)
		if err != nil {
			return err
		}
		items, err := f.items(all, done, left, min(f.most, room))
		if err != nil {
			return err
		}
		if len(f.blocked.sessions) > 0 {
			items = slices.DeleteFunc(items, func(it item) bool {
				waiting[it.line] = f.blocked.sessions[sessionOf(it.Attestation)]
				return waiting[it.line]
			})
		}
		if len(items) == 0 {
			continue
		}
		n := batch(items)
		as, gone := make([]attestd.Attestation, n), make([]int, n)
		for i, it := range items[:n] {
			as[i], gone[i] = it.Attestation, it.line
		}
		_, err = f.client.AttestBatch(ctx, as)
		f.asked = true
		var answer *attestd.Error
		var mismatch *attestd.RecordMismatchError
		errors.As(err, &answer)
		switch at, named := namedItem(answer, n); {
		case errors.As(err, &mismatch): // the others are recorded
			if err = nil; f.mismatch == nil {
				f.mismatch = mismatch
			}
			var recorded []int
			for i, line := range gone {
				if mismatch.Differs[i] != "" {
					waiting[line] = true
				} else {
					recorded = append(recorded, line)
				}
			}
			done.finish(recorded)
		case err == nil:
			f.blocked.alone, f.blocked.lost = 0, 0
			if f.cut { // what was not answered may be behind
				f.most = min(2*f.most, attestd.MaxBatch)
			}
			done.finish(gone)
			f.backlog.sent = append(f.backlog.sent, sent{time.Now().UnixMilli(), n})
		case answer != nil && answer.Status == http.StatusTooManyRequests && f.limited():
			if room, full := f.room(len(left), true); full == nil && room < n { // fewer may go
				err = nil
			} else {
				err = &LimitedError{max(answer.RetryAfter, minWait), err}
			}
		case unanswered(ctx, err) && n == 1 && f.blocked.alone < maxAlone-1:
			f.block(items[0].Attestation, err)
			waiting[gone[0]], err = true, nil
		case unanswered(ctx, err) && n > 1:
			if f.cut, f.most = true, n/2; answer == nil {
				if f.blocked.lost++; f.blocked.lost >= maxLost {
					f.most = 1
				}
			}
			err = nil
		case !blamed(err):
			return err // all that can be sent later, and what no attestation is to blame for
		case (named || n == 1) && f.FreshKeys && answer.Code == attestd.KeyReused && done.keys[items[at].line] == "":
			err = done.rekey(items[at].line, attestd.NewIdempotencyKey())
		case named || n == 1:
			if err = f.setApart(items[at].Attestation, answer); err == nil {
				done.finish([]int{items[at].line})
			}
		default: // too long for one request, or for what may be sent in a minute
			f.most, err = n/2, nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// unanswered reports whether a request may have come to the service and was not answered by it,
// which may be due to its content: something before the service has refused it, or the connection
// was lost. It is not where no connection was made, or no credential was to be had.
func unanswered(ctx context.Context, err error) bool {
	var page *attestd.Error
	if errors.As(err, &page) {
		return page.Foreign && page.Status >= 400 && page.Status < 500 && page.Status != http.StatusRequestTimeout && page.Status != http.StatusTooManyRequests
	}
	var unsent *net.OpError
	dial := errors.As(err, &unsent) && unsent.Op == "dial"
	return !dial && !errors.As(err, new(*attestd.CredentialError)) && !errors.As(err, new(*tls.CertificateVerificationError)) && ctx.Err() == nil
}

// block notes that an attestation by itself was not answered.
func (f *flush) block(a attestd.Attestation, err error) {
	if f.blocked.alone++; f.blocked.first == nil {
		f.blocked.first, f.blocked.sessions = err, map[string]bool{}
	}
	if session := sessionOf(a); session != "" {
		f.blocked.sessions[session] = true
	}
}

// sessionOf names the session of an attestation; "" if it has none.
func sessionOf(a attestd.Attestation) string {
	if a.Statement == "" {
		return ""
	}
	stmt, err := statement.Parse(a.Statement)
	if err != nil || stmt.Session == "" {
		return ""
	}
	return stmt.KeyID + " " + stmt.Session
}

// namedItem reads which item of n a refusal names, by its JSON Pointer.
func namedItem(e *attestd.Error, n int) (at int, named bool) {
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

// refusalOf returns the refusal of a statement that the file of its session notes; nil where it
// notes none. It is not sent again: a later statement may have recorded that it was refused.
func (f *flush) refusalOf(a attestd.Attestation) (*attestd.Error, error) {
	if a.Statement == "" {
		return nil, nil
	}
	stmt, err := statement.Parse(a.Statement)
	if err != nil || stmt.Session == "" {
		return nil, nil // by another program
	}
	recorded, err := f.recorded.of(stmt)
	if recorded == nil || err != nil {
		return nil, err
	}
	return &attestd.Error{Status: recorded.Status, Code: recorded.Refused, Message: "refused, and the process that heard it was killed"}, nil
}

// setApart keeps what is refused, and notes the refusal at the place of a statement. It does both
// in this order, so that the place is never sent again.
func (f *flush) setApart(a attestd.Attestation, why *attestd.Error) error {
	lock := f.lock(addLock)
	if err := lock.Lock(); err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	defer lock.Unlock()
	if a.Statement != "" {
		if stmt, err := statement.Parse(a.Statement); err == nil && stmt.Session != "" {
			if err := f.refuse(stmt.KeyID, newPlace(stmt), why); err != nil {
				return err
			}
		}
	}
	r, err := f.appendRefusal(a, why)
	if r != nil {
		f.apart.Refused = append(f.apart.Refused, *r)
	}
	return err
}

// appendRefusal keeps what is refused, unless a process that was killed has done so. The caller
// holds the lock to add.
func (s *Spool) appendRefusal(a attestd.Attestation, why *attestd.Error) (*Refusal, error) {
	r := Refusal{time.Now().UTC().Format(time.RFC3339), why.Status, why.Code, why.Message, why.RequestID, a.AppendJSON(nil)}
	line, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	attestation, err := json.Marshal(r.Attestation) // as it is in the line
	if err != nil {
		return nil, err
	}
	if known, err := s.isApart(attestation); known || err != nil {
		return nil, err
	}
	if err := appendSynced(s.path(refusedAs), append(line, '\n')); err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	return &r, nil
}

// isApart reports whether one of the last stored refusals is of this attestation.
func (s *Spool) isApart(attestation []byte) (bool, error) {
	const most = 1 << 20
	last, err := tail(s.path(refusedAs), 2*len(attestation)+most)
	if err != nil {
		return false, fmt.Errorf("spool: %w", err)
	}
	return bytes.Contains(last, append([]byte(`"attestation":`), append(attestation, "}\n"...)...)), nil
}

// Refused returns all that was set apart since somebody removed the file of that name.
func (s *Spool) Refused() (all []Refusal, err error) {
	text, err := regular.Read(s.path(refusedAs))
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
	text, _ := regular.Read(s.path(current))
	numbers, _ := s.sealed()
	_ = lock.Unlock()
	count := 0
	for _, line := range lines(text) {
		if isLive(line) {
			count++
		}
	}
	for _, n := range numbers {
		text, _ := regular.Read(s.path(sealedName(n))) // it may have been sent in between
		all := lines(text)
		if done, err := openProgress(s.path(progressName(n)), text, len(all)); err == nil {
			for _, n := range done.left() {
				if isLive(all[n]) {
					count++
				}
			}
		}
	}
	return count
}
