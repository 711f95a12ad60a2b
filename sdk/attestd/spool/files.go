package spool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"attestd/internal/atomicfile"
	"attestd/internal/regular"
	"attestd/sdk/attestd"
)

// Names in the folder; see the package comment.
const (
	current   = "queue"
	sealed    = ".queue" // after a number of twenty digits
	refusedAs = "refused"
	damagedAs = "damaged"
	addLock   = "add.lock"
	flushLock = "flush.lock"
)

// fullAt is the size at which a queue takes no more, in bytes. It is about what one or two batches
// take.
const fullAt = 1 << 20

func (s *Spool) path(name string) string { return filepath.Join(s.dir, name) }

func (s *Spool) lock(name string) *folderLock { return s.lockAt(s.path(name)) }

func (s *Spool) lockAt(path string) *folderLock {
	flag := os.O_CREATE | os.O_RDWR | regular.NoWait
	return &folderLock{flock.New(path, flock.SetFlag(flag), flock.SetPermissions(0o600)), s.Patience}
}

// folderLock is a lock of a folder, among processes.
type folderLock struct {
	*flock.Flock
	patience time.Duration // 0 is without end
}

// Lock waits for the lock, and is ErrBusy where that takes longer than the patience.
func (l *folderLock) Lock() error {
	if l.patience == 0 {
		return l.Flock.Lock()
	}
	ctx, cancel := context.WithTimeout(context.Background(), l.patience)
	defer cancel()
	_, err := l.TryLockContext(ctx, shortPoll)
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: %s", ErrBusy, l.Path())
	}
	return err
}

// shortPoll is how often a process with little patience looks whether a lock is free. Others hold
// it for as long as a sync takes.
const shortPoll = 5 * time.Millisecond

// appendEntries writes lines to the queue and syncs it. It returns the entries that are on disk;
// the others know why they are not.
func (s *Spool) appendEntries(entries []*entry) (done []*entry) {
	fail := func(entries []*entry, err error) {
		for _, e := range entries {
			e.done <- err
		}
	}
	lock := s.lock(addLock)
	if err := lock.Lock(); err != nil {
		fail(entries, folderError(fmt.Errorf("spool: %w", err)))
		return nil
	}
	defer lock.Unlock()
	size, err := s.size()
	if err != nil {
		fail(entries, folderError(err))
		return nil
	}
	var lines []byte
	for _, e := range entries {
		if size += int64(len(e.line)); size > s.Limit {
			size -= int64(len(e.line))
			fail([]*entry{e}, folderError(fmt.Errorf("%w: %s holds %d bytes of %d", ErrFull, s.dir, size, s.Limit)))
			continue
		}
		lines, done = append(lines, e.line...), append(done, e)
	}
	if len(done) == 0 {
		return nil
	}
	if err := s.appendLines(lines); err != nil {
		fail(done, folderError(fmt.Errorf("spool: %w", err)))
		return nil
	}
	return done
}

// appendLines writes complete lines after those of the queue, and returns when they are on disk.
// The caller holds the lock to add.
func (s *Spool) appendLines(lines []byte) error {
	if err := s.repairLocked(); err != nil { // before another line is the last
		return err
	}
	if info, err := os.Stat(s.path(current)); err == nil && info.Size() >= fullAt {
		if err := s.seal(); err != nil {
			return err
		}
	}
	return appendSynced(s.path(current), lines)
}

// appendSynced writes complete lines after those of a file, which it makes where there is none, and
// syncs the file. An incomplete last line, which a process that was killed has left, is removed.
// When it fails, the file is as it was, as far as that can be brought about.
func appendSynced(path string, lines []byte) error {
	f, err := regular.Open(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	end, err := completeLines(f)
	if err != nil {
		return err
	}
	if err := f.Truncate(end); err != nil {
		return err
	}
	if _, err = f.WriteAt(lines, end); err == nil {
		err = f.Sync()
	}
	if err == nil && end == 0 { // it may be new
		err = syncFolder(filepath.Dir(path))
	}
	if err != nil {
		return errors.Join(err, f.Truncate(end))
	}
	return nil
}

// appendOnce is appendSynced for lines that a killed process may have written already.
func appendOnce(path string, lines []byte) error {
	last, err := tail(path, len(lines))
	if err != nil || bytes.Equal(last, lines) {
		return err
	}
	return appendSynced(path, lines)
}

// tail reads the last n bytes of a file, or all where it has fewer; of none nothing.
func tail(path string, n int) ([]byte, error) {
	f, err := regular.Open(path, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	from := max(0, info.Size()-int64(n))
	return io.ReadAll(io.NewSectionReader(f, from, info.Size()-from))
}

// completeLines returns where the last complete line of a file ends.
func completeLines(f *os.File) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	part := make([]byte, 4096)
	for end := info.Size(); end > 0; {
		from := max(0, end-int64(len(part)))
		n, err := f.ReadAt(part[:end-from], from)
		if int64(n) < end-from {
			return 0, err
		}
		if at := bytes.LastIndexByte(part[:n], '\n'); at >= 0 {
			return from + int64(at) + 1, nil
		}
		end = from
	}
	return 0, nil
}

// seal ends the queue that is being added to, and gives it the next number. The caller holds the
// lock to add.
func (s *Spool) seal() error {
	numbers, err := s.sealed()
	if err != nil {
		return err
	}
	next := uint64(1)
	if len(numbers) > 0 {
		next = numbers[len(numbers)-1] + 1
	}
	if err := os.Rename(s.path(current), s.path(sealedName(next))); err != nil {
		return err
	}
	return syncFolder(s.dir)
}

func sealedName(number uint64) string { return fmt.Sprintf("%020d", number) + sealed }

// progressName names the progress of the queue of that number.
func progressName(number uint64) string { return sealedName(number) + sentAs }

// sealed returns the numbers of the queues that take no more, ascending.
func (s *Spool) sealed() ([]uint64, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, err
	}
	var numbers []uint64
	for _, e := range entries {
		digits, ok := strings.CutSuffix(e.Name(), sealed)
		if n, err := strconv.ParseUint(digits, 10, 64); ok && err == nil && sealedName(n) == e.Name() {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// size is how many bytes the folder's files have.
func (s *Spool) size() (total int64, err error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return 0, fmt.Errorf("spool: %w", err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) { // it was sent in between
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("spool: %w", err)
		}
		total += info.Size()
	}
	return total, nil
}

func syncFolder(dir string) error {
	if err := atomicfile.SyncFolder(dir); err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	return nil
}

// checksumSize is the length of a line's beginning: eight hex digits and a space.
const checksumSize = 9

func checksum(text []byte) uint32 { return crc32.Checksum(text, crc32.MakeTable(crc32.Castagnoli)) }

// appendLine appends a prepared attestation. Line breaks between the values of its payload become
// spaces, which mean the same.
func appendLine(dst []byte, a attestd.Attestation) []byte {
	text := a.AppendJSON(nil)
	for i, c := range text {
		if c == '\n' {
			text[i] = ' '
		}
	}
	return append(append(fmt.Appendf(dst, "%08x ", checksum(text)), text...), '\n')
}

// readLine reads a line without its end.
func readLine(line []byte) (a attestd.Attestation, ok bool) {
	if len(line) < checksumSize || line[checksumSize-1] != ' ' {
		return a, false
	}
	want, err := strconv.ParseUint(string(line[:checksumSize-1]), 16, 32)
	text := line[checksumSize:]
	if err != nil || checksum(text) != uint32(want) {
		return a, false
	}
	var read struct {
		AgentID, ActionType, Delegation, IdempotencyKey, Statement string
		Payload                                                    json.RawMessage
	}
	if json.Unmarshal(text, &read) != nil || read.IdempotencyKey+read.Statement == "" {
		return a, false
	}
	a = attestd.Attestation{
		AgentID: read.AgentID, ActionType: read.ActionType, Payload: read.Payload, Delegation: read.Delegation,
		IdempotencyKey: read.IdempotencyKey, Statement: read.Statement,
	}
	a, err = a.Prepare()
	return a, err == nil
}

// isLive reports whether a line is to be sent.
func isLive(line []byte) bool { return len(line) == 0 || line[0] != sentMark }

// lines are the complete lines of a queue, without their ends: what comes after them was never
// acknowledged.
func lines(queue []byte) (list [][]byte) {
	for line := range bytes.Lines(queue) {
		if line, whole := bytes.CutSuffix(line, []byte("\n")); whole {
			list = append(list, line)
		}
	}
	return list
}
