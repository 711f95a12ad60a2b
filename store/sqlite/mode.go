package sqlite

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// InspectMode returns the mode for examining the file at path without leaving a trace. A file at
// rest has no journal. One with a write-ahead log is in use, or its server was killed. One with a
// rollback journal was being changed by a killed program, such as Restore, and is inconsistent
// until it is rolled back.
func InspectMode(path string) (Mode, error) {
	switch left := Leftovers(path); {
	case len(left) == 0:
		return ModeRest, nil
	case slices.Contains(left, path+"-journal"):
		return ModeReader, nil
	}
	return ReadMode(path)
}

// ReadMode returns the mode for reading the file at path, with or without a server. SQLite needs a
// log and an index next to the file, and creates them. If the folder is read-only, a file at rest
// is read without them, and one that a killed server has left is ErrRefused.
func ReadMode(path string) (Mode, error) {
	if writable(filepath.Dir(path)) {
		return ModeRead, nil
	}
	if _, err := os.Lstat(path + "-shm"); err == nil {
		return ModeRead, nil // the index of a running or killed server
	}
	if log, err := os.Lstat(path + "-wal"); err == nil && log.Size() > 0 {
		return "", fmt.Errorf("%w: %s-wal was left by a server that was killed, and can only be read where the folder can be written: copy both there", ErrRefused, path)
	}
	return ModeRest, nil
}
