package hook

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"attestd/internal/regular"
	"attestd/sdk/attestd/private"
)

// ends remembers of each session that has ended how often it went on and ended again. An agent
// reports each end with the same event, perhaps without any member that tells two of them apart,
// and one end may be reported twice, by two settings files.
//
// The file of a session is made when it first ends. It says how many ends were followed by
// something else, and whether the session has ended since: "2 ended". Its modification time is that
// of the end.
type ends struct{ folder string }

// sameEnd is how much later an end that is reported again, with nothing in between, is another one:
// the session was resumed, and nothing was done in it.
const sameEnd = time.Minute

// endsRetention is how long the file of a session is retained, and endsRead how many of them one
// process looks at.
const (
	endsRetention = 60 * 24 * time.Hour
	endsRead      = 256
)

const (
	hasEnded = "ended"
	lockName = "lock"
)

// path returns the file of a session.
func (e ends) path(session string) string {
	sum := sha256.Sum256([]byte(session))
	return filepath.Join(e.folder, base64.RawURLEncoding.EncodeToString(sum[:16]))
}

// end notes that a session has ended, and returns which of its ends that is, from 0 on.
func (e ends) end(session string, now time.Time) (n int, err error) {
	if err := private.Check(e.folder); err != nil {
		return 0, err
	}
	if err := os.MkdirAll(e.folder, 0o700); err != nil {
		return 0, err
	}
	e.removeOld(now)
	return n, e.change(session, func(count int, ended bool, at time.Time) (int, bool) {
		if ended && now.Sub(at) > sameEnd {
			count++
		}
		n = count
		return count, true
	})
}

// resume notes that something has happened in a session.
func (e ends) resume(session string) error {
	if _, err := os.Stat(e.path(session)); errors.Is(err, fs.ErrNotExist) {
		return nil // it has never ended
	}
	return e.change(session, func(count int, ended bool, _ time.Time) (int, bool) {
		if ended {
			count++
		}
		return count, false
	})
}

// change replaces what the file of a session says. It does not sync it: a session that loses it has
// an end that is not recorded twice.
func (e ends) change(session string, to func(count int, ended bool, at time.Time) (int, bool)) error {
	path := e.path(session)
	unlock, err := e.lock()
	if err != nil {
		return err
	}
	defer unlock()
	var count int
	var state string
	var at time.Time
	text, err := regular.Read(path)
	if err == nil {
		var info fs.FileInfo
		if info, err = os.Stat(path); err == nil {
			at = info.ModTime()
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	_, _ = fmt.Sscan(string(text), &count, &state) // there may be no file
	next, ended := to(count, state == hasEnded, at)
	if next == count && ended == (state == hasEnded) {
		return nil // and the time stays that of the end
	}
	if state = "open"; ended {
		state = hasEnded
	}
	return overwrite(path, fmt.Appendln(nil, next, state))
}

// lock locks the folder for as long as its files are read and written.
func (e ends) lock() (unlock func(), err error) {
	lock := flock.New(filepath.Join(e.folder, lockName), flock.SetFlag(os.O_CREATE|os.O_RDWR|regular.NoWait), flock.SetPermissions(0o600))
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	if _, err := lock.TryLockContext(ctx, lockPoll); err != nil {
		return nil, fmt.Errorf("%s: %w", lock.Path(), err)
	}
	return func() { _ = lock.Unlock() }, nil
}

// overwrite writes a short file in its place, which needs no room where there is one already: a
// file that is emptied first stays empty on a full disk, and the count of ends restarts.
func overwrite(path string, text []byte) error {
	f, err := regular.Open(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(text, 0)
	if err == nil {
		err = f.Truncate(int64(len(text)))
	}
	return errors.Join(err, f.Close())
}

// lockPoll is how often a process looks whether the lock is free.
const lockPoll = 5 * time.Millisecond

// removeOld removes files of sessions that are over for long.
func (e ends) removeOld(now time.Time) {
	folder, err := os.Open(e.folder)
	if err != nil {
		return
	}
	defer folder.Close()
	entries, _ := folder.ReadDir(endsRead)
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && entry.Name() != lockName && now.Sub(info.ModTime()) > endsRetention {
			_ = os.Remove(filepath.Join(e.folder, entry.Name()))
		}
	}
}
