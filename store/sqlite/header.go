package sqlite

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
)

// ApplicationID is the application ID that schema.sql sets.
const ApplicationID = 0x61747374 // "atst"

const (
	headerSize     = 100
	magic          = "SQLite format 3\x00"
	userVersionAt  = 60
	applicationsAt = 68
)

// Header is the header of a database file
// (https://www.sqlite.org/fileformat2.html#the_database_header), or the beginning of another file:
// at most 100 bytes.
type Header []byte

// ReadHeader reads the header of the file at path without SQLite. It is empty if the file is
// missing or empty. ReadHeader returns ErrRefused for a file that is not a regular file.
func ReadHeader(path string) (Header, error) {
	info, err := os.Stat(path) // before opening: opening a named pipe would block
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, notPlain(path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	header := make([]byte, headerSize)
	n, err := io.ReadFull(f, header)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, err
	}
	return header[:n], nil
}

// IsSQLite reports whether the file begins like a SQLite database.
func (h Header) IsSQLite() bool { return bytes.HasPrefix(h, []byte(magic)) }

// Whole reports whether the header is complete, which the methods below require.
func (h Header) Whole() bool { return len(h) == headerSize }

// Application returns the application ID, which is ApplicationID for a database of attestd.
func (h Header) Application() uint32 { return binary.BigEndian.Uint32(h[applicationsAt:]) }

// UserVersion returns the schema version. The write-ahead log may have a newer one.
func (h Header) UserVersion() int64 { return int64(binary.BigEndian.Uint32(h[userVersionAt:])) }
