package sqlite

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
)

// ApplicationID is what schema.sql sets at its end, beside the version of the schema.
const ApplicationID = 0x61747374 // "atst"

const (
	headerSize     = 100
	magic          = "SQLite format 3\x00"
	userVersionAt  = 60
	applicationsAt = 68
)

// Header is the header of a database file
// (https://www.sqlite.org/fileformat2.html#the_database_header), or what a file has in its place:
// at most 100 bytes.
type Header []byte

// ReadHeader reads the header of the file at path without SQLite; nothing when there is no file, or
// an empty one. ErrRefused when it is not a plain file.
func ReadHeader(path string) (Header, error) {
	info, err := os.Stat(path) // before it is opened: a named pipe would wait for its other end
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

// IsSQLite says whether the file begins as every database of SQLite does.
func (h Header) IsSQLite() bool { return bytes.HasPrefix(h, []byte(magic)) }

// Whole says whether the header is all there. The methods below need that.
func (h Header) Whole() bool { return len(h) == headerSize }

// Application is the program whose database it is, and ApplicationID where that is ours.
func (h Header) Application() uint32 { return binary.BigEndian.Uint32(h[applicationsAt:]) }

// UserVersion is the version of the schema. The write-ahead log may know of a newer one.
func (h Header) UserVersion() int64 { return int64(binary.BigEndian.Uint32(h[userVersionAt:])) }
