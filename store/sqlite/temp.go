package sqlite

import (
	"os"
	"path/filepath"
	"regexp"
	"time"
)

// Temp is an unfinished database next to its destination. It is locked while its process lives, so
// that those that killed processes have left can be recognized.
type Temp struct {
	Path string
	lock *os.File // nil on systems without such a lock
}

// NewTemp creates an empty file with mode 0600 in the folder of path and named after it. It first
// removes what killed commands have left in that folder.
func NewTemp(path string) (*Temp, error) {
	Sweep(filepath.Dir(path))
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".tmp-*")
	if err != nil {
		return nil, err
	}
	t := &Temp{Path: f.Name()}
	if err = f.Close(); err == nil {
		// lock it while it is empty, because Sweep does not remove empty files
		t.lock, err = openLocked(t.Path)
	}
	if err != nil {
		t.Discard()
		return nil, err
	}
	return t, nil
}

// Discard removes the file unless it was renamed, and releases its lock.
func (t *Temp) Discard() {
	removeDatabase(t.Path)
	if t.lock != nil {
		// if it is still locked, opening the database later fails with an error
		_ = closeLocked(t.lock)
	}
}

// removeDatabase removes the database at path, and its journals first, because only the database
// itself shows that they are attestd's.
func removeDatabase(path string) {
	for _, suffix := range []string{"-journal", "-wal", "-shm", ""} {
		os.Remove(path + suffix) // the next sweep retries what cannot be removed
	}
}

var tempName = regexp.MustCompile(`\.tmp-[0-9]+$`)

// abandoned is the age from which a temporary file counts as left behind if no lock tells: on
// systems other than Linux, and for an empty file, whose process may be about to lock it.
const abandoned = 24 * time.Hour

// Sweep removes the temporary files that killed commands have left in a folder, because each is a
// copy of every key. It removes only unlocked files with our name and format. Files that cause an
// error stay until the next call.
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
			_ = closeLocked(f) // see Discard
		}
	}
}

// Abandoned lists what Sweep would remove from a folder, and removes nothing. On systems where no
// lock tells whether the process lives it lists only what is old.
func Abandoned(dir string) (paths []string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		info, err := e.Info()
		if err != nil || !tempName.MatchString(path) || !info.Mode().IsRegular() || !unfinished(path) {
			continue
		}
		locked, known, err := IsLocked(path)
		if err == nil && !locked && (known && info.Size() > 0 || time.Since(info.ModTime()) > abandoned) {
			paths = append(paths, path)
		}
	}
	return paths
}

// unfinished reports whether the file at path is a database of attestd, or the beginning of one,
// because SQLite writes the first page last.
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

// Leftovers lists the journals next to path. SQLite would apply the journal of an earlier database
// to any file that is put at path.
func Leftovers(path string) (found []string) {
	for _, suffix := range []string{"-wal", "-journal"} {
		if _, err := os.Lstat(path + suffix); err == nil {
			found = append(found, path+suffix)
		}
	}
	return found
}
