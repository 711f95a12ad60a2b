package export

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"

	"attestd/store/sqlite"
)

// File appends lines to a file, and makes it with mode 0600. When the file was moved or removed, or
// Reopen was called, the next batch goes to a new file of the name. In a file that was truncated,
// the lines start at its beginning.
type File struct {
	path   string
	file   *os.File
	size   int64 // after the last batch
	reopen atomic.Bool
}

// NewFile returns the destination. Exactly one exporter MUST write the file.
func NewFile(path string) *File { return &File{path: path} }

func (f *File) String() string { return "file " + f.path }

// ID implements Destination.
func (f *File) ID() string { return f.String() }

// Reopen makes the next batch go to the file that has the name then. It may be called at any time.
func (f *File) Reopen() { f.reopen.Store(true) }

// Close implements Destination.
func (f *File) Close() error {
	if f.file == nil {
		return nil
	}
	err := f.file.Close()
	f.file = nil
	return err
}

// Prepare implements Destination.
func (f *File) Prepare() (isNew bool, err error) {
	if f.file != nil {
		named, err := os.Stat(f.path)
		if mine, e := f.file.Stat(); err == nil && e == nil && os.SameFile(named, mine) && !f.reopen.Load() {
			isNew = mine.Size() < f.size // it was copied and emptied
			f.size = mine.Size()
			return isNew, nil
		}
		_ = f.Close() // everything in it was synced
	}
	f.reopen.Store(false)
	opened, err := os.OpenFile(f.path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return false, err
	}
	about, err := opened.Stat()
	switch {
	case err != nil:
	case !about.Mode().IsRegular():
		err = fmt.Errorf("%s is no regular file", f.path)
	case sqlite.PermitsOthers(about, 0o022):
		err = fmt.Errorf("others may write %s: take that from them (chmod go-w), or name another file", f.path)
	default:
		err = checkIsExport(opened)
	}
	if err == nil {
		err = endLine(opened, about.Size())
	}
	if err == nil {
		err = syncFolder(filepath.Dir(f.path))
	}
	if err != nil {
		opened.Close()
		return false, err
	}
	f.file, f.size = opened, 0
	return true, nil
}

// beginnings are those of the lines of an export.
var beginnings = [][]byte{[]byte(`{"format":"attestd-lines/v1",`), []byte(`{"metadata":{"version":"`)}

// endLine removes the part of a line at the end of a file, which a killed exporter has left and
// which was not acknowledged. It refuses a file that ends in something else.
func endLine(f *os.File, size int64) error {
	const step = 64 << 10
	end := size // of the part that has no line feed
	for end > 0 {
		from := max(0, end-step)
		part := make([]byte, end-from)
		if _, err := f.ReadAt(part, from); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if at := bytes.LastIndexByte(part, '\n'); at >= 0 {
			end = from + int64(at) + 1
			break
		}
		end = from
	}
	if end == size {
		return nil
	}
	isExport, err := beginsAt(f, end)
	if err != nil {
		return err
	}
	if !isExport {
		return fmt.Errorf("%s does not end in a line of an export: name another file", f.Name())
	}
	return f.Truncate(end)
}

// checkIsExport refuses a file that begins with something else than a line of an export.
func checkIsExport(f *os.File) error {
	isExport, err := beginsAt(f, 0)
	if err == nil && !isExport {
		err = fmt.Errorf("%s does not begin with a line of an export: name another file", f.Name())
	}
	return err
}

// beginsAt reports whether a line of an export, or a part of one, begins at an offset of a file, or
// whether the file ends there.
func beginsAt(f *os.File, offset int64) (bool, error) {
	begin := make([]byte, 32)
	read, err := f.ReadAt(begin, offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	for _, b := range beginnings {
		if n := min(len(b), read); bytes.Equal(b[:n], begin[:n]) {
			return true, nil
		}
	}
	return false, nil
}

// syncFolder makes the name of a new file durable. Not every system can.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	defer folder.Close()
	_ = folder.Sync()
	return nil
}

// Deliver implements Destination.
func (f *File) Deliver(ctx context.Context, b *Batch) error {
	before, err := f.file.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if before < f.size {
		f.size = before
		return fmt.Errorf("%s was emptied", f.path)
	}
	text := make([]byte, 0, b.bytes)
	for _, l := range b.Lines {
		text = append(append(text, l.Text...), '\n')
	}
	if err := b.MayLeave(ctx); err != nil {
		return err
	}
	written, err := f.file.Write(text)
	if err == nil {
		err = f.file.Sync()
	}
	if err != nil {
		// Nothing of it was acknowledged, and it comes again. What another process has appended
		// meanwhile stays.
		if about, e := f.file.Stat(); e == nil && about.Size() == before+int64(written) {
			_ = f.file.Truncate(before)
		}
		_ = f.Close()
		return err
	}
	f.size = before + int64(len(text))
	return nil
}
