package sqlite

import (
	"path/filepath"

	"golang.org/x/sys/windows"
)

// FreeSpace returns the bytes that the file system of a database has left for this process. ok is
// false where the system does not say.
func FreeSpace(path string) (bytes int64, ok bool) {
	folder, err := windows.UTF16PtrFromString(filepath.Dir(path))
	if err != nil {
		return 0, false
	}
	var free uint64
	if err := windows.GetDiskFreeSpaceEx(folder, &free, nil, nil); err != nil {
		return 0, false
	}
	return int64(min(free, 1<<62)), true
}
