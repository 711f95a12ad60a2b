//go:build !linux

package sqlite

import "os"

// sameFile reports whether the file at path is the one that was opened.
func sameFile(path string, opened os.FileInfo) (bool, error) {
	now, err := os.Stat(path)
	return err == nil && os.SameFile(now, opened), err
}
