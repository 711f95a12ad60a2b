package headfile

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
)

// Cosigned is the last tree of another operator's log that the database's owner has cosigned as a
// witness.
type Cosigned struct {
	Origin [32]byte // the SHA-256 of the log's origin
	Size   int64
	Root   [32]byte
}

// errOldForm means that a file in an older format has no place for an entry.
var errOldForm = errors.New("headfile: a head file of an older form, which could not be brought to the newest")

// HasCosigned reports whether the file's format has places for the logs of others.
func (f *File) HasCosigned() bool { return f.form != first }

// IsNewest reports whether the file has the format that Create writes.
func (f *File) IsNewest() bool { return f.form == newest }

// Cosigned writes the last cosigned tree of a log, if it has changed.
func (f *File) Cosigned(c Cosigned) error {
	if !f.HasCosigned() {
		return errOldForm
	}
	if f.known == nil {
		if err := f.EachCosigned(func(Cosigned) error { return nil }); err != nil {
			return err
		}
	}
	n, found := f.known[c.Origin]
	if !found {
		for _, taken := range f.known { // the place of a damaged entry stays unused
			n = max(n, taken)
		}
		n++
	}
	var both [2 * slotSize]byte
	place := f.form.placeOf(2, n)
	read, err := f.f.ReadAt(both[:], place)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	was, which, sequence := decodeCosigned(both[:read])
	if was == c && sequence > 0 {
		return nil
	}
	if _, err = f.f.WriteAt(encodeCosigned(c, sequence+1), place+int64(1-which)*slotSize); err == nil {
		f.known[c.Origin] = n
	}
	return err
}

// EachCosigned calls yield for the last cosigned tree of each log of others. An error of yield ends
// it and is returned unchanged.
func (f *File) EachCosigned(yield func(Cosigned) error) error {
	known := map[[32]byte]int64{}
	if f.HasCosigned() {
		if err := f.pairs(func(place int64, both []byte) error {
			kind, n := f.form.at(place)
			if kind != 2 {
				return nil
			}
			c, _, sequence := decodeCosigned(both)
			if sequence == 0 {
				return nil
			}
			known[c.Origin] = n
			return yield(c)
		}); err != nil {
			return err
		}
	}
	f.known = known
	return nil
}

// encodeCosigned encodes a slot: sequence number, origin, size and root.
func encodeCosigned(c Cosigned, sequence uint64) []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, slotSize), sequence)
	b = append(b, c.Origin[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(c.Size))
	return seal(append(b, c.Root[:]...))
}

// decodeCosigned is decode for the slots of logs of others.
func decodeCosigned(both []byte) (newer Cosigned, which int, sequence uint64) {
	which = 1
	for i := range 2 {
		if len(both) < (i+1)*slotSize {
			break
		}
		slot := both[i*slotSize : (i+1)*slotSize]
		n := binary.BigEndian.Uint64(slot)
		if crc32.Checksum(slot[:crcAt], castagnoli()) != binary.BigEndian.Uint32(slot[crcAt:]) || n <= sequence {
			continue
		}
		newer, which, sequence = Cosigned{Size: int64(binary.BigEndian.Uint64(slot[40:]))}, i, n
		copy(newer.Origin[:], slot[8:])
		copy(newer.Root[:], slot[48:])
	}
	return newer, which, sequence
}
