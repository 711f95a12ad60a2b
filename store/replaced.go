package store

import (
	"errors"
	"time"
)

// checkpointFrames is the length of the log at which it is moved into the database, as it is
// SQLite's own.
const checkpointFrames = 1000

// look returns nil while the files are in their place and not cut short. When they are not any
// more, it logs so, once, and rescues what the log holds.
func (w *fileWriter) look() error { return w.guard(w.files.Look) }

// check is look, and compares all of the log with its copy.
func (w *fileWriter) check() error {
	if err := w.look(); err != nil {
		return err
	}
	return w.guard(func() error { return w.files.VerifyLog(0) })
}

// committed comes after each commit: it looks whether that stands where the next start looks for
// it, copies what it has added to the log, and moves a log that is long into the database. It
// compares that with its copy before, for SQLite takes whatever stands there.
func (w *fileWriter) committed(now time.Time) error {
	err := w.look()
	if err == nil {
		err = w.guard(w.files.KeepLog)
	}
	if err != nil {
		return err
	}
	from, due := w.files.CheckpointDue(checkpointFrames, now)
	if !due {
		return nil
	}
	if err := w.guard(func() error { return w.files.VerifyLog(from) }); err != nil {
		return err
	}
	// Its error keeps nothing from being durable; the next commit tries again.
	_ = w.conn.one([]any{new(int), new(int), new(int)}, "PRAGMA wal_checkpoint(PASSIVE)")
	w.conn.fatal = nil
	return w.look() // the database is as we have left it
}

// guard returns what a look at the files says, and rescues the log when it is the first that finds
// them changed.
func (w *fileWriter) guard(look func() error) error {
	if err := w.files.Changed(); err != nil {
		return err
	}
	err := look()
	if w.files.Changed() != nil {
		failed := w.rescue()
		w.logger.Error("nothing is written any more until a restart", "error", errors.Join(err, failed), "rescued", w.rescued)
	}
	return err
}

// rescue moves the log of a database that is not in its place into it, wherever it is: then all
// that was acknowledged stands in that one file, and no log is left to meet another file at the
// next start. What was cut off the log is put back before. Where somebody else has written the
// database meanwhile the log no longer fits, and both are left as they are.
func (w *fileWriter) rescue() error {
	if w.rescued || !w.files.Untouched() {
		return nil
	}
	if err := w.files.RestoreLog(); err != nil || w.conn == nil {
		return err
	}
	busy := true
	err := w.conn.one([]any{&busy, new(int), new(int)}, "PRAGMA wal_checkpoint(TRUNCATE)")
	w.conn.fatal = nil
	w.rescued = err == nil && !busy
	return nil
}
