package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"attestd/internal/atomicfile"
)

// PlaceNew is like Place, but replaces an empty file, which counts as none.
func PlaceNew(tmp, path string) error {
	if info, err := os.Stat(path); err == nil && info.Size() == 0 {
		return Replace(tmp, path)
	}
	return Place(tmp, path)
}

// Replace durably renames the finished file tmp to path, and replaces an existing file.
func Replace(tmp, path string) error {
	if err := syncFile(tmp); err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	return SyncDir(path)
}

// Place durably renames the finished file tmp to path. It never replaces an existing file:
// fs.ErrExist.
func Place(tmp, path string) error {
	if err := syncFile(tmp); err != nil {
		return err
	}
	err := os.Link(tmp, path)
	if errors.Is(err, fs.ErrExist) {
		return err
	}
	// On a file system without links, create an empty file, which counts as none, and replace it.
	if err != nil {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		if err := errors.Join(f.Close(), os.Rename(tmp, path)); err != nil {
			return err
		}
	}
	return SyncDir(path)
}

func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// SyncDir makes the names in the folder of path durable.
func SyncDir(path string) error { return atomicfile.SyncFolder(filepath.Dir(path)) }
