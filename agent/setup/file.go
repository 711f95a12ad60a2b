package setup

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"attestd/internal/wholefile"
)

// Write merges the hooks into a settings file and creates a missing one. It does not change a file
// that already has the hooks or cannot be parsed.
func (h Hooks) Write(file string) (changed bool, err error) {
	path, mode := followed(file)
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	merged, err := h.Merge(old)
	if err != nil {
		return false, fmt.Errorf("%s was not changed: %w", file, err)
	}
	if bytes.Equal(merged, old) {
		return false, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return false, err
	}
	return true, wholefile.Replace(path, merged, mode)
}

// RemoveFrom removes attestd's hooks from a settings file. It deletes a file that has nothing else,
// and then its folder if that is empty.
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
		return false, fmt.Errorf("%s was not changed: %w", file, err)
	}
	if !found {
		return false, nil
	}
	if string(rest) == "{}\n" && path == filepath.Clean(file) {
		err := os.Remove(path)
		_ = os.Remove(filepath.Dir(path)) // fails unless the folder is empty
		return true, err
	}
	return true, wholefile.Replace(path, rest, mode)
}

// followed resolves a symbolic link, so that a write does not replace the link, and returns the
// file's mode.
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

// WritePrivate writes a file that only its owner can read, in a folder with the same restriction.
func WritePrivate(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return wholefile.Replace(path, []byte(text), 0o600)
}
