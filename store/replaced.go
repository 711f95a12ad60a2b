package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// files are the database and its write-ahead log as the writer opened them. SQLite goes on with what it has opened, wherever that
// was moved and whatever stands in its place; the next start opens what stands there. So a write counts only while both are one.
type files struct {
	path    string
	open    *os.File    // the database, wherever it is
	db      os.FileInfo // as it was when it was last in its place
	log     os.FileInfo // as it was opened
	changed error       // ErrFileChanged, from the time when one was not in its place
}

func openFiles(path string) (f *files, err error) {
	f = &files{path: path}
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
	return f, nil
}

// look compares both files with those that were opened and sets changed for good when one is another or none. Any other error is of looking.
func (f *files) look() error {
	now, err := os.Stat(f.path)
	same := err == nil && os.SameFile(now, f.db)
	if err := f.judge(f.path, same, err); err != nil {
		return err
	}
	f.db = now
	same, err = sameFile(f.path+"-wal", f.log)
	return f.judge(f.path+"-wal", same, err)
}

func (f *files) judge(path string, same bool, err error) error {
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

// untouched reports whether nobody else has written the database since it was last in its place: neither itself nor, where the system
// tells its new name, a log beside that.
func (f *files) untouched() bool {
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

// ownsLog reports whether the log that we opened has its name still.
func (f *files) ownsLog() bool {
	now, err := os.Stat(f.path + "-wal")
	return err == nil && os.SameFile(now, f.log)
}

func (f *files) close() error { return f.open.Close() }

// check returns nil while the files are in their place. When they are not any more, it logs so, once, and rescues what the log holds.
func (w *fileWriter) check() error {
	if w.files.changed != nil {
		return w.files.changed
	}
	err := w.files.look()
	if w.files.changed != nil {
		w.rescue()
		w.logger.Error("nothing is written any more until a restart", "error", err, "rescued", w.rescued)
	}
	return err
}

// rescue moves the log of a database that is not in its place into it, wherever it is: then all that was acknowledged stands in that one
// file, and no log is left to meet another file at the next start. Where somebody else has written the database meanwhile the log
// no longer fits, and both are left as they are.
func (w *fileWriter) rescue() {
	if w.conn == nil || w.rescued || !w.files.untouched() {
		return
	}
	busy := true
	err := w.conn.one([]any{&busy, new(int), new(int)}, "PRAGMA wal_checkpoint(TRUNCATE)")
	w.conn.fatal = nil
	w.rescued = err == nil && !busy
}
