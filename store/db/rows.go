package db

import (
	"database/sql"
	"fmt"

	"attestd/chain"
)

// A record's row ID consists of its chain's ID and its index, so that one B-tree holds every chain
// contiguously and in order.
const (
	IndexBits = 40
	IndexMask = 1<<IndexBits - 1
)

func RecordID(chain, index int64) int64 { return chain<<IndexBits + index }

// RecordIDs returns the smallest and the largest row ID of the records of a chain.
func RecordIDs(chain int64) (first, last int64) {
	return RecordID(chain, 0), RecordID(chain, IndexMask)
}

// Records implements Records on one connection in a given order.
func (c *Conn) Records(number, from, to int64, order string, yield func(*chain.Record) error) error {
	var r chain.Record
	var id int64
	var hash, signature, payload, delegation sql.RawBytes
	row := func(rows *sql.Rows) error {
		if err := rows.Scan(&id, &hash, &signature, &r.Timestamp, &payload, &delegation); err != nil {
			return fmt.Errorf("records of chain %d: %w", number, err)
		}
		r.Index = id & IndexMask
		FillHash(r.Hash[:], hash)
		FillHash(r.Signature[:], signature)
		r.Payload, r.Delegation = payload, delegation
		return yield(&r)
	}
	return c.Each(row, `SELECT id, hash, signature, timestamp, payload, delegation FROM record WHERE id BETWEEN ? AND ? `+
		order,
		RecordID(number, max(from, 0)), RecordID(number, min(to, IndexMask+1))-1)
}

func JoinHashes[H ~[32]byte](hashes []H) []byte {
	joined := make([]byte, 0, len(hashes)*len(H{}))
	for i := range hashes {
		joined = append(joined, hashes[i][:]...)
	}
	return joined
}

func SplitHashes[H ~[32]byte](joined []byte) []H {
	hashes := make([]H, len(joined)/len(H{}))
	for i := range hashes {
		copy(hashes[i][:], joined[i*len(H{}):])
	}
	return hashes
}

// FillHash copies a stored hash or signature. One of a wrong length, which only an altered file
// has, becomes zeros, which no check accepts. So verification reports a bad record instead of a
// failed read.
func FillHash(dst, stored []byte) {
	clear(dst)
	if len(stored) == len(dst) {
		copy(dst, stored)
	}
}
