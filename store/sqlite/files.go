package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Files are the database and its write-ahead log as the writer opened them. SQLite goes on with
// what it has opened, wherever that was moved and whatever stands in its place; the next start
// opens what stands there. So a write counts only while both are one.
type Files struct {
	path    string
	open    *os.File    // the database, wherever it is
	db      os.FileInfo // as it was when it was last in its place
	log     os.FileInfo // as it was opened
	changed error       // ErrFileChanged, once one was not in its place, or not what it was
	copy    *logCopy    // nil where there can be none
	damaged bool        // the log was cut short or overwritten, and is not put back
}

// OpenFiles looks at the database at path and its log, which a connection to it must have opened.
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
		err = f.KeepLog()
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Look compares both files with those that were opened. When one is another or none, or shorter
// than SQLite believes, that is ErrFileChanged, and Changed returns it for good. Any other error is
// of looking: ErrUnavailable.
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

// measure compares the sizes of both files with what the index of the log says. Another process may
// change all of them between two looks; a shortage counts that stays.
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

// Changed is what Look found when one of the files was not in its place, and nil while both are.
func (f *Files) Changed() error { return f.changed }

// Untouched reports whether nobody else has written the database since it was last in its place:
// neither itself nor, where the system tells its new name, a log beside that.
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

// OwnsLog reports whether the log that we opened has its name still.
func (f *Files) OwnsLog() bool {
	now, err := os.Stat(f.path + "-wal")
	return err == nil && os.SameFile(now, f.log)
}

// Close closes the files by which the database was held. It is called when SQLite has closed the
// database.
func (f *Files) Close() error { return errors.Join(f.open.Close(), f.copy.close()) }
