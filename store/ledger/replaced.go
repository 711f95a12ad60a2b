package ledger

import (
	"errors"
	"time"
)

// checkpointFrames is the length of the write-ahead log at which it is checkpointed into the
// database, the same as SQLite's default.
const checkpointFrames = 1000

// look returns nil while the files are in place and not truncated. When they first are not, it logs
// an error and rescues the content of the log.
func (w *fileWriter) look() error { return w.guard(w.files.Look) }

// check does what look does, and compares the whole log with its copy.
func (w *fileWriter) check() error {
	if err := w.look(); err != nil {
		return err
	}
	return w.guard(func() error { return w.files.VerifyLog(0) })
}

// committed is called after each commit. It checks that the commit is where the next start looks
// for it, copies the new part of the log, and checkpoints a long log. Before the checkpoint it
// compares the log with its copy, because SQLite accepts whatever is there.
func (w *fileWriter) committed(now time.Time) error {
	err := w.look()
	if err == nil {
		err = w.guard(w.files.CopyLog)
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
	// An error of the checkpoint does not affect durability; the next commit tries again.
	_ = w.conn.One([]any{new(int), new(int), new(int)}, "PRAGMA wal_checkpoint(PASSIVE)")
	w.conn.Fatal = nil
	return w.look() // check that the database is as the checkpoint left it
}

// guard returns the result of a check of the files, and rescues the log when they are first found
// changed.
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

// rescue checkpoints the log of a moved database into it, wherever it is. Then that file has
// everything that was acknowledged, and the next start finds no log that belongs to another file.
// It first restores what was cut off the log. If another process has written the database
// meanwhile, the log no longer fits, and both stay as they are.
func (w *fileWriter) rescue() error {
	if w.rescued || !w.files.Untouched() {
		return nil
	}
	if err := w.files.RestoreLog(); err != nil || w.conn == nil {
		return err
	}
	busy := true
	err := w.conn.One([]any{&busy, new(int), new(int)}, "PRAGMA wal_checkpoint(TRUNCATE)")
	w.conn.Fatal = nil
	w.rescued = err == nil && !busy
	return nil
}
