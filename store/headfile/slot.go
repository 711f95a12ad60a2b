package headfile

import (
	"encoding/binary"
	"hash/crc32"
)

// encode encodes a slot: sequence number, chain, log ID, size, roots, revocations, and the
// checkpoint's size, root and signature.
func encode(h *Head, sequence uint64) []byte {
	b := make([]byte, 0, slotSize)
	b = binary.BigEndian.AppendUint64(b, sequence)
	b = binary.BigEndian.AppendUint64(b, uint64(h.Chain))
	b = append(b, h.LogID[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(h.Size))
	b = append(b, h.Root[:]...)
	b = append(b, h.LogRoot[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(h.Revocations))
	b = binary.BigEndian.AppendUint64(b, uint64(h.Checkpoint.Size))
	b = append(b, h.Checkpoint.Root[:]...)
	b = append(b, h.Checkpoint.Signature[:]...)
	return seal(b)
}

// decode decodes the two slots of a chain and returns the newer valid one, its number, and its
// sequence number. If neither is valid it returns 1 and 0, so that the first slot is written next.
func decode(both []byte, chain int64) (newer Head, which int, sequence uint64) {
	newer, which = Head{Chain: chain}, 1
	for i := range 2 {
		if len(both) < (i+1)*slotSize {
			break
		}
		h, n := decodeSlot(both[i*slotSize : (i+1)*slotSize])
		if h.Chain == chain && n > sequence {
			newer, which, sequence = h, i, n
		}
	}
	return newer, which, sequence
}

// decodeSlot decodes a slot. The sequence number is 0 if the slot is invalid.
func decodeSlot(slot []byte) (h Head, sequence uint64) {
	if crc32.Checksum(slot[:crcAt], castagnoli()) != binary.BigEndian.Uint32(slot[crcAt:]) {
		return h, 0
	}
	number := func() uint64 {
		n := binary.BigEndian.Uint64(slot)
		slot = slot[8:]
		return n
	}
	bytes := func(into []byte) { slot = slot[copy(into, slot):] }
	sequence = number()
	h.Chain = int64(number())
	bytes(h.LogID[:])
	h.Size = int64(number())
	bytes(h.Root[:])
	bytes(h.LogRoot[:])
	h.Revocations = int64(number())
	h.Checkpoint.Size = int64(number())
	bytes(h.Checkpoint.Root[:])
	bytes(h.Checkpoint.Signature[:])
	return h, sequence
}
