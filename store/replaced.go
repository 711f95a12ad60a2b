package store

// check returns nil while the files are in their place. When they are not any more, it logs so, once, and rescues what the log holds.
func (w *fileWriter) check() error {
	if err := w.files.Changed(); err != nil {
		return err
	}
	err := w.files.Look()
	if w.files.Changed() != nil {
		w.rescue()
		w.logger.Error("nothing is written any more until a restart", "error", err, "rescued", w.rescued)
	}
	return err
}

// rescue moves the log of a database that is not in its place into it, wherever it is: then all that was acknowledged stands in that one
// file, and no log is left to meet another file at the next start. Where somebody else has written the database meanwhile the log
// no longer fits, and both are left as they are.
func (w *fileWriter) rescue() {
	if w.conn == nil || w.rescued || !w.files.Untouched() {
		return
	}
	busy := true
	err := w.conn.one([]any{&busy, new(int), new(int)}, "PRAGMA wal_checkpoint(TRUNCATE)")
	w.conn.fatal = nil
	w.rescued = err == nil && !busy
}
