//go:build !linux

package sqlite

import "os"

// lookAt reports whether the file at path is the one that was opened, and its size.
func lookAt(path string, opened os.FileInfo) (same bool, size int64, err error) {
	now, err := os.Stat(path)
	if err != nil {
		return false, 0, err
	}
	return os.SameFile(now, opened), now.Size(), nil
}
