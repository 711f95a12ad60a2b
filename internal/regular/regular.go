// Package regular opens files that are regular ones. To open a pipe waits for who opens its other
// end, and to read a terminal or a device waits for more; a user who may put one where a program
// expects a file of its own could hold that program up.
package regular

import (
	"errors"
	"io"
	"io/fs"
	"os"
)

// ErrKind reports that the file is not a regular file.
var ErrKind = errors.New("not a regular file")

// Open is os.OpenFile without waiting. What is no regular file is an ErrKind.
func Open(path string, flag int, mode fs.FileMode) (*os.File, error) {
	f, err := os.OpenFile(path, flag|NoWait, mode)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: path, Err: ErrKind}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Read is os.ReadFile of a regular file.
func Read(path string) ([]byte, error) {
	f, err := Open(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}
