package sqlite

import (
	"errors"
	"os"
	"path/filepath"
)

// ProbeRoom writes size bytes next to the database at path, syncs them, and removes them.
func ProbeRoom(path string, size int) error {
	// Sweep removes a file with this name if the process is killed.
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".tmp-*")
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, size))
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close(), os.Remove(f.Name()))
}
