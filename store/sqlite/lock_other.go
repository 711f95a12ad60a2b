//go:build !linux

package sqlite

import (
	"errors"
	"os"
)

// lockInode locks nothing, because on systems other than Linux our lock on the file would conflict
// with SQLite's.
func lockInode(*os.File) error { return errors.ErrUnsupported }

func unlockInode(*os.File) error { return nil }
