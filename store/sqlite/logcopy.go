package sqlite

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"time"
)

// maxLogCopy bounds the copy of the log. A log usually has 4 MiB, and grows during a long read such
// as a backup. A longer log is not copied.
const maxLogCopy = 64 << 20

// https://www.sqlite.org/fileformat2.html#walformat
const (
	logHeader   = 32
	frameHeader = 24
)

// logCopy is a copy, in memory, of the write-ahead log up to its last commit. SQLite appends after
// the end that it remembers, whatever happens to the file before it, and checkpoints what it finds
// there. So a truncated or overwritten log would damage the database. The copy makes it possible to
// detect and restore that.
//
// It is owned by the goroutine of the writer. The two files stay open until SQLite has closed the
// database.
type logCopy struct {
	log, index *os.File
	bytes      []byte     // empty if the log is too long
	of         indexState // state that bytes belongs to
	now        indexState // state that Look has found
	ok         bool       // now is valid
	last       []byte     // buffer for the last frame

	compared   uint32 // frames that were compared before a checkpoint
	comparedAt time.Time
}

// openLogCopy returns nil if the system does not allow opening these files while SQLite has them
// open, or if they do not exist.
func openLogCopy(path string) *logCopy {
	if runtime.GOOS == "windows" {
		return nil
	}
	log, err := os.OpenFile(path+"-wal", os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	index, err := os.OpenFile(path+"-shm", os.O_RDWR, 0)
	if err != nil {
		log.Close()
		return nil
	}
	return &logCopy{log: log, index: index}
}

func (c *logCopy) close() error {
	if c == nil {
		return nil
	}
	return errors.Join(c.log.Close(), c.index.Close())
}

// HasLogCopy reports whether there is a copy of the log to compare with before a checkpoint.
func (f *Files) HasLogCopy() bool { return f.copy != nil }

// CopyLog copies what a commit has added to the log. The caller MUST call Look first. It returns
// ErrFileChanged if the log was altered.
func (f *Files) CopyLog() error {
	c := f.copy
	if f.changed != nil || c == nil {
		return f.changed
	}
	now := c.now
	if !c.ok || now.sameLog(c.of) {
		return nil
	}
	end := now.logSize()
	if end > maxLogCopy || now.frames == 0 {
		c.of, c.bytes = now, c.bytes[:0]
		return nil
	}
	known := int64(len(c.bytes))
	if known == 0 || now.salt != c.of.salt || now.frames < c.of.frames {
		known, c.compared = 0, 0
	}
	err := c.read(known, end)
	if err == nil && now.holds(c.bytes[known:], known) {
		c.of = now
		return nil
	}
	c.bytes = c.bytes[:known]
	if isUnread(err) { // the next commit copies it too
		return nil
	}
	if again, ok := c.state(); !ok || again != now { // another process is writing
		return nil
	}
	return f.overwritten()
}

// read extends the copy by the content of the log from known, where the copy ends, to end. It
// checks that the last copied frame is unchanged, because a truncated part reads as zeros.
func (c *logCopy) read(known, end int64) error {
	c.bytes = slices.Grow(c.bytes[:known], int(end-known))[:end]
	if _, err := c.log.ReadAt(c.bytes[known:], known); err != nil || known == 0 {
		return err
	}
	c.last = slices.Grow(c.last[:0], int(c.of.frameSize()))[:c.of.frameSize()]
	from := known - c.of.frameSize()
	if _, err := c.log.ReadAt(c.last, from); err != nil {
		return err
	}
	if !bytes.Equal(c.last, c.bytes[from:known]) {
		return errLogLost
	}
	return nil
}

// isUnread reports whether a read failed because of the disk, which says nothing about the content.
// A read of a truncated file ends with io.EOF.
func isUnread(err error) bool {
	return err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, errLogLost)
}

// VerifyLog compares the log from a frame on with its copy. It returns ErrFileChanged if they
// differ.
func (f *Files) VerifyLog(frames uint32) error {
	c := f.copy
	if f.changed != nil || c == nil || len(c.bytes) == 0 {
		return f.changed
	}
	now, ok := c.state()
	if !ok || now.salt != c.of.salt || now.frames < c.of.frames {
		return nil
	}
	start := int64(0)
	if frames > 0 {
		start = min(now.sizeOf(frames), int64(len(c.bytes)))
	}
	for part := make([]byte, 256<<10); start < int64(len(c.bytes)); {
		part = part[:min(int64(len(part)), int64(len(c.bytes))-start)]
		_, err := c.log.ReadAt(part, start)
		if isUnread(err) {
			return fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		if err != nil || !bytes.Equal(part, c.bytes[start:start+int64(len(part))]) {
			if again, ok := c.state(); !ok || again.salt != now.salt {
				return nil
			}
			return f.overwritten()
		}
		start += int64(len(part))
	}
	return nil
}

func (f *Files) overwritten() error {
	f.damaged = true
	f.changed = fmt.Errorf("%w: %s-wal was cut short or overwritten", ErrFileChanged, f.path)
	return f.changed
}

// compareAgain is how long the result of a comparison stays valid. While a reader blocks the
// checkpoint of a long log, each commit tries one.
const compareAgain = time.Second

// CheckpointDue reports whether the log has enough frames for a checkpoint, and from which frame it
// must be verified before. The caller MUST call Look first.
func (f *Files) CheckpointDue(frames uint32, at time.Time) (from uint32, due bool) {
	c := f.copy
	if c == nil {
		return 0, false // SQLite makes its checkpoints itself
	}
	now := c.now
	if !c.ok || now.frames < frames || now.moved >= now.frames {
		return 0, false
	}
	from = now.moved
	if at.Sub(c.comparedAt).Abs() < compareAgain {
		from = max(from, c.compared)
	} else {
		c.comparedAt = at
	}
	c.compared = now.frames
	return from, true
}

var errLogLost = errors.New("what the write-ahead log held cannot be put back")

// RestoreLog restores the truncated or overwritten part of the log. What was committed after the
// copy was made stays if it is intact. Otherwise it was never acknowledged, and the log ends before
// it.
func (f *Files) RestoreLog() error {
	c := f.copy
	if !f.damaged {
		return nil
	}
	if c == nil || len(c.bytes) == 0 {
		return errLogLost
	}
	now, ok := c.state()
	if !ok || now.salt != c.of.salt || now.frames < c.of.frames {
		return errLogLost
	}
	if _, err := c.log.WriteAt(c.bytes, 0); err != nil {
		return err
	}
	rest := make([]byte, now.logSize()-int64(len(c.bytes)))
	_, err := c.log.ReadAt(rest, int64(len(c.bytes)))
	if isUnread(err) {
		return err
	}
	if err != nil || !c.continues(rest) {
		if err := c.log.Truncate(int64(len(c.bytes))); err != nil {
			return err
		}
		// Without its header, SQLite rebuilds the index from the log, as after a crash.
		if _, err := c.index.WriteAt(make([]byte, 2*indexHeader), 0); err != nil {
			return err
		}
	}
	f.damaged = false
	return c.log.Sync()
}

// continues verifies the checksums of frames that follow the copy.
func (c *logCopy) continues(frames []byte) bool {
	var order binary.ByteOrder = binary.LittleEndian
	if c.bytes[3]&1 == 1 {
		order = binary.BigEndian
	}
	size := int(c.of.frameSize())
	last := c.bytes[len(c.bytes)-size:]
	a, b := binary.BigEndian.Uint32(last[16:]), binary.BigEndian.Uint32(last[20:])
	sum := func(data []byte) {
		for ; len(data) > 0; data = data[8:] {
			a += order.Uint32(data) + b
			b += order.Uint32(data[4:]) + a
		}
	}
	for ; len(frames) > 0; frames = frames[size:] {
		sum(frames[:8])
		sum(frames[frameHeader:size])
		if a != binary.BigEndian.Uint32(frames[16:]) || b != binary.BigEndian.Uint32(frames[20:]) {
			return false
		}
	}
	return true
}
