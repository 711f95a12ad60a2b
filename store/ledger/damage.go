package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"attestd/chain"
	"attestd/store/db"
	"attestd/store/sqlite"
)

const (
	LookEvery    = 2 * time.Second // interval of checks of a file without writes
	examineAgain = time.Second     // minimum time between two examinations of a database
	// damage that is found again within this time is not transient
	damageStays = time.Minute
)

// damaged returns the error of a request that has met damage. It is ErrUnavailable until an
// examination has shown that the database is damaged, and not only the disk unreadable.
func (l *Ledger) damaged(err error) error {
	if reason := l.writer.stopped.Load(); reason != nil && errors.Is(*reason, db.ErrDamaged) {
		return err
	}
	select {
	case l.suspected <- err:
	default: // another error is waiting for examination
	}
	return fmt.Errorf("%w: %w", db.ErrUnavailable, err)
}

// retryOnDamage makes a transaction that meets damage run again, once.
func (w *fileWriter) retryOnDamage(err error) error {
	if !w.reread {
		w.reread = true
		return fmt.Errorf("%w: %w", chain.ErrTransactionLost, err)
	}
	return w.damaged(err)
}

// guardFile checks the files of a database between writes, detects when a failed disk works again,
// and examines suspected damage, until ctx is done.
func (l *Ledger) guardFile(ctx context.Context) {
	looks := time.NewTicker(LookEvery)
	defer looks.Stop()
	var x examination
	for {
		select {
		case <-ctx.Done():
			return
		case <-looks.C:
			_ = l.Ready(ctx) // Ready logs what it finds, and remembers it
		case err := <-l.suspected:
			if time.Since(x.ended) >= examineAgain {
				x.examine(ctx, l, err)
			}
		}
	}
}

// examination finds out why SQLite calls a database corrupt. It is used by the goroutine of
// guardFile.
type examination struct {
	ended    time.Time
	readable bool // the files were readable at that time
}

// examine compares the log with its copy, which restores missing parts. Then it reads all files. If
// the disk cannot be read, the failure may pass. If it can, and damage is met again, the database
// is damaged and writes stop.
func (x *examination) examine(ctx context.Context, l *Ledger, met error) {
	w := l.storage.(*fileWriter)
	w.doubted.Store(true)
	if err := l.Ready(ctx); ctx.Err() != nil || errors.Is(err, db.ErrFileChanged) {
		return
	}
	if x.readable && time.Since(x.ended) < damageStays {
		if reason := fmt.Errorf("%w: %w", db.ErrDamaged, met); l.StopWrites(reason) {
			w.logger.Error("nothing is written any more until a restart", "error", reason)
		}
		return
	}
	err := sqlite.ReadError(ctx, l.Path(), met)
	if x.readable = db.IsDamage(err); ctx.Err() == nil {
		w.logger.Error("a read failed", "error", err, "readable", x.readable)
	}
	select {
	case <-l.suspected: // from a request that was running
	default:
	}
	x.ended = time.Now()
}
