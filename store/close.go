package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"attestd/store/sqlite"
)

// Close ends Run where it still runs, checkpoints the write-ahead log and releases the lock. No
// other method may be running. ErrFileChanged when file or log were moved or replaced, for then not
// everything may be where the next start looks.
func (s *Store) Close() error {
	if s.closed {
		return nil
	}
	s.closed = true
	s.close()
	if s.log != nil {
		s.log.Close()
		if s.heads != nil {
			_ = s.heads.close() // a head file may be behind, and the next start brings it up
		}
		if errors.Is(s.storage.check(), ErrFileChanged) {
			return s.closeChanged(s.storage.(*fileWriter))
		}
	}
	return s.closeAll()
}

func (s *Store) closeAll() error {
	var errs []error
	for len(s.idle) > 0 {
		if c := <-s.idle; c.sql != nil {
			errs = append(errs, c.close())
		}
	}
	if s.side != nil {
		s.side.Close()
		s.spending.Close()
	}
	if s.db != nil {
		errs = append(errs, s.db.Close())
	}
	if s.storage != nil {
		errs = append(errs, s.storage.close())
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Unlock())
	}
	return errors.Join(errs...)
}

// closeChanged is the end of a store whose files are not in their place. What could not be rescued
// stays as it is: the connections end with the process, for SQLite would move and delete by name.
func (s *Store) closeChanged(w *fileWriter) error {
	failed := w.rescue()
	if !w.rescued {
		return errors.Join(fmt.Errorf("%w, and what its log holds could not be moved into it", w.files.Changed()), failed)
	}
	ownsLog := w.files.OwnsLog()
	if !ownsLog {
		if err := sqlite.KeepLog(w.conn.sql); err != nil {
			return errors.Join(w.files.Changed(), err)
		}
	}
	err := errors.Join(w.files.Changed(), s.closeAll())
	if ownsLog { // and empty; SQLite keeps it where the database is not
		if gone := os.Remove(s.path + "-wal"); !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	}
	return err
}
