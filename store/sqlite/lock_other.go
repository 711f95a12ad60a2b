//go:build !linux

package sqlite

import (
	"errors"
	"os"
)

// lockInode locks nothing: elsewhere than on Linux a lock of ours on the file would stand in the
// way of SQLite's own.
func lockInode(*os.File) error { return errors.ErrUnsupported }

func unlockInode(*os.File) error { return nil }
