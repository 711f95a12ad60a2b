package cli

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
)

// OpenNamed opens a file named on the command line. If it does not exist, the error is
// fs.ErrNotExist, with the exit status of that.
func OpenNamed(path string) (*os.File, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ExitError{Status: ExitNotFound, Err: missingError{path}}
	}
	return f, err
}

// ReadBounded reads at most one byte more than the limit, so that the caller can recognise a file
// that is too long.
func ReadBounded(path string, most int64) ([]byte, error) {
	f, err := OpenNamed(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return BoundedText(f, f, most)
}

// BoundedText is ReadBounded of a file that src reads.
func BoundedText(f *os.File, src io.Reader, most int64) ([]byte, error) {
	about, err := f.Stat()
	if err != nil {
		return nil, err
	}
	// A pipe has size 0; the buffer then grows.
	text := bytes.NewBuffer(make([]byte, 0, min(about.Size(), most+1)+bytes.MinRead))
	_, err = text.ReadFrom(io.LimitReader(src, most+1))
	return text.Bytes(), err
}

// missingError says that a file named on the command line does not exist.
type missingError struct{ path string }

func (e missingError) Error() string { return e.path + ": not found" }

func (missingError) Is(target error) bool { return target == fs.ErrNotExist }
