package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	codes "modernc.org/sqlite/lib"
)

// ReadError distinguishes an unreadable disk from a damaged database. SQLite calls both corrupt,
// without details. So ReadError reads the whole file, and returns ErrUnavailable at the first byte
// that cannot be read. It returns any other err unchanged.
func ReadError(ctx context.Context, path string, err error) error {
	if resultCode(err)&0xff != codes.SQLITE_CORRUPT {
		return err
	}
	for _, name := range []string{path, path + "-wal"} {
		if unread := readThrough(ctx, name); unread != nil && !errors.Is(unread, fs.ErrNotExist) {
			return fmt.Errorf("%w: %w", ErrUnavailable, unread)
		}
	}
	return err
}

func readThrough(ctx context.Context, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil {
		_, err = io.Copy(io.Discard, untilDone{ctx, io.NewSectionReader(f, 0, info.Size())})
	}
	return err
}

// untilDone reads until a context is done.
type untilDone struct {
	ctx context.Context
	io.Reader
}

func (r untilDone) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(b)
}
