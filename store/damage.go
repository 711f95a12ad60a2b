package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"attestd/chain"
	"attestd/store/sqlite"
)

const (
	lookEvery    = 2 * time.Second // how often a file is looked at that nobody writes
	examineAgain = time.Second     // from one examination of a database to the next
	// damage that is met again within that time is no passing failure
	damageStays = time.Minute
)

// isDamage: SQLite calls the database corrupt. It says so of a disk that cannot be read too.
func isDamage(err error) bool { return sqlite.ClassOf(err) == sqlite.Corrupt }

// readAgain opens a database once more where SQLite calls it corrupt: one read that fails is no
// damage. ErrUnavailable where the disk cannot be read.
func readAgain(ctx context.Context, path string, open func() (*Store, error)) (*Store, error) {
	s, err := open()
	if isDamage(err) {
		if err = sqlite.ReadError(ctx, path, err); isDamage(err) {
			s, err = open()
			err = sqlite.ReadError(ctx, path, err)
		}
	}
	return s, err
}

// damaged says what a request of a running server gets that has met damage. Until it is examined
// whether that is of the database or of the disk, it is ErrUnavailable too.
func (s *Store) damaged(err error) error {
	if reason := s.writer.stopped.Load(); reason != nil && errors.Is(*reason, ErrDamaged) {
		return err
	}
	select {
	case s.suspected <- err:
	default: // another is to be examined
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// suspect makes a transaction that meets damage be done again, once.
func (w *fileWriter) suspect(err error) error {
	if !w.reread {
		w.reread = true
		return fmt.Errorf("%w: %w", chain.ErrAgain, err)
	}
	return w.damaged(err)
}

// guardFile looks at the files of a database that nobody writes, finds out whether a disk that
// failed works again, and examines what is suspected, until ctx is done.
func (s *Store) guardFile(ctx context.Context) {
	looks := time.NewTicker(lookEvery)
	defer looks.Stop()
	var x examination
	for {
		select {
		case <-ctx.Done():
			return
		case <-looks.C:
			_ = s.Ready(ctx) // what it finds stays, and is logged there
		case err := <-s.suspected:
			if time.Since(x.ended) >= examineAgain {
				x.examine(ctx, s, err)
			}
		}
	}
}

// examination finds out why SQLite calls a database corrupt. Its goroutine is that of guardFile.
type examination struct {
	ended    time.Time
	readable bool // by then
}

// examine compares the log with its copy, which puts back what is no longer there. Then it reads
// the files through: where the disk cannot be read, that may pass. Where it can, and damage is met
// once more, that is the database's, and nothing is written any more.
func (x *examination) examine(ctx context.Context, s *Store, met error) {
	w := s.storage.(*fileWriter)
	w.doubted.Store(true)
	if err := s.Ready(ctx); ctx.Err() != nil || errors.Is(err, ErrFileChanged) {
		return
	}
	if x.readable && time.Since(x.ended) < damageStays {
		if reason := fmt.Errorf("%w: %w", ErrDamaged, met); s.StopWrites(reason) {
			w.logger.Error("nothing is written any more until a restart", "error", reason)
		}
		return
	}
	err := sqlite.ReadError(ctx, s.path, met)
	if x.readable = isDamage(err); ctx.Err() == nil {
		w.logger.Error("a read has failed", "error", err, "readable", x.readable)
	}
	select {
	case <-s.suspected: // by a request that was under way
	default:
	}
	x.ended = time.Now()
}
