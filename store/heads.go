package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"attestd/internal/wake"
	"attestd/store/db"
	"attestd/store/headfile"
	"attestd/store/ledger"
	"attestd/store/sqlite"
)

const (
	// between two writes: waking up for each commit would cost a single caller a twentieth of its
	// rate
	headsRest = 10 * time.Millisecond
	// between two reads of what other servers have appended, where no file is to be written
	memoryRest = time.Second
	// until a failed write of the head file is retried
	headsAgain    = 10 * time.Second
	headsPatience = 5 * time.Second // time limit of the last write, when the store closes
	// until a failed comparison with the database is retried
	compareAgain = time.Second
)

// heads knows what this server has committed and read, and keeps the head file up to date with it.
// Without a head file it knows that as long as the server runs, of at most maxPins chains, which is
// enough to notice that a lost connection has led to another copy of the database.
//
// It remembers what the log has committed, and a separate
// goroutine writes it, at once or together with what arrives within headsRest. So a full, failing
// or hanging disk under the head file never delays an append. The file may be behind for that
// moment, and is never ahead.
//
// An entry of the file changes only to a tree of which the old one is a prefix. Either this server
// has built one on the other, or a proof from the database shows it. After a lost connection,
// everything in the file and in memory is compared again. If something is missing, neither the
// database nor the file is written any more.
type heads struct {
	rollback Rollback
	path     string // "" without a head file
	id       headfile.ID
	// nil if it could not be created; owned by the goroutine of run once that is started
	file    *headfile.File
	failing atomic.Bool

	wake  wake.Signal   // set if there may be something to write
	stop  chan struct{} // closed when nothing more will come
	ended chan struct{} // closed when run has returned
	// cancels the reads of run; set by start
	abandon context.CancelFunc

	proofs proofPace // owned by the goroutine of run

	wentBack func(chains []int64) // called for chains that were rolled back; set before start

	mu       sync.Mutex
	lost     map[int64]headfile.Tree // trees that are known and missing from the database
	started  bool                    // run was called
	closed   bool                    // run must not be started any more
	pins     map[int64]*pin          // known trees of chains
	due      map[int64]*pin          // trees to write to the file
	unread   map[int64]bool          // chains that other servers have extended since they were read
	cosigned []cosigning             // requests of cosigners that wait
	// ID of the connection that writes; the next one may be to another copy of the database
	session atomic.Int64
	// another process has written the database since the last write, or another copy may have
	// replaced it
	external atomic.Bool
}

// cosigning is a cosigned tree of another log, with the caller that waits until the file has it.
type cosigning struct {
	headfile.Cosigned
	done chan error // has a buffer of one
}

func newHeads(s Rollback, path string, id headfile.ID, file *headfile.File) *heads {
	h := &heads{
		rollback: s, path: path, id: id, file: file, pins: map[int64]*pin{}, due: map[int64]*pin{}, unread: map[int64]bool{},
		lost: map[int64]headfile.Tree{}, wentBack: func([]int64) {},
		wake: wake.NewSignal(), stop: make(chan struct{}), ended: make(chan struct{}),
	}
	h.failing.Store(file == nil && h.hasFile())
	return h
}

// hasFile reports whether the database has a head file.
func (h *heads) hasFile() bool { return h != nil && h.path != "" }

// Start starts the goroutine that writes the file until close.
func (h *heads) Start(log *slog.Logger) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.started = !h.closed; h.started {
		ctx, cancel := context.WithCancel(context.Background())
		h.abandon = cancel
		go h.run(ctx, log)
	}
}

// Close writes what is due and stops. It gives up on a disk that hangs. The ledger calls it once.
func (h *heads) Close() error {
	h.mu.Lock()
	h.closed = true
	started := h.started
	h.mu.Unlock()
	close(h.stop)
	if started {
		select {
		case <-h.ended:
		case <-time.After(headsPatience):
			h.abandon()
			return fmt.Errorf("%w: the head file %s is behind, for it cannot be written", db.ErrUnavailable, h.path)
		}
	}
	if h.file == nil {
		return nil
	}
	return h.file.Close()
}

// cosign returns when the file has a cosigned tree, or ErrUnavailable after headsPatience. No
// cosignature is published before.
func (h *heads) cosign(ctx context.Context, c headfile.Cosigned) error {
	w := cosigning{c, make(chan error, 1)}
	h.mu.Lock()
	h.cosigned = append(h.cosigned, w)
	h.mu.Unlock()
	h.wake.Set()
	ctx, cancel := context.WithTimeout(ctx, headsPatience)
	defer cancel()
	var err error
	select {
	case err = <-w.done:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("%w: the head file %s does not have what was cosigned: %w", db.ErrUnavailable, h.path, err)
	}
	return nil
}

// writeCosigned writes cosigned trees to the file, and reports the result to the callers that wait.
func (h *heads) writeCosigned(list []cosigning, err error) error {
	if err == nil && len(list) > 0 && h.file == nil {
		err = fmt.Errorf("%w: none is made while nothing is written", db.ErrUnavailable)
	}
	for _, c := range list {
		if err == nil {
			err = h.file.Cosigned(c.Cosigned)
		}
		c.done <- err
	}
	return err
}

func (h *heads) run(ctx context.Context, log *slog.Logger) {
	defer close(h.ended)
	places, pause := time.NewTicker(ledger.LookEvery), headsRest
	defer places.Stop()
	if !h.hasFile() {
		pause = memoryRest
	}
	for ending := false; !ending; {
		var again <-chan time.Time
		switch rest := h.proofs.rest(time.Now()); {
		case h.failing.Load() && h.external.Load():
			again = time.After(compareAgain)
		case h.failing.Load():
			again = time.After(headsAgain)
		case rest > 0:
			again = time.After(rest)
		}
		select {
		case <-h.wake:
		case <-again:
		case <-places.C: // to find out whether the file is in its place
		case <-h.stop:
			ending = true
		}
		h.report(h.flush(ctx, ending, log), log)
		select {
		case <-time.After(pause):
		case <-h.stop:
		}
	}
	if h.file != nil {
		h.report(h.file.Sync(), log)
	}
}

// report logs the first failure to write the file, and the recovery.
func (h *heads) report(err error, log *slog.Logger) {
	switch was := h.failing.Swap(err != nil); {
	case !h.hasFile(): // what could not be read is read at the next attempt
	case err != nil && !was:
		log.Warn("the head file cannot be written; it stays behind until it can", "file", h.path, "error", err)
	case err == nil && was:
		log.Info("the head file is up to date again", "file", h.path)
	}
}

// flush compares with the database if necessary, and writes what has changed. What remains stays
// due.
func (h *heads) flush(ctx context.Context, ending bool, log *slog.Logger) error {
	external := h.external.Swap(false)
	h.mu.Lock()
	cosigned := h.cosigned
	h.cosigned = nil
	h.mu.Unlock()
	err := h.putBack(log)
	if err == nil {
		err = h.look(ctx, external, log)
	}
	err = h.writeCosigned(cosigned, err)
	if err == nil {
		err = h.readExtended(ctx)
	}
	h.mu.Lock()
	lost := maps.Clone(h.lost)
	h.mu.Unlock()
	if external && err != nil {
		h.external.Store(true)
	}
	for number, tree := range lost {
		if err == nil {
			err = h.write(ctx, number, tree, headfile.Checkpoint{})
		}
	}
	if err != nil || h.rollback.db.Stopped() != nil {
		return err // what was known before remains authoritative
	}
	return h.advance(ctx, ending, log)
}

// putBack makes the file again if it was removed: what is written into a file without a name is
// lost when the server ends. It has all that the removed one has. Another file in its place stays
// unchanged, and is an error.
func (h *heads) putBack(log *slog.Logger) error {
	if h.file == nil {
		return nil
	}
	switch is, err := h.file.IsAt(h.path); {
	case is:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return cmp.Or(err, fmt.Errorf("%w: the head file was moved or deleted, and %s is another file", db.ErrRefused, h.path))
	}
	made, err := copyHeads(h.path, h.id, h.file)
	if err != nil {
		return err
	}
	log.Warn("the head file was moved or deleted; it was made again with all that it had", "file", h.path)
	err = errors.Join(sqlite.SyncDir(h.path), h.file.Close())
	h.file = made
	return err
}

// look creates a missing file, and compares again with a database that another process has written.
func (h *heads) look(ctx context.Context, external bool, log *slog.Logger) error {
	if external {
		known, err := h.known()
		var behind []Behind
		if err == nil {
			behind, err = h.rollback.compare(ctx, known)
		}
		if err != nil {
			return err
		}
		if len(behind) > 0 {
			h.rolledBack(behind, log)
			return nil
		}
	}
	if h.file != nil || !h.hasFile() || h.rollback.db.Stopped() != nil {
		return nil
	}
	file, err := h.rollback.createHeads(ctx, h.path, h.id)
	if err != nil {
		return err
	}
	h.file = file
	if err := h.rollback.db.Write(ctx, func(w *db.Conn) error {
		return LeaveUnrecorded(w, unrecordedHeadFile(time.Now()))
	}); err != nil {
		log.Warn("the control logs will not say that the head file was made", "error", err)
	}
	return nil
}

// write updates the entry of a chain. A zero checkpoint leaves the entry's checkpoint unchanged.
func (h *heads) write(ctx context.Context, number int64, tree headfile.Tree, checkpoint headfile.Checkpoint) error {
	if h.file == nil {
		return nil
	}
	company, log, err := h.rollback.companies.LogOfChain(ctx, number)
	// the company is gone; the entry still must not be lost
	gone := errors.Is(err, db.ErrNotFound)
	if err != nil && !gone {
		return err
	}
	var id [16]byte
	var revocations int64
	if !gone {
		if id, err = ledger.ParseLogID(log.ID); err != nil {
			return err
		}
	}
	if log.Name == db.Control && !gone {
		if revocations, err = h.rollback.countedRevocations(ctx, company); err != nil {
			return err
		}
	}
	return h.file.Update(number, func(known *headfile.Head) {
		if !gone {
			known.LogID = id
		}
		if tree.Size > known.Size {
			known.Tree = tree
		}
		if checkpoint.Published() {
			known.Checkpoint = checkpoint
		}
		known.Revocations = max(known.Revocations, revocations)
	})
}

// HeadFile returns the state of the head file: "" if there is none, "written", or "behind" while it
// cannot be written.
func (s Rollback) HeadFile() string {
	switch {
	case !s.head.heads.hasFile():
		return ""
	case s.head.heads.failing.Load():
		return "behind"
	}
	return "written"
}
