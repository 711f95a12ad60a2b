//go:build !linux

package sqlite

import (
	"errors"
	"os"
)

// lockInode locks nothing, because on systems other than Linux our lock on the file would conflict
// with SQLite's.
func lockInode(*os.File) error { return errors.ErrUnsupported }

// IsLocked does not know.
func IsLocked(string) (locked, known bool, err error) { return false, false, nil }

func unlockInode(*os.File) error { return nil }
