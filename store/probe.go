package store

import (
	"errors"
	"time"

	"attestd/store/sqlite"
)

const (
	probeEvery = time.Second // between two attempts to write on a disk that has failed
	probeBytes = 1 << 20     // for which there must be room then
)

// fail keeps in mind that a transaction was lost to the disk: the server is not ready until one is
// durable again.
func (w *fileWriter) fail(err error) {
	switch sqlite.ClassOf(err) {
	case sqlite.Full, sqlite.Unavailable:
	default:
		return
	}
	if w.failed == nil {
		w.logger.Error("the database cannot be written; not ready until it can", "error", err)
	}
	w.failed = err
}

// works ends that, after a commit that has written something.
func (w *fileWriter) works() {
	w.reread = false
	if w.failed != nil {
		w.logger.Info("the database can be written again")
	}
	w.failed = nil
}

// probe finds out, once a second at most, whether a disk that has failed works again. A transaction
// without changes says nothing of a disk, and one small page may find room where no record does.
func (w *fileWriter) probe() error {
	if w.failed == nil {
		return nil
	}
	if time.Since(w.probed) < probeEvery {
		return w.failed
	}
	w.probed = time.Now()
	if err := sqlite.ProbeRoom(w.path, probeBytes); err != nil {
		return errors.Join(ErrUnavailable, err)
	}
	return nil
}
