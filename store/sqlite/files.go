package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Files are the database and its write-ahead log as the writer has opened them. SQLite continues to
// use the open files, even if they are moved or replaced, but the next start opens the files at the
// original paths. So a write counts only while these are the same files.
type Files struct {
	path    string
	open    *os.File    // the database, wherever it is
	db      os.FileInfo // when it was last in place
	log     os.FileInfo // when it was opened
	changed error       // ErrFileChanged once a file was not in place, or was altered
	copy    *logCopy    // nil if a copy is impossible
	damaged bool        // the log was truncated or overwritten, and not restored
}

// OpenFiles examines the database at path and its log, which an open connection must have.
func OpenFiles(path string) (f *Files, err error) {
	f = &Files{path: path}
	if f.open, err = os.Open(path); err != nil {
		return nil, err
	}
	if f.db, err = f.open.Stat(); err == nil {
		f.log, err = os.Stat(path + "-wal")
	}
	if err != nil {
		f.open.Close()
		return nil, err
	}
	f.copy = openLogCopy(path)
	if err = f.Look(); err == nil {
		err = f.CopyLog()
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Look compares both files with those that were opened. If one was replaced or removed, or is
// shorter than SQLite believes, it returns ErrFileChanged, and Changed returns that permanently. If
// the files cannot be examined, it returns ErrUnavailable.
func (f *Files) Look() error {
	now, err := os.Stat(f.path)
	same := err == nil && os.SameFile(now, f.db)
	if err := f.judge(f.path, same, err); err != nil {
		return err
	}
	same, logSize, err := lookAt(f.path+"-wal", f.log)
	if f.copy == nil || now.Size() >= f.db.Size() {
		f.db = now
	}
	if err := f.judge(f.path+"-wal", same, err); err != nil || f.copy == nil {
		return err
	}
	return f.measure(now, logSize)
}

// measure compares the sizes of both files with the index of the log. Another process may change
// all of them between two reads, so only a difference that persists counts.
func (f *Files) measure(now os.FileInfo, logSize int64) error {
	for range 3 {
		s, ok := f.copy.state()
		if f.copy.now, f.copy.ok = s, ok; !ok {
			return nil
		}
		cut := now.Size() < min(f.db.Size(), int64(s.pages)*s.pageSize)
		if !cut {
			f.db = now
			if logSize >= s.logSize() {
				return nil
			}
		}
		again, err := os.Stat(f.path)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		log, err := f.copy.log.Stat()
		if err != nil {
			return fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		if same, ok := f.copy.state(); ok && same == s && again.Size() == now.Size() && log.Size() == logSize {
			if !cut {
				return f.overwritten()
			}
			f.changed = fmt.Errorf("%w: %s was cut short", ErrFileChanged, f.path)
			return f.changed
		}
		now, logSize = again, log.Size()
	}
	return nil
}

func (f *Files) judge(path string, same bool, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.changed = fmt.Errorf("%w: %s was moved or deleted", ErrFileChanged, path)
	case err != nil:
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	case !same:
		f.changed = fmt.Errorf("%w: another file stands at %s", ErrFileChanged, path)
	}
	return f.changed
}

// Changed returns the ErrFileChanged that Look found, or nil.
func (f *Files) Changed() error { return f.changed }

// Untouched reports whether no other process has written the database since it was last in place:
// neither the file itself nor, if the system reveals its new name, a log next to it.
func (f *Files) Untouched() bool {
	now, err := f.open.Stat()
	if err != nil || !now.ModTime().Equal(f.db.ModTime()) || now.Size() != f.db.Size() {
		return false
	}
	name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.open.Fd()))
	if err != nil || name == f.path {
		return true
	}
	log, err := os.Stat(name + "-wal")
	return err != nil || os.SameFile(log, f.log)
}

// OwnsLog reports whether the opened log still has its name.
func (f *Files) OwnsLog() bool {
	now, err := os.Stat(f.path + "-wal")
	return err == nil && os.SameFile(now, f.log)
}

// Close closes the files. The caller MUST call it after SQLite has closed the database.
func (f *Files) Close() error { return errors.Join(f.open.Close(), f.copy.close()) }
