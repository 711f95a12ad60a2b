package sqlite

import (
	"bytes"
	"encoding/binary"
)

// indexState is the content of the log's index, the file "-shm": what every connection believes
// about the log and the database. https://www.sqlite.org/walformat.html#the_wal_index_header
type indexState struct {
	frames   uint32 // up to the last commit; 0 after a complete checkpoint
	pages    uint32 // in the database after the last commit
	pageSize int64
	sum      [8]byte // checksum in the last frame
	salt     [8]byte // of the log; changes each time it restarts
	moved    uint32  // frames that were checkpointed
}

const (
	indexHeader = 48 // occurs twice
	indexRead   = 2*indexHeader + 4
)

// state reads the index. ok is false while it is being written.
func (c *logCopy) state() (s indexState, ok bool) {
	var b [indexRead]byte
	if _, err := c.index.ReadAt(b[:], 0); err != nil {
		return s, false
	}
	order := binary.NativeEndian
	if b[12] == 0 || !bytes.Equal(b[:indexHeader], b[indexHeader:2*indexHeader]) {
		return s, false
	}
	s.pageSize = int64(order.Uint16(b[14:]))
	if s.pageSize == 1 {
		s.pageSize = 1 << 16
	}
	s.frames, s.pages, s.moved = order.Uint32(b[16:]), order.Uint32(b[20:]), order.Uint32(b[2*indexHeader:])
	binary.BigEndian.PutUint32(s.sum[:], order.Uint32(b[24:]))
	binary.BigEndian.PutUint32(s.sum[4:], order.Uint32(b[28:]))
	copy(s.salt[:], b[32:])
	return s, true
}

// sameLog reports whether nothing was added to the log.
func (s indexState) sameLog(other indexState) bool {
	s.moved = other.moved
	return s == other
}

func (s indexState) frameSize() int64 { return frameHeader + s.pageSize }

func (s indexState) sizeOf(frames uint32) int64 { return logHeader + int64(frames)*s.frameSize() }

// logSize returns the minimum size of the log.
func (s indexState) logSize() int64 {
	if s.frames == 0 {
		return 0
	}
	return s.sizeOf(s.frames)
}

// holds reports whether a part of the log, from an offset to its end, consists of frames of this
// log up to its last commit.
func (s indexState) holds(read []byte, from int64) bool {
	if from == 0 {
		if !bytes.Equal(read[16:24], s.salt[:]) {
			return false
		}
		read = read[logHeader:]
	}
	for size := s.frameSize(); ; read = read[size:] {
		if !bytes.Equal(read[8:16], s.salt[:]) {
			return false
		}
		if int64(len(read)) == size {
			return bytes.Equal(read[16:24], s.sum[:]) && binary.BigEndian.Uint32(read[4:]) != 0
		}
	}
}
