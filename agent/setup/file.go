package setup

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Write puts the hooks into a settings file, which it makes where there is none. Where they are in
// it already, or it cannot be understood, it stays as it is.
func (h Hooks) Write(file string) (changed bool, err error) {
	path, mode := followed(file)
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

// RemoveFrom takes hooks of ours out of a settings file. One in which nothing else was is deleted,
// with its folder where that is empty then.
func RemoveFrom(file string) (found bool, err error) {
	path, mode := followed(file)
	old, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	rest, found, err := Remove(old)
	if err != nil {
		return false, fmt.Errorf("%s was left as it is: %w", file, err)
	}
	if !found {
		return false, nil
	}
	if string(rest) == "{}\n" && path == filepath.Clean(file) {
		err := os.Remove(path)
		_ = os.Remove(filepath.Dir(path)) // which fails where there is something in it
		return true, err
	}
	return true, replace(path, rest, mode)
}

// followed is the file that a name stands for, so that a link stays one, and its mode.
func followed(file string) (path string, mode fs.FileMode) {
	path, mode = filepath.Clean(file), 0o644
	if real, err := filepath.EvalSymlinks(file); err == nil {
		if info, err := os.Lstat(file); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			path = real
		}
	}
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	return path, mode
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
