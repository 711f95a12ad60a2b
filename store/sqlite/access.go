package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"attestd/internal/printable"
)

// CheckAccess checks that other users cannot bypass the lock of the database at path, which may not
// exist yet, or change its content: ErrRefused. warning, if any, is about who can read it.
//
// A folder that others may write is refused even with the sticky bit, like /tmp: SQLite uses a log
// or a journal next to the database, regardless of who created it.
func CheckAccess(path string) (warning string, err error) {
	if err := CheckLinks(path); err != nil {
		return "", err
	}
	return CheckRights(path)
}

// ofDatabase yields the database at path and the files that SQLite creates next to it, as far as
// they exist.
func ofDatabase(path string, yield func(name string, info fs.FileInfo) error) error {
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		info, err := os.Lstat(path + suffix)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = yield(path+suffix, info)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// CheckLinks is the part of CheckAccess about names: ErrRefused for files that are not plain or
// have several names.
func CheckLinks(path string) error {
	return ofDatabase(path, func(name string, info fs.FileInfo) error {
		switch {
		case !info.Mode().IsRegular():
			return notPlain(name)
		case links(info) > 1:
			return fmt.Errorf("%w: %s has %d names (hard links), and a server of each would write over the other: remove the others; find . -samefile %s finds them",
				ErrRefused, name, links(info), printable.ShellWord(name))
		}
		return nil
	})
}

// CheckRights is the part of CheckAccess about permissions.
func CheckRights(path string) (warning string, err error) {
	dir := filepath.Dir(path)
	info, err := os.Stat(dir)
	if err != nil {
		return "", err
	}
	if PermitsOthers(info, 0o022) {
		return "", fmt.Errorf("%w: others may write the folder %s: run chmod go-w %s, or give the database a folder of its own", ErrRefused, dir, printable.ShellWord(dir))
	}
	var readable []string
	err = ofDatabase(path, func(name string, info fs.FileInfo) error {
		if PermitsOthers(info, 0o022) {
			return fmt.Errorf("%w: others may write %s: run chmod 600 %s", ErrRefused, name, printable.ShellWord(name))
		}
		if PermitsOthers(info, 0o044) {
			readable = append(readable, name)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	if len(readable) > 0 {
		names, words := strings.Join(readable, " "), printable.ShellWords(readable)
		warning = fmt.Sprintf("others may read %s, and with it every private key: run chmod 600 %s", names, words)
	}
	return warning, nil
}

func notPlain(path string) error {
	return fmt.Errorf("%w: %s is not a plain file, and nothing else can be a database", ErrRefused, path)
}
