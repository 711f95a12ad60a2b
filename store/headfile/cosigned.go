package headfile

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
)

// Cosigned is the last tree that the database's owner has cosigned, as a witness, of a log of
// somebody else.
type Cosigned struct {
	Origin [32]byte // the SHA-256 of the log's origin
	Size   int64
	Root   [32]byte
}

// errOldForm: a file of an older form has no place for what is to be written.
var errOldForm = errors.New("headfile: a head file of an older form, which could not be brought to the newest")

// HasCosigned says whether the file is of a form that has the logs of others.
func (f *File) HasCosigned() bool { return f.form != first }

// IsNewest says whether the file is of the form that Create makes.
func (f *File) IsNewest() bool { return f.form == newest }

// Cosigned writes the last tree that was cosigned of a log, unless it stands there.
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
		for _, taken := range f.known { // of one that is damaged the place stays free
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

// EachCosigned calls yield for the last tree that was cosigned of each log of others. An error of
// yield ends it and is returned as it is.
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

// encodeCosigned writes a slot: sequence number, origin, size and root.
func encodeCosigned(c Cosigned, sequence uint64) []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, slotSize), sequence)
	b = append(b, c.Origin[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(c.Size))
	return seal(append(b, c.Root[:]...))
}

// decodeCosigned is decode for the slots of a log of others.
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
