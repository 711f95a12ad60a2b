// Package headfile stores, next to a database or on another disk, the largest size and the roots of
// every log that the database has had. An attacker who replaces the database by an older one, or by
// another history, must also be able to write this file. The package does not use SQL.
//
// # Format
//
// The file has a header and slots of 256 bytes each; integers are big-endian. The header contains
// the magic text, the database ID and a checksum. Each log has two slots at an offset that depends
// on its chain ID. The first four slots belong to the installation's chains, Installation and its
// negative. After them, the slots of chain c > 0 are at index 6(c-1), followed by those of chain
// -c. The next two belong to the c-th log of others that the database's owner has cosigned as a
// witness.
//
// Older formats can be read, and Create writes this one. The second format has no slots of the
// installation. The first has neither those nor logs of others: its slots of chain c are at index
// 4(c-1).
//
// A write goes to the slot that does not contain the newest state, so an interrupted write leaves
// the previous state intact. A slot that is missing or has a wrong checksum is ignored. So the file
// is correct without a sync: it may be behind the database, but it is never ahead of what was
// durable before the write.
//
// The checksum (CRC-32C) detects torn writes after a crash. It does not protect against an attacker
// who can write the file.
package headfile

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
)

// ErrForeign means that a file is not the head file of the given database: it belongs to another
// database, has a damaged header, or is not a head file.
var ErrForeign = errors.New("not the head file of this database")

// ID identifies a database. Its copies have the same ID.
type ID [16]byte

// Tree is the state of a log at a size: the roots of its two trees.
type Tree struct {
	Size    int64
	Root    [32]byte // of the specification's tree
	LogRoot [32]byte // of the RFC 6962 tree
}

// Checkpoint is a published checkpoint of a log without its origin. Its Signature is zero if none
// was published.
type Checkpoint struct {
	Size      int64
	Root      [32]byte
	Signature [68]byte // key ID and signature, as in a signed note
}

// Published reports whether there is a checkpoint.
func (c Checkpoint) Published() bool { return c.Signature != [68]byte{} }

// Head is the known state of a log.
type Head struct {
	Chain int64 // ID of its chain
	LogID [16]byte
	Tree
	Revocations int64 // of passports of its company; only in the entry of the control log
	Checkpoint  Checkpoint
}

// File is an open head file. It MUST be used by one goroutine at a time, and by one process.
type File struct {
	f    *os.File
	form form
	// numbers of the logs of others, by origin; nil until they are read
	known map[[32]byte]int64
}

// Create creates the head file at path with mode 0600, and replaces an existing one. It builds the
// file under a temporary name and renames it durably, so that a crash leaves the old or the new
// file.
func Create(path string, id ID, heads []Head, cosigned []Cosigned) (*File, error) {
	return create(path, id, newest, heads, cosigned)
}

func create(path string, id ID, of form, heads []Head, cosigned []Cosigned) (*File, error) {
	f, err := os.OpenFile(path+".new", os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	made := &File{f: f, form: of}
	if err = made.fill(id, heads, cosigned); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	return made, nil
}

func (f *File) fill(id ID, heads []Head, cosigned []Cosigned) error {
	if err := f.f.Chmod(0o600); err != nil { // an older temporary file may have been left
		return err
	}
	if _, err := f.f.WriteAt(header(id, f.form), 0); err != nil {
		return err
	}
	for i := range heads {
		if _, err := f.f.WriteAt(encode(&heads[i], 1), f.form.place(heads[i].Chain)); err != nil {
			return err
		}
	}
	for i := range cosigned {
		if err := f.Cosigned(cosigned[i]); err != nil {
			return err
		}
	}
	return f.f.Sync()
}

// Open opens the head file of a database. It returns fs.ErrNotExist, also for an empty file, or
// ErrForeign. A file without write permission is opened for reading, and each Update of it fails.
func Open(path string, id ID) (*File, error) {
	if info, err := os.Stat(path); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: %w: not a plain file", path, ErrForeign)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		f, err = os.Open(path)
	}
	if err != nil {
		return nil, err
	}
	have := make([]byte, slotSize)
	n, err := io.ReadFull(f, have)
	switch {
	case n == 0 && errors.Is(err, io.EOF):
		err = &fs.PathError{Op: "read", Path: path, Err: fs.ErrNotExist}
	case err != nil && !errors.Is(err, io.ErrUnexpectedEOF):
	default:
		for _, of := range []form{first, second, newest} {
			if bytes.Equal(have[:n], header(id, of)) {
				return &File{f: f, form: of}, nil
			}
		}
		err = fmt.Errorf("%s: %w", path, ErrForeign)
	}
	return nil, errors.Join(err, f.Close())
}

// Head returns the known state of a log, or a Head with only its chain ID.
func (f *File) Head(chain int64) (Head, error) {
	h, _, _, err := f.read(chain)
	return h, err
}

// Update calls change with the known state of a log, or a Head with only its chain ID, and writes
// the result if it differs.
func (f *File) Update(chain int64, change func(*Head)) error {
	if f.form != newest && (chain == Installation || chain == -Installation) {
		return errOldForm
	}
	was, newest, sequence, err := f.read(chain)
	if err != nil {
		return err
	}
	is := was
	if change(&is); is == was {
		return nil
	}
	_, err = f.f.WriteAt(encode(&is, sequence+1), f.form.place(chain)+int64(1-newest)*slotSize)
	return err
}

// read returns the known state of a log, the number of the slot that contains it, and that slot's
// sequence number; 1 and 0 if there is none.
func (f *File) read(chain int64) (h Head, newest int, sequence uint64, err error) {
	var both [2 * slotSize]byte
	n, err := f.f.ReadAt(both[:], f.form.place(chain))
	if err != nil && !errors.Is(err, io.EOF) {
		return h, 0, 0, err
	}
	h, newest, sequence = decode(both[:n], chain)
	return h, newest, sequence, nil
}

// Each calls yield for the known state of each log, in the order of their slots. An error of yield
// ends it and is returned unchanged.
func (f *File) Each(yield func(*Head) error) error {
	return f.pairs(func(place int64, both []byte) error {
		chain := f.form.chainAt(place)
		if chain == 0 {
			return nil
		}
		h, _, sequence := decode(both, chain)
		if sequence == 0 {
			return nil
		}
		return yield(&h)
	})
}

// pairs calls yield for the two slots of each log. The second may be truncated.
func (f *File) pairs(yield func(place int64, both []byte) error) error {
	buffer := make([]byte, 512*2*slotSize)
	for at := int64(slotSize); ; at += int64(len(buffer)) {
		n, err := f.f.ReadAt(buffer, at)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		for from := 0; from < n; from += 2 * slotSize {
			if err := yield(at+int64(from), buffer[from:min(from+2*slotSize, n)]); err != nil {
				return err
			}
		}
		if err != nil {
			return nil
		}
	}
}

// IsAt reports whether the file is the one at path. The error is that of looking there.
func (f *File) IsAt(path string) (bool, error) {
	there, err := os.Lstat(path)
	if err != nil {
		return false, err
	}
	is, err := f.f.Stat()
	return err == nil && os.SameFile(is, there), err
}

// Sync makes the writes durable.
func (f *File) Sync() error { return f.f.Sync() }

// Close closes the file.
func (f *File) Close() error { return f.f.Close() }

const (
	slotSize = 256
	crcAt    = slotSize - 4
)

// castagnoli returns the table of CRC-32C, which is computed once.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }
