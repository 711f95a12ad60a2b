package store

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
func (s *Store) Close() error {
	if s.closed {
		return nil
	}
	s.closed = true
	s.close()
	if s.log != nil {
		s.log.Close()
		if s.heads != nil {
			_ = s.heads.close() // the head file may be behind; the next start updates it
		}
		if errors.Is(s.storage.check(), db.ErrFileChanged) {
			return s.closeChanged(s.storage.(*fileWriter))
		}
	}
	return s.closeAll()
}

func (s *Store) closeAll() error {
	errs := []error{s.CloseConnections()}
	if s.storage != nil {
		errs = append(errs, s.storage.close())
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Unlock())
	}
	return errors.Join(errs...)
}

// closeChanged closes a store whose files were moved or replaced. If the log could not be rescued,
// everything stays as it is and the connections end with the process, because SQLite would move and
// delete files by name.
func (s *Store) closeChanged(w *fileWriter) error {
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
	err := errors.Join(w.files.Changed(), s.closeAll())
	if ownsLog { // and is empty; SQLite does not remove it when the database has moved
		if gone := os.Remove(s.Path() + "-wal"); !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	}
	return err
}
