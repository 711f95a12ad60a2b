package attack

import (
	"encoding/binary"
	"fmt"
)

// image is the remains of a database and its log.
type image struct {
	name    string
	db, wal []byte
	journal *journal
	cut     int64 // everything acknowledged when the log had at most this length must be there
}

// Sizes of SQLite's write-ahead log (https://sqlite.org/fileformat2.html#walformat).
const (
	walHeader   = 32
	frameHeader = 24
	sector      = 512
)

// images returns the files as a power loss may leave them: what was synced, and any part of the
// rest.
func (p *loss) images() (list []image) {
	number := func(long, brief int) int {
		if short() {
			return brief
		}
		return long
	}
	page := int(binary.BigEndian.Uint32(p.log[8:]))
	for range number(240, 24) {
		list = append(list, p.cutLog(page))
	}
	for range number(80, 8) {
		list = append(list, p.holedLog(page))
	}
	for range number(80, 8) {
		list = append(list, p.halfCheckpoint(page))
	}
	for range number(80, 8) {
		list = append(list, p.overwrittenLog(page))
	}
	return list
}

// place picks an end for the log: the end of a frame or, with equal probability, a point within
// one.
func (p *loss) place(log []byte, page int) int {
	frame := frameHeader + page
	at := walHeader + p.Chance.IntN((len(log)-walHeader)/frame+1)*frame
	if p.Chance.IntN(2) == 0 {
		at += []int{1, 8, frameHeader - 1, frameHeader, frameHeader + sector, frameHeader + page/2,
			frame - 1}[p.Chance.IntN(7)]
	}
	if p.Chance.IntN(20) == 0 {
		at = p.Chance.IntN(walHeader + 1)
	}
	return min(at, len(log))
}

// cutLog truncates the log.
func (p *loss) cutLog(page int) image {
	at := p.place(p.log, page)
	return image{fmt.Sprintf("log cut at %d", at), p.before, p.log[:at], p.first, int64(at)}
}

// holedLog truncates the log at the end of a frame. Of the following frames some were written,
// others not or in part, in any order.
func (p *loss) holedLog(page int) image {
	frame := frameHeader + page
	frames := (len(p.log) - walHeader) / frame
	at := walHeader + p.Chance.IntN(frames)*frame
	end := min(at+(1+p.Chance.IntN(12))*frame, walHeader+frames*frame)
	wal := append([]byte(nil), p.log[:end]...)
	holed := false
	for from := at; from < end; from += sector {
		to := min(from+sector, end)
		switch p.Chance.IntN(4) {
		case 0:
			clear(wal[from:to])
		case 1:
			for i := from; i < to; i++ {
				wal[i] = byte(p.Chance.Uint32())
			}
		default:
			continue
		}
		holed = true
	}
	if !holed {
		wal[at+p.Chance.IntN(end-at)] ^= 1 << p.Chance.IntN(8)
	}
	return image{fmt.Sprintf("log with holes from %d to %d", at, end), p.before, wal, p.first, int64(at)}
}

// halfCheckpoint has the whole log, and a database with some pages from the checkpoint, some old
// pages, and some torn ones.
func (p *loss) halfCheckpoint(page int) image {
	db := append([]byte(nil), p.before...)
	moved := 0
	for from := 0; from < len(p.after); from += page {
		kind := p.Chance.IntN(3)
		if kind == 0 {
			continue
		}
		if grow := from + page - len(db); grow > 0 {
			db = append(db, make([]byte, grow)...)
		}
		moved++
		for s := from; s < from+page; s += sector {
			if kind == 1 || p.Chance.IntN(2) == 0 {
				copy(db[s:s+sector], p.after[s:])
			}
		}
	}
	return image{fmt.Sprintf("checkpoint with %d pages of %d moved", moved, len(p.after)/page), db, p.log, p.first,
		int64(len(p.log))}
}

// overwrittenLog is the state after the checkpoint: a new log overwrites the old one in the same
// file.
func (p *loss) overwrittenLog(page int) image {
	at := p.place(p.next, page)
	wal := append([]byte(nil), p.next[:at]...)
	if at < len(p.log) {
		wal = append(wal, p.log[at:]...)
	}
	return image{fmt.Sprintf("second log up to %d over the first", at), p.after, wal, p.second, int64(at)}
}
