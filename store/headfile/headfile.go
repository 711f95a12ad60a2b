// Package headfile keeps, beside a database or on another disk, the greatest size and the roots of
// every log that the database has had. Whoever puts an older database in its place, or another
// history, has to reach this file too. It knows no SQL.
//
// # Form
//
// A header and then slots, all of 256 bytes and big-endian. The header holds the magic text, the
// identity of the database and a checksum. Each log has two slots, whose place follows from the
// number of its chain. The first four are of the chains of the installation, Installation and its
// negative. Behind them those of chain c > 0 stand at 6(c-1), those of -c after them. The two after
// those are of the c-th log of others that the database's owner has cosigned as a witness. Older
// forms are read still, and are brought to this one by Create. The second has no slots of the
// installation. The first has neither those nor logs of others: there the slots of chain c stand at
// 4(c-1). A write goes to the one that does not hold the newest
// state, so one that is cut short, wherever, leaves the state before it. A slot that its checksum
// does not fit, or that is not there, says nothing. So the file needs no sync to be right: it may
// be behind, and it is never ahead of a database that was durable before it was written.
//
// The checksum (CRC-32C) finds what a crash has torn. It is no protection from whoever may write
// the file.
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

// ErrForeign says that a file is not the head file of the database that was named: another's,
// damaged at its beginning, or no head file.
var ErrForeign = errors.New("not the head file of this database")

// ID is the identity of a database.
type ID [16]byte

// Tree is the state of a log at a size: the roots of its two trees.
type Tree struct {
	Size    int64
	Root    [32]byte // of the specification's tree
	LogRoot [32]byte // of that of RFC 6962
}

// Checkpoint is a published checkpoint of a log, but for its origin. It has no Signature where none
// was published.
type Checkpoint struct {
	Size      int64
	Root      [32]byte
	Signature [68]byte // key ID and signature, as in a signed note
}

// Published says whether there is a checkpoint.
func (c Checkpoint) Published() bool { return c.Signature != [68]byte{} }

// Head is what is known of a log.
type Head struct {
	Chain int64 // number of its chain
	LogID [16]byte
	Tree
	Revocations int64 // of passports of its company; kept with the log in which they are recorded
	Checkpoint  Checkpoint
}

// File is an open head file. One goroutine at a time uses it, and one process.
type File struct {
	f    *os.File
	form form
	// places among the logs of others, by origin; nil before they were read
	known map[[32]byte]int64
}

// Create makes the head file at path anew, for its owner alone, in place of the one that is there.
// It is built whole under a name of its own and then put in place, durably: a crash leaves the old
// one or the new one.
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
	if err := f.f.Chmod(0o600); err != nil { // that of an older one that was left here
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

// Open opens the head file of a database: fs.ErrNotExist, ErrForeign. An empty file counts as none.
// One that may not be written is opened for reading, and each Update of it fails.
func Open(path string, id ID) (*File, error) {
	if info, err := os.Lstat(path); err != nil {
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

// Head returns what is known of a log, or nothing but its number.
func (f *File) Head(chain int64) (Head, error) {
	h, _, _, err := f.read(chain)
	return h, err
}

// Update gives change what is known of a log, or nothing but its number, and writes what that makes
// of it, unless it is the same.
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

// read returns what is known of a log, which of its two slots says so, and that slot's sequence
// number; the second of none.
func (f *File) read(chain int64) (h Head, newest int, sequence uint64, err error) {
	var both [2 * slotSize]byte
	n, err := f.f.ReadAt(both[:], f.form.place(chain))
	if err != nil && !errors.Is(err, io.EOF) {
		return h, 0, 0, err
	}
	h, newest, sequence = decode(both[:n], chain)
	return h, newest, sequence, nil
}

// Each calls yield for what is known of each log, in the order of their places. An error of yield
// ends it and is returned as it is.
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

// pairs calls yield for each two slots of one log, of which the second may be cut off.
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

// Sync makes durable what was written.
func (f *File) Sync() error { return f.f.Sync() }

// Close closes the file.
func (f *File) Close() error { return f.f.Close() }

const (
	slotSize = 256
	crcAt    = slotSize - 4
)

// castagnoli returns the table of CRC-32C, which is made once.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }
