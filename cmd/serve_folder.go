package cmd

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"attestd/store"
	"attestd/store/sqlite"
)

// checkFileSystem refuses a network file system under a database file, and returns a warning about
// one that may not hold it; see sqlite.CheckFileSystem.
func checkFileSystem(db string, allowNetwork bool) (warning string, err error) {
	if store.IsPostgres(db) {
		return "", nil
	}
	return sqlite.CheckFileSystem(db, allowNetwork)
}

// makeFolder creates the folder of a database file, for its owner alone, where only that folder is
// missing. The root of a volume of Kubernetes may be written by a group, so that a database there
// needs a folder of its own, and the container has no shell to make one.
func makeFolder(db string) error {
	if store.IsPostgres(db) {
		return nil
	}
	err := os.Mkdir(filepath.Dir(db), 0o700)
	if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
		return nil // Open says what is wrong with a path of which more is missing
	}
	return err
}
