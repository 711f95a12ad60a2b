package spool

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"attestd/crypto/statement"
	"attestd/internal/regular"
)

// sentMark is the first byte of a line that was sent by who added it. No checksum begins with it.
const sentMark = 'x'

// queued is a line in the queue that is being added to.
type queued struct {
	at   int64
	text []byte
}

// appendSigned adds the line of a statement, and then its place to the file of its session. A
// process that is killed in between leaves a last line without its place, which repair adds.
//
// known is the size of that file as the caller has read it. With another one since, nothing is
// added, and the error is errPlacesChanged.
func (s *Spool) appendSigned(line []byte, path string, p place, known int64) (queued, error) {
	lock := s.lock(addLock)
	if err := lock.Lock(); err != nil {
		return queued{}, fmt.Errorf("spool: %w", err)
	}
	defer lock.Unlock()
	if size, err := completeSize(path); err != nil || size != known {
		return queued{}, cmp.Or(err, errPlacesChanged)
	}
	size, err := s.size()
	if err != nil {
		return queued{}, err
	}
	if size += int64(len(line)); size > s.Limit {
		return queued{}, fmt.Errorf("%w: %s holds %d bytes of %d", ErrFull, s.dir, size-int64(len(line)), s.Limit)
	}
	if err := s.appendLines(line); err != nil {
		return queued{}, fmt.Errorf("spool: %w", err)
	}
	info, err := os.Stat(s.path(current))
	if err == nil {
		err = appendPlace(path, p)
	}
	if err != nil {
		// Without its place the number would be used twice.
		return queued{}, errors.Join(err, s.withdrawLine(line))
	}
	return queued{info.Size() - int64(len(line)), line}, nil
}

// errPlacesChanged reports that a file of places is not as it was.
var errPlacesChanged = errors.New("spool: the places of the session have changed")

// completeSize is the size of a file's complete lines; 0 where there is no file.
func completeSize(path string) (int64, error) {
	f, err := regular.Open(path, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("spool: %w", err)
	}
	defer f.Close()
	return completeLines(f)
}

// withdrawLine takes back the last line. The caller holds the lock to add.
func (s *Spool) withdrawLine(line []byte) error {
	info, err := os.Stat(s.path(current))
	if err != nil {
		return err
	}
	return os.Truncate(s.path(current), info.Size()-int64(len(line)))
}

// repair adds the place of the last line of the queue to the file of its session, where a process
// was killed before it had.
func (s *Spool) repair() error {
	lock := s.lock(addLock)
	if err := lock.Lock(); err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	defer lock.Unlock()
	return s.repairLocked()
}

// repairLocked is repair of a caller that holds the lock to add.
func (s *Spool) repairLocked() error {
	f, err := regular.Open(s.path(current), os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	defer f.Close()
	end, err := completeLines(f)
	if err != nil || end == 0 {
		return err
	}
	compact := lastStatement(f, end)
	if compact == "" {
		return nil
	}
	made, err := statement.Parse(compact)
	if err != nil || made.Session == "" {
		return nil // by another program
	}
	p, path := newPlace(made), s.placesOf(made.KeyID, made.Session)
	known, err := readPlaces(path)
	if err != nil {
		return err
	}
	if last := known.newest(); last != nil && !p.after(*last) {
		return nil
	}
	if err := s.makeSessions(); err != nil {
		return err
	}
	return appendPlace(path, p)
}

// lastStatement is the statement with which the line that ends there ends, or "".
func lastStatement(f io.ReaderAt, end int64) string {
	const begins, ends = `,"statement":"`, "\"}\n"
	part := make([]byte, min(end, statement.MaxSize+int64(len(begins)+len(ends))))
	if _, err := f.ReadAt(part, end-int64(len(part))); err != nil && err != io.EOF {
		return ""
	}
	text, ok := bytes.CutSuffix(part, []byte(ends))
	at := bytes.LastIndex(text, []byte(begins))
	if !ok || at < 0 {
		return ""
	}
	return string(text[at+len(begins):])
}

// holds reports whether a line is still in the queue that is being added to. The caller holds the
// lock to add.
func (s *Spool) holds(q queued) bool {
	f, err := regular.Open(s.path(current), os.O_RDONLY, 0)
	if err != nil {
		return false // it is being sent by a Flush
	}
	defer f.Close()
	text := make([]byte, len(q.text))
	_, err = f.ReadAt(text, q.at)
	return err == nil && bytes.Equal(text, q.text)
}

// markSent takes a line out of the queue, if it is still there: lines at the end are removed, and
// others get a mark. Where it fails, the line is sent again, which makes no second record.
func (s *Spool) markSent(q queued) {
	lock := s.lock(addLock)
	if lock.Lock() == nil {
		s.markSentLocked(q)
		_ = lock.Unlock()
	}
}

// markSentLocked is markSent of a caller that holds the lock to add.
func (s *Spool) markSentLocked(q queued) {
	if !s.holds(q) {
		return
	}
	f, err := regular.Open(s.path(current), os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err != nil {
		return
	}
	text[q.at] = sentMark
	end, live := int64(0), int64(0)
	for line := range bytes.Lines(text) {
		if end += int64(len(line)); isLive(line) && line[len(line)-1] == '\n' {
			live = end
		}
	}
	if live <= q.at {
		_ = f.Truncate(live)
		return
	}
	_, _ = f.WriteAt(text[q.at:q.at+1], q.at)
}
