// Package verified stores, next to the head file and outside the database, what a server has
// verified of each log. So the first verification after a start reads and hashes every row, as each
// one does, and checks only those signatures that were never checked. The package does not use SQL.
//
// # What an entry says
//
// That records with exactly these bytes (a SHA-256) verify for exactly this owner and these keys
// (another one). This stays true for ever, in each copy of the database, so an older file or that
// of another database cannot make a bad record good: its entries meet other bytes. It is true only
// if a server has written it, hence the MAC.
//
// # Format
//
// Integers are big-endian, times are milliseconds since 1970, or 0 for never.
//
//	magic     "attestd verified 1\n"
//	database  16 bytes, its ID
//	program   32 bytes, SHA-256 of the version of attestd: another one verifies everything again
//	since     8 bytes: every log has been verified since that time
//	passes    2 times 40 bytes, the current pass and the last complete one: times of begin and end,
//	          company reached, companies failed, companies that could not be read
//	counts    2 times 8 bytes, companies verified in each
//	number    4 bytes, of the entries
//	entries   chain ID, length, terms (32), digest (32), and the roots (32 each) of the log tree's
//	          frontier, whose number follows from the length; in the order of chain IDs
//	MAC       HMAC-SHA256 of all before it
//
// The key of the MAC is HKDF-SHA256 of the master key where the database is sealed, otherwise of 32
// random bytes in a file of their own, with the database's ID as salt; see seal.Master.
package verified

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"time"

	"attestd/chain"
	"attestd/chain/tlog"
)

// ErrInvalid means that a file is not one that a server of this database and this version has
// written with the current key.
var ErrInvalid = errors.New("not what a server of this database and version has written")

// Pass is one run of the background verification over all companies.
type Pass struct {
	Begun, Ended time.Time // zero for never
	Reached      int64     // number of the last company that was verified
	// numbers of companies: those that verify, those that do not, and those that could not be read
	Verified, Failed, Unread int64
}

// Contents are what the file says.
type Contents struct {
	// every log that was there at this time has been verified since; zero for never
	Since         time.Time
	Current, Last Pass
	Known         map[int64]chain.Prefix // by chain ID
}

const (
	magic = "attestd verified 1\n"

	// maxSize bounds the file. It has room for some 80,000 entries of logs of 1,000 records.
	maxSize = 32 << 20

	passSize   = 5 * 8
	headerSize = len(magic) + 16 + sha256.Size + 8 + 2*passSize + 2*8 + 4
	entrySize  = 8 + 8 + 2*sha256.Size // without the roots
	maxLength  = 1 << 40               // of a log
)

// encode returns the contents of a file without the MAC. If there are too many entries, it leaves
// out the shortest logs.
func encode(c Contents, database [16]byte, program string) []byte {
	chains := slices.SortedFunc(maps.Keys(c.Known), func(a, b int64) int { return int(c.Known[b].Length - c.Known[a].Length) })
	size := headerSize + sha256.Size
	for i, id := range chains {
		if size += entrySize + sha256.Size*len(c.Known[id].Log.Roots); size > maxSize {
			chains = chains[:i]
			break
		}
	}
	slices.Sort(chains)
	b := append(make([]byte, 0, min(size, maxSize)), magic...)
	b = append(b, database[:]...)
	of := sha256.Sum256([]byte(program))
	b = append(b, of[:]...)
	b = appendTime(b, c.Since)
	for _, p := range []Pass{c.Current, c.Last} {
		b = appendTime(appendTime(b, p.Begun), p.Ended)
		b = binary.BigEndian.AppendUint64(b, uint64(p.Reached))
		b = binary.BigEndian.AppendUint64(b, uint64(p.Failed))
		b = binary.BigEndian.AppendUint64(b, uint64(p.Unread))
	}
	b = binary.BigEndian.AppendUint64(b, uint64(c.Current.Verified))
	b = binary.BigEndian.AppendUint64(b, uint64(c.Last.Verified))
	b = binary.BigEndian.AppendUint32(b, uint32(len(chains)))
	for _, id := range chains {
		p := c.Known[id]
		b = binary.BigEndian.AppendUint64(b, uint64(id))
		b = binary.BigEndian.AppendUint64(b, uint64(p.Length))
		b = append(append(b, p.Terms[:]...), p.Digest[:]...)
		for _, root := range p.Log.Roots {
			b = append(b, root[:]...)
		}
	}
	return b
}

func appendTime(b []byte, t time.Time) []byte {
	var ms int64
	if !t.IsZero() {
		ms = t.UnixMilli()
	}
	return binary.BigEndian.AppendUint64(b, uint64(ms))
}

// seal appends the MAC.
func seal(b, key []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write(b)
	return mac.Sum(b)
}

// open checks the MAC and returns what precedes it.
func open(b, key []byte) ([]byte, error) {
	if len(b) < headerSize+sha256.Size || len(b) > maxSize {
		return nil, fmt.Errorf("%w: it has %d bytes", ErrInvalid, len(b))
	}
	body := b[:len(b)-sha256.Size]
	if !hmac.Equal(seal(slices.Clip(body), key), b) {
		return nil, fmt.Errorf("%w: its MAC is wrong", ErrInvalid)
	}
	return body, nil
}

// decode parses what encode has returned, and nothing else.
func decode(b []byte, database [16]byte, program string) (c Contents, err error) {
	r := reader{rest: b}
	isMagic := string(r.bytes(len(magic))) == magic
	isDatabase := [16]byte(r.bytes(16)) == database
	isProgram := chain.Hash(r.bytes(sha256.Size)) == sha256.Sum256([]byte(program))
	switch {
	case !isMagic:
		return c, fmt.Errorf("%w: it is of another format", ErrInvalid)
	case !isDatabase:
		return c, fmt.Errorf("%w: it is of another database", ErrInvalid)
	case !isProgram:
		return c, fmt.Errorf("%w: it is of another version of attestd", ErrInvalid)
	}
	c.Since = r.time()
	for _, p := range []*Pass{&c.Current, &c.Last} {
		p.Begun, p.Ended = r.time(), r.time()
		p.Reached, p.Failed, p.Unread = r.count(), r.count(), r.count()
	}
	c.Current.Verified, c.Last.Verified = r.count(), r.count()
	n := binary.BigEndian.Uint32(r.bytes(4))
	if r.short || int64(n)*entrySize > int64(len(r.rest)) {
		return Contents{}, fmt.Errorf("%w: it is cut short", ErrInvalid)
	}
	c.Known = make(map[int64]chain.Prefix, n)
	var before int64
	for i := range n {
		id, p := int64(r.uint64()), chain.Prefix{Length: r.count()}
		if i > 0 && id <= before || id == 0 || p.Length == 0 || p.Length > maxLength {
			r.short = true
			break
		}
		p.Terms, p.Digest = chain.Hash(r.bytes(sha256.Size)), chain.Hash(r.bytes(sha256.Size))
		p.Log.Size = p.Length
		for range bits.OnesCount64(uint64(p.Length)) {
			p.Log.Roots = append(p.Log.Roots, tlog.Hash(r.bytes(sha256.Size)))
		}
		c.Known[id], before = p, id
	}
	if r.short || len(r.rest) > 0 {
		return Contents{}, fmt.Errorf("%w: its entries are malformed", ErrInvalid)
	}
	return c, nil
}

// reader reads fields from the front. After a field that is missing or out of range, short is true.
type reader struct {
	rest  []byte
	short bool
}

func (r *reader) bytes(n int) []byte {
	if r.short = r.short || len(r.rest) < n; r.short {
		return make([]byte, n)
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) uint64() uint64 { return binary.BigEndian.Uint64(r.bytes(8)) }

// count reads a number that is not negative.
func (r *reader) count() int64 {
	n := int64(r.uint64())
	if n < 0 {
		r.short = true
		return 0
	}
	return n
}

func (r *reader) time() time.Time {
	ms := r.count()
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}
