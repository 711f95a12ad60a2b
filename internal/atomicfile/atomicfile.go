// Package atomicfile replaces files atomically: no reader sees a part. The bytes are durable before
// the file has its name, and the name is after SyncFolder.
package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// Replace writes the file at path in place of the one that is there, if any.
func Replace(path string, text []byte, mode fs.FileMode) error {
	return put(path, text, mode, os.Rename)
}

// Create writes a new file at path, which only its owner can read. It is fs.ErrExist where there is
// one.
func Create(path string, text []byte) error { return put(path, text, private, os.Link) }

// private is the mode of a temporary file.
const private fs.FileMode = 0o600

func put(path string, text []byte, mode fs.FileMode, place func(made, path string) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails after a rename
	_, err = f.Write(text)
	if err == nil && mode != private {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return place(f.Name(), path)
}

// SyncFolder makes the names in a folder durable. Windows has no such call and needs none.
func SyncFolder(folder string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	f, err := os.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
