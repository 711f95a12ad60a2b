package https

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// ReadEvery is how often files are usually read again. A change counts after the second read that
// finds it.
const ReadEvery = 2 * time.Second

// reloaded is a value made of files, which is rebuilt when they change. Two reads in a row must
// find the same: of two files that belong together, one may be written while the other is not yet.
// What cannot be used is logged once, and the former value stays.
type reloaded[T any] struct {
	what  string // for the log
	every time.Duration
	// reads the files; the content is all that was read, and with an error the reason too
	read  func() (content []byte, value T, err error)
	log   *slog.Logger
	value atomic.Pointer[T]

	// owned by run
	installed, seen, refused [sha256.Size]byte

	mu      sync.Mutex
	at      time.Time // when the value was installed
	lastErr error
	lastAt  time.Time
}

// open reads the files for the first time, when an error is the caller's.
func (r *reloaded[T]) open() error {
	content, value, err := r.read()
	if err != nil {
		return err
	}
	r.install(sha256.Sum256(content), value)
	return nil
}

func (r *reloaded[T]) install(content [sha256.Size]byte, value T) {
	r.installed, r.refused = content, [sha256.Size]byte{}
	r.value.Store(&value)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at, r.lastErr, r.lastAt = time.Now(), nil, time.Time{}
}

// run reads the files again until ctx is done, and calls each after every read.
func (r *reloaded[T]) run(ctx context.Context, each func(now time.Time, changed bool)) error {
	for tick := time.NewTicker(r.every); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return ctx.Err()
		case now := <-tick.C:
			each(now, r.reload())
		}
	}
}

// reload reads the files and installs their content, if it is new and valid. It reports whether it
// did.
func (r *reloaded[T]) reload() (changed bool) {
	raw, value, err := r.read()
	content := sha256.Sum256(raw)
	before := r.seen
	r.seen = content
	switch {
	case content == r.installed && err == nil:
		r.setLastErr(nil)
		r.refused = [sha256.Size]byte{}
	case content != before, content == r.refused:
	case err != nil:
		r.refused = content
		r.setLastErr(err)
		r.log.Error(r.what+" was not taken into use; the former one stays", "error", err)
	default:
		r.install(content, value)
		r.log.Info(r.what + " was taken into use")
		changed = true
	}
	return changed
}

func (r *reloaded[T]) setLastErr(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lastErr = err; err != nil {
		r.lastAt = time.Now()
	} else {
		r.lastAt = time.Time{}
	}
}

// state returns when the value was installed, and what is wrong with the files since, if anything.
func (r *reloaded[T]) state() (at, lastAt time.Time, lastErr error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.at, r.lastAt, r.lastErr
}
