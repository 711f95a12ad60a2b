// Package private checks that only the user can change a path, and stores secrets there. A user who
// can write a folder, or one above it, can replace the files in it.
package private

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"attestd/internal/atomicfile"
	"attestd/internal/regular"
)

// Check returns an error when another user, root aside, may replace what is at path, or change it
// where it is there: when it, or a folder above it, belongs to another user or may be written by
// group or others. A folder with the sticky bit, such as /tmp, is no harm above the path. Links
// count as what they lead to, and where they are. What does not exist is judged by the folder in
// which it would be made.
func Check(path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	return check(path, false, 0)
}

const maxLinks = 40 // as Linux has it

func check(path string, above bool, links int) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(path)
		if err != nil {
			return err
		}
		if links++; links > maxLinks {
			return fmt.Errorf("%s: too many links", path)
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		if err := owner(path, info); err != nil {
			return err
		}
		if err := check(target, above, links); err != nil {
			return err
		}
	default:
		if err := checkOwner(path, info, above); err != nil {
			return err
		}
	}
	parent := filepath.Dir(path)
	if parent == path {
		return nil
	}
	return check(parent, true, links)
}

// Secret reads the secret in the file at path. It creates a missing file, which only the user can
// read. Concurrent processes get the same secret.
func Secret(path string) ([]byte, error) {
	if err := Check(path); err != nil {
		return nil, err
	}
	text, err := regular.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := create(path); err != nil {
			return nil, err
		}
		text, err = regular.Read(path)
	}
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if open(info) {
		return nil, fmt.Errorf("%s: group or others may read it (mode %o); remove it, and another is made", path, info.Mode().Perm())
	}
	secret, err := base64.RawURLEncoding.DecodeString(string(text))
	if err != nil || len(secret) != 32 {
		return nil, fmt.Errorf("%s is no secret of attestd; remove it, and another is made", path)
	}
	return secret, nil
}

// create writes a secret atomically. The first of several processes wins.
func create(path string) error {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // it never fails
	err := atomicfile.Create(path, []byte(base64.RawURLEncoding.EncodeToString(secret)))
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}
