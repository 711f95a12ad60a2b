package headfile

import (
	"encoding/binary"
	"hash/crc32"
)

// form is the version of a file's format, as in the magic text.
type form byte

const (
	first  form = '1' // no logs of others
	second form = '2' // no logs of the installation
	newest form = '3'
)

// Installation is the number of the owner of the log of the companies, greater than that of any
// company. Its chains have separate slots.
const Installation = 1<<23 - 1

// kinds returns the number of interleaved kinds of logs: actions, control, and logs of others.
func (f form) kinds() int64 {
	if f == first {
		return 2
	}
	return 3
}

// base returns the offset of the slots of companies.
func (f form) base() int64 {
	if f == newest {
		return 5 * slotSize // after the slots of the installation's two chains
	}
	return slotSize
}

// placeOf returns the offset of the two slots of the n-th log of a kind, where n starts at 1.
func (f form) placeOf(kind, n int64) int64 { return f.base() + (f.kinds()*(n-1)+kind)*2*slotSize }

// place returns the offset of the two slots of a chain.
func (f form) place(chain int64) int64 {
	switch {
	case f == newest && chain == Installation:
		return slotSize
	case f == newest && chain == -Installation:
		return 3 * slotSize
	}
	if chain < 0 {
		return f.placeOf(1, -chain)
	}
	return f.placeOf(0, chain)
}

// at returns the log whose slots are at an offset, which MUST be at least base.
func (f form) at(place int64) (kind, n int64) {
	pair := (place - f.base()) / (2 * slotSize)
	return pair % f.kinds(), pair/f.kinds() + 1
}

// chainAt returns the chain whose slots are at an offset, or 0 for a log of others.
func (f form) chainAt(place int64) int64 {
	if place < f.base() {
		return map[int64]int64{slotSize: Installation, 3 * slotSize: -Installation}[place]
	}
	switch kind, n := f.at(place); kind {
	case 0:
		return n
	case 1:
		return -n
	}
	return 0
}

func header(id ID, of form) []byte {
	return seal(append(append(append(make([]byte, 0, slotSize), "attestd heads "...), byte(of), '\n'), id[:]...))
}

// seal pads a slot and appends its checksum.
func seal(slot []byte) []byte {
	slot = append(slot, make([]byte, crcAt-len(slot))...)
	return binary.BigEndian.AppendUint32(slot, crc32.Checksum(slot, castagnoli()))
}
