package chain

import "encoding/binary"

// Series is the hash of a name under which records of a chain are found together, by their keys:
// the keys of a series stand beside one another, in the order of their numbers.
type Series Hash

// At returns the name of the key with a number, which MUST NOT be negative: half of the hash, the
// number, and more of the hash.
func (s Series) At(number int64) (name Hash) {
	copy(name[:], s[:16])
	binary.BigEndian.PutUint64(name[16:], uint64(number))
	copy(name[24:], s[16:])
	return name
}

// Number returns the number of which a name is the key. ok is false where the name is of no key of
// the series: another name may share the first half.
func (s Series) Number(name Hash) (number int64, ok bool) {
	number = int64(binary.BigEndian.Uint64(name[16:]))
	return number, number >= 0 && name == s.At(number)
}
