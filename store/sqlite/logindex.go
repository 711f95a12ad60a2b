package sqlite

import (
	"bytes"
	"encoding/binary"
)

// indexState is what the index of the log, the file "-shm", says of the log and the database: what
// every connection believes, whatever the files hold.
// https://www.sqlite.org/walformat.html#the_wal_index_header
type indexState struct {
	frames   uint32 // up to the last commit; 0 after a log was moved into the database whole
	pages    uint32 // of the database after the last commit
	pageSize int64
	sum      [8]byte // of the last frame, as that has it
	salt     [8]byte // of the log, another one each time that it starts over
	moved    uint32  // frames that are in the database
}

const (
	indexHeader = 48 // which comes twice
	indexRead   = 2*indexHeader + 4
)

// state reads the index; not ok while somebody writes it.
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

// sameLog says whether nothing was added to the log.
func (s indexState) sameLog(other indexState) bool {
	s.moved = other.moved
	return s == other
}

func (s indexState) frameSize() int64 { return frameHeader + s.pageSize }

func (s indexState) sizeOf(frames uint32) int64 { return logHeader + int64(frames)*s.frameSize() }

// logSize is the least size of the log.
func (s indexState) logSize() int64 {
	if s.frames == 0 {
		return 0
	}
	return s.sizeOf(s.frames)
}

// holds says whether what was read of the log, from an offset up to its end, are frames of this log
// up to its last commit.
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
