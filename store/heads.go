package store

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"attestd/chain"
	"attestd/store/headfile"
)

const (
	headsRest     = 10 * time.Millisecond // between two writes: to be woken for each commit would cost a lone caller a twentieth of its rate
	headsAgain    = 10 * time.Second      // until a head file that could not be written is tried once more
	headsPatience = 5 * time.Second       // for its last write, at the end
)

// heads keeps the head file up to date: what the log has committed is put down in memory, and a goroutine of its own writes it, at once or
// with what comes within headsRest. So a disk under the head file that is full, fails or hangs holds no append. The file is behind for that
// moment, and never ahead.
type heads struct {
	store   *Store
	path    string
	id      headfile.ID
	file    *headfile.File // nil where it could not be made; belongs to the goroutine of run once that is started
	failing atomic.Bool

	wake  chan struct{} // holds a token when there may be something to write
	stop  chan struct{} // closed when nothing more is to come
	ended chan struct{} // closed when run has returned

	mu       sync.Mutex
	started  bool                    // run was called
	closed   bool                    // it is not to be called any more
	due      map[int64]headfile.Head // what is to be written, by chain; without a size or a checkpoint these stay as they are
	cosigned []cosigning             // what a cosigner waits for
	external bool                    // somebody else has written the database since the last write
}

// cosigning is a tree of somebody else's log that was cosigned, and who waits until the file has
// it.
type cosigning struct {
	headfile.Cosigned
	done chan error // holds one
}

func newHeads(s *Store, path string, id headfile.ID, file *headfile.File) *heads {
	h := &heads{
		store: s, path: path, id: id, file: file, due: map[int64]headfile.Head{},
		wake: make(chan struct{}, 1), stop: make(chan struct{}), ended: make(chan struct{}),
	}
	h.failing.Store(file == nil)
	return h
}

// start lets a goroutine write the file until close.
func (h *heads) start(log *slog.Logger) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.started = !h.closed; h.started {
		go h.run(log)
	}
}

// close writes what is due and ends. It gives up on a disk that hangs. Store.Close calls it once.
func (h *heads) close() error {
	h.mu.Lock()
	h.closed = true
	started := h.started
	h.mu.Unlock()
	close(h.stop)
	if started {
		select {
		case <-h.ended:
		case <-time.After(headsPatience):
			return fmt.Errorf("%w: the head file %s is behind, for it cannot be written", ErrUnavailable, h.path)
		}
	}
	if h.file == nil {
		return nil
	}
	return h.file.Close()
}

// committed puts down what a batch has added; the goroutine of the log calls it after each commit.
func (h *heads) committed(batch []chain.Extension, external bool) {
	h.mu.Lock()
	h.external = h.external || external
	for i := range batch {
		head := &batch[i].Head
		d := h.due[batch[i].Chain]
		d.Tree = headfile.Tree{Size: head.Length, Root: head.Root, LogRoot: head.LogRoot}
		h.due[batch[i].Chain] = d
	}
	h.mu.Unlock()
	h.ring()
}

// published puts down the checkpoint that was kept last of a chain.
func (h *heads) published(number int64, note string) {
	c, err := parseCheckpoint(note)
	if err != nil {
		return // it is not one of ours, and nothing to hold against a database
	}
	h.mu.Lock()
	d := h.due[number]
	d.Checkpoint = c
	h.due[number] = d
	h.mu.Unlock()
	h.ring()
}

// cosign returns when the file has what was cosigned: ErrUnavailable when it has not after
// headsPatience. Nothing that was cosigned is given out before.
func (h *heads) cosign(ctx context.Context, c headfile.Cosigned) error {
	w := cosigning{c, make(chan error, 1)}
	h.mu.Lock()
	h.cosigned = append(h.cosigned, w)
	h.mu.Unlock()
	h.ring()
	ctx, cancel := context.WithTimeout(ctx, headsPatience)
	defer cancel()
	var err error
	select {
	case err = <-w.done:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("%w: the head file %s does not have what was cosigned: %w", ErrUnavailable, h.path, err)
	}
	return nil
}

// writeCosigned writes what was cosigned, and tells those who wait for it.
func (h *heads) writeCosigned(list []cosigning, err error) error {
	for _, c := range list {
		if err == nil {
			err = h.file.Cosigned(c.Cosigned)
		}
		c.done <- err
	}
	return err
}

func (h *heads) ring() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

func (h *heads) run(log *slog.Logger) {
	defer close(h.ended)
	for ending := false; !ending; {
		var again <-chan time.Time
		if h.failing.Load() {
			again = time.After(headsAgain)
		}
		select {
		case <-h.wake:
		case <-again:
		case <-h.stop:
			ending = true
		}
		h.report(h.flush(context.Background(), log), log)
		select {
		case <-time.After(headsRest):
		case <-h.stop:
		}
	}
	if h.file != nil {
		h.report(h.file.Sync(), log)
	}
}

// report logs that the file cannot be written, and that it can again, once each.
func (h *heads) report(err error, log *slog.Logger) {
	switch was := h.failing.Swap(err != nil); {
	case err != nil && !was:
		log.Warn("the head file cannot be written; it stays behind until it can", "file", h.path, "error", err)
	case err == nil && was:
		log.Info("the head file is up to date again", "file", h.path)
	}
}

// flush writes what is due. What it does not come to stays due.
func (h *heads) flush(ctx context.Context, log *slog.Logger) error {
	h.mu.Lock()
	due, external := h.due, h.external
	h.due, h.external = map[int64]headfile.Head{}, false
	cosigned := h.cosigned
	h.cosigned = nil
	h.mu.Unlock()
	err := h.writeCosigned(cosigned, h.look(ctx, external, log))
	if err == nil && h.store.writer.stopped.Load() != nil {
		return nil // what was known before is what counts now
	}
	for number, d := range due {
		if err == nil {
			if err = h.write(ctx, number, d); err == nil {
				delete(due, number)
			}
		}
	}
	if err != nil {
		h.putBack(due, external)
	}
	return err
}

// look makes the file where there is none yet, and compares it once more with a database that somebody else has written.
func (h *heads) look(ctx context.Context, external bool, log *slog.Logger) (err error) {
	if h.file == nil {
		h.file, err = h.store.createHeads(ctx, h.path, h.id)
		return err
	}
	if !external {
		return nil
	}
	behind, err := h.store.compareHeads(ctx, h.file)
	if err == nil && len(behind) > 0 {
		reason := &RolledBackError{behind}
		if h.store.StopWrites(reason) {
			log.Error("nothing is written any more: the database was rolled back", "error", reason)
		}
	}
	return err
}

func (h *heads) write(ctx context.Context, number int64, d headfile.Head) error {
	company, log, err := h.store.LogOfChain(ctx, number)
	if err != nil {
		return err
	}
	id, err := parseLogID(log.ID)
	if err != nil {
		return err
	}
	var revocations int64
	if log.Name == Control {
		if revocations, err = h.store.countedRevocations(ctx, company); err != nil {
			return err
		}
	}
	return h.file.Update(number, func(known *headfile.Head) {
		known.LogID = id
		if d.Size > known.Size {
			known.Tree = d.Tree
		}
		if d.Checkpoint.Published() {
			known.Checkpoint = d.Checkpoint
		}
		known.Revocations = max(known.Revocations, revocations)
	})
}

// putBack makes due again what was not written, beside what has become due since.
func (h *heads) putBack(due map[int64]headfile.Head, external bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.external = h.external || external
	for number, d := range due {
		later := h.due[number]
		if later.Size > 0 {
			d.Tree = later.Tree
		}
		if later.Checkpoint.Published() {
			d.Checkpoint = later.Checkpoint
		}
		h.due[number] = d
	}
}

// HeadFile says how it stands with the head file: "" where none is kept, "written", or "behind" while it cannot be written.
func (s *Store) HeadFile() string {
	switch {
	case s.heads == nil:
		return ""
	case s.heads.failing.Load():
		return "behind"
	}
	return "written"
}
