package ledger

import (
	"errors"
	"time"

	"attestd/store/db"
	"attestd/store/sqlite"
)

const (
	probeEvery = time.Second // interval of attempts to write to a failed disk
	probeBytes = 1 << 20     // free space that an attempt requires
)

// fail records that a transaction was lost because of the disk. The server is not ready until a
// commit succeeds.
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

// works clears the failure after a commit that has written something.
func (w *fileWriter) works() {
	w.reread = false
	if w.failed != nil {
		w.logger.Info("the database can be written again")
	}
	w.failed = nil
}

// probe checks, once a second at most, whether a failed disk works again. It needs room for more
// than a page, because a transaction without changes does not use the disk, and a single page may
// fit where no record does.
func (w *fileWriter) probe() error {
	if w.failed == nil {
		return nil
	}
	if time.Since(w.probed) < probeEvery {
		return w.failed
	}
	w.probed = time.Now()
	if err := sqlite.ProbeRoom(w.path, probeBytes); err != nil {
		return errors.Join(db.ErrUnavailable, err)
	}
	return nil
}
