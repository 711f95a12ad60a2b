package cli

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"

	"attestd/internal/printable"
	"attestd/sdk/attestd/private"
)

// A file gives rights if a user who changes or replaces it decides who may do something here, or
// what is trusted. It counts only where root and the user of this process alone can do that: it,
// and each folder above it, belongs to one of them, and neither group nor others may write it. A
// folder with the sticky bit, such as /tmp, is no harm above the file. Links count as what they
// lead to, and where they are. A file is checked whenever it is read. TestEveryFileFlagIsListed
// demands a decision about each flag that names a file.

// OpenRights opens a file that gives rights. pipes allows one that is no regular file, such as a
// shell's <(…).
func OpenRights(path string, pipes bool) (*os.File, fs.FileInfo, error) {
	info, err := os.Stat(path) // to open a pipe would wait
	if err == nil && !info.Mode().IsRegular() && (!pipes || info.IsDir()) {
		err = fmt.Errorf("%s is not a regular file", path)
	}
	if err != nil {
		return nil, nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	info, err = f.Stat()
	if err == nil && !info.Mode().IsRegular() && !pipes {
		err = fmt.Errorf("%s is not a regular file", path)
	}
	if err == nil {
		err = CheckRights(path, info)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// CheckRights refuses a file or folder that gives rights, and that others can change or replace.
func CheckRights(path string, info fs.FileInfo) error {
	switch owner := ownerOf(info); {
	case info.Mode().Perm()&0o022 != 0 && runtime.GOOS != "windows": // Windows has no such bits
		return fmt.Errorf("others can write %s (mode %o), and so change rights; chmod go-w %s", path, info.Mode().Perm(), printable.ShellWord(path))
	case owner != 0 && owner != os.Geteuid():
		return fmt.Errorf("%s belongs to another user, who can change rights by it; chown root %s", path, printable.ShellWord(path))
	}
	return private.Check(path)
}

// ReadRights reads a file that gives rights, up to most bytes; a longer one is an error.
func ReadRights(path string, most int64) ([]byte, error) {
	f, _, err := OpenRights(path, false)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("%s has more than %d bytes", path, most)
	}
	return text, err
}

// ReadSecret reads the file of a secret, which gives rights, up to most bytes. exposed returns the
// error about one that others may read.
func ReadSecret(path string, most int64, exposed func(fs.FileInfo) error) ([]byte, error) {
	f, info, err := OpenRights(path, true)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if IsExposed(path, info) {
		return nil, exposed(info)
	}
	return io.ReadAll(io.LimitReader(f, most))
}
