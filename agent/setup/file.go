package setup

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Write puts the hooks into a settings file, which it makes where there is none. Where they are in it already, or it cannot be understood, it stays as it is.
func (h Hooks) Write(file string) (changed bool, err error) {
	path := file
	if real, err := filepath.EvalSymlinks(file); err == nil { // a link stays one
		path = real
	}
	mode := fs.FileMode(0o644)
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	merged, err := h.Merge(old)
	if err != nil {
		return false, fmt.Errorf("%s was left as it is: %w", file, err)
	}
	if bytes.Equal(merged, old) {
		return false, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return false, err
	}
	return true, replace(path, merged, mode)
}

// WritePrivate writes a file that is for its owner alone, in a folder that is, too.
func WritePrivate(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return replace(path, []byte(text), 0o600)
}

// replace puts a whole file in the place of another.
func replace(path string, text []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // when it was not renamed
	_, err = f.Write(text)
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
