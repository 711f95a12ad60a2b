package sqlite

import (
	"os"
	"path/filepath"
	"regexp"
	"time"
)

// Temp is an unfinished database beside the place that it is meant for. It is locked while its
// maker lives, so that what a killed one left can be told from what another is at work on.
type Temp struct {
	Path string
	lock *os.File // nil where there is no such lock
}

// NewTemp makes an empty file that only its owner may read, in the folder of path and named after
// it. First it removes what killed commands have left in that folder.
func NewTemp(path string) (*Temp, error) {
	Sweep(filepath.Dir(path))
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".tmp-*")
	if err != nil {
		return nil, err
	}
	t := &Temp{Path: f.Name()}
	if err = f.Close(); err == nil {
		// before anything is in it: sweep leaves an empty file alone
		t.lock, err = openLocked(t.Path)
	}
	if err != nil {
		t.Discard()
		return nil, err
	}
	return t, nil
}

// Discard removes the file where it was not given another name, and ends its lock.
func (t *Temp) Discard() {
	removeDatabase(t.Path)
	if t.lock != nil {
		_ = closeLocked(t.lock) // whoever opens the database next is told where it is still locked
	}
}

// removeDatabase removes the database at path, its journals first, for only the database itself
// shows whose they are.
func removeDatabase(path string) {
	for _, suffix := range []string{"-journal", "-wal", "-shm", ""} {
		os.Remove(path + suffix) // what cannot be removed is found again by the next sweep
	}
}

var tempName = regexp.MustCompile(`\.tmp-[0-9]+$`)

// abandoned is the age from which a temporary file is taken for left behind where no lock says so:
// on other systems than Linux, and where the file is empty, for its maker may be about to lock it.
const abandoned = 24 * time.Hour

// Sweep removes the temporary files that killed commands have left in a folder: each is a copy of
// every key. It removes only what has the name and the form of ours and that nobody works on. An
// error leaves a file for the next time.
func Sweep(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if !tempName.MatchString(path) || !e.Type().IsRegular() || !unfinished(path) {
			continue
		}
		f, err := openLocked(path)
		if err != nil {
			continue
		}
		info, err := e.Info()
		if err == nil {
			begun := info.Size() > 0 || len(Leftovers(path)) > 0
			if f != nil && begun || time.Since(info.ModTime()) > abandoned {
				removeDatabase(path)
			}
		}
		if f != nil {
			_ = closeLocked(f) // as in Discard
		}
	}
}

// unfinished says whether the file at path is a database of ours, or the beginning of one: SQLite
// writes its first page last.
func unfinished(path string) bool {
	header, err := ReadHeader(path)
	if err != nil {
		return false
	}
	for _, b := range header {
		if b != 0 {
			return header.Whole() && header.Application() == ApplicationID
		}
	}
	return true
}

// Leftovers lists the journals beside path. SQLite would play one that an earlier database left
// into whatever file is put at path.
func Leftovers(path string) (found []string) {
	for _, suffix := range []string{"-wal", "-journal"} {
		if _, err := os.Lstat(path + suffix); err == nil {
			found = append(found, path+suffix)
		}
	}
	return found
}
