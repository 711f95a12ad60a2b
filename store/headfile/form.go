package headfile

import (
	"encoding/binary"
	"hash/crc32"
)

// form is how a file is laid out: its number, which stands in the magic text.
type form byte

const (
	first  form = '1' // without the logs of others
	second form = '2' // without the logs of the installation
	newest form = '3'
)

// Installation is the number of the owner of the log of the companies, which is above that of each
// company: its chains have a place of their own.
const Installation = 1<<23 - 1

// kinds is of how many kinds of logs there are slots, one after the other: actions, control, and
// logs of others.
func (f form) kinds() int64 {
	if f == first {
		return 2
	}
	return 3
}

// base is where the slots of companies begin.
func (f form) base() int64 {
	if f == newest {
		return 5 * slotSize // behind those of the installation's two chains
	}
	return slotSize
}

// placeOf is where the two slots of the n-th log of a kind stand, n from 1.
func (f form) placeOf(kind, n int64) int64 { return f.base() + (f.kinds()*(n-1)+kind)*2*slotSize }

// place is where the two slots of a chain stand.
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

// at is the log whose slots stand at a place, from base on.
func (f form) at(place int64) (kind, n int64) {
	pair := (place - f.base()) / (2 * slotSize)
	return pair % f.kinds(), pair/f.kinds() + 1
}

// chainAt is the chain whose slots stand at a place, 0 where they are of no chain.
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

// seal fills a slot up and ends it with its checksum.
func seal(slot []byte) []byte {
	slot = append(slot, make([]byte, crcAt-len(slot))...)
	return binary.BigEndian.AppendUint32(slot, crc32.Checksum(slot, castagnoli()))
}
