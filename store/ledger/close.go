package ledger

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"attestd/store/db"
	"attestd/store/sqlite"
)

// Close stops Run if it is running, checkpoints the write-ahead log and releases the lock. The
// caller MUST NOT run another method at the same time. ErrFileChanged means that the database file
// or its log was moved or replaced, so the next start may not find everything.
func (l *Ledger) Close() error {
	if l.closed {
		return nil
	}
	l.closed = true
	l.close()
	if l.log != nil {
		l.log.Close()
		if l.guard != nil {
			_ = l.guard.Close() // the head file may be behind; the next start updates it
		}
		if errors.Is(l.storage.check(), db.ErrFileChanged) {
			return l.closeChanged(l.storage.(*fileWriter))
		}
	}
	return l.closeAll()
}

func (l *Ledger) closeAll() error {
	errs := []error{l.CloseConnections()}
	if l.storage != nil {
		errs = append(errs, l.storage.close())
	}
	if l.lock != nil {
		errs = append(errs, l.lock.Unlock())
	}
	return errors.Join(errs...)
}

// closeChanged closes a store whose files were moved or replaced. If the log could not be rescued,
// everything stays as it is and the connections end with the process, because SQLite would move and
// delete files by name.
func (l *Ledger) closeChanged(w *fileWriter) error {
	failed := w.rescue()
	if !w.rescued {
		return errors.Join(fmt.Errorf("%w, and what its log holds could not be moved into it", w.files.Changed()), failed)
	}
	ownsLog := w.files.OwnsLog()
	if !ownsLog {
		if err := sqlite.PersistLog(w.conn.SQL); err != nil {
			return errors.Join(w.files.Changed(), err)
		}
	}
	err := errors.Join(w.files.Changed(), l.closeAll())
	if ownsLog { // and is empty; SQLite does not remove it when the database has moved
		if gone := os.Remove(l.Path() + "-wal"); !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	}
	return err
}
