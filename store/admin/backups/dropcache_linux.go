package backups

import (
	"os"

	"golang.org/x/sys/unix"
)

// dropCache asks the system to forget what it has cached of a synced file, so that a read comes
// from the disk. It may refuse.
func dropCache(f *os.File) { _ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED) }
