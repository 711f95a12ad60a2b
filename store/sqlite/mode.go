package sqlite

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// LookMode is how to look into the file at path and leave no trace. A file at rest has no journal
// beside it. One with a write-ahead log is in use, or was when its server was killed. A rollback
// journal is there when an edit of a stranger, or Restore, was killed; until it is rolled back the
// file means nothing.
func LookMode(path string) (Mode, error) {
	switch left := Leftovers(path); {
	case len(left) == 0:
		return ModeRest, nil
	case slices.Contains(left, path+"-journal"):
		return ModeReader, nil
	}
	return ReadMode(path)
}

// ReadMode is how to read the file at path, for as long as it takes, beside a server or without
// one. SQLite needs a log and an index beside the file, and makes them; where the folder cannot be
// written, on read-only media, a file at rest is read without, and one that a killed server has
// left is ErrRefused.
func ReadMode(path string) (Mode, error) {
	if writable(filepath.Dir(path)) {
		return ModeRead, nil
	}
	if _, err := os.Lstat(path + "-shm"); err == nil {
		return ModeRead, nil // the index of a server that runs, or was killed
	}
	if log, err := os.Lstat(path + "-wal"); err == nil && log.Size() > 0 {
		return "", fmt.Errorf("%w: %s-wal was left by a server that was killed, and can only be read where the folder can be written: copy both there", ErrRefused, path)
	}
	return ModeRest, nil
}
