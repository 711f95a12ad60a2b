package postgres

import (
	"slices"

	"github.com/jackc/pgx/v5"
)

const (
	maxShared = 16384 // chains of which it is remembered that others extend them
	// reads that find nothing of another server until a chain is taken for this one's alone
	quiet = 3
)

// other is a chain that other servers have extended lately. Its head is held before it is built on:
// to build first would be in vain too often.
type other struct {
	length int64 // that was known last
	quiet  int   // reads in turn that found it so
}

// Head is a row of table head, and of company_key the row of the key that signs its next record.
type Head struct {
	Length, Epoch                        int64
	Root, Frontier, LogRoot, LogFrontier []byte
	Timestamp                            string
	Generation                           int64
	Seed, Public                         []byte
	Shared                               bool // other servers have extended the chain lately
	// rows stand beyond the head, which only an intruder can have written
	Beyond bool
}

// The head and its key are read in a statement of their own after the head is held: one that has
// waited for a row sees the others as they were before.
const (
	holdHeads = `SELECT FROM head WHERE chain = ANY ($1) ORDER BY chain FOR UPDATE`
	readHeads = `SELECT h.chain, h.length, h.root, h.frontier, h.timestamp, h.log_root, h.log_frontier, h.epoch, k.generation, k.seed, k.public_key,
	EXISTS (SELECT FROM record WHERE id BETWEEN (h.chain << 40) + h.length AND (h.chain << 40) + 1099511627775)
	OR EXISTS (SELECT FROM node n WHERE n.chain = h.chain AND n.level = 8 AND n.idx >= h.length >> 8)
`
	readNodes = `	OR EXISTS (SELECT FROM unnest(ARRAY[16, 24, 32]) AS l (level), node n WHERE n.chain = h.chain AND n.level = l.level AND n.idx >= h.length >> l.level)
`
	fromHeads = `FROM head h JOIN company_key k ON k.company = abs(h.chain) AND k.ended_at IS NULL WHERE h.chain = ANY ($1)`

	readHeadsOnly = readHeads + fromHeads
	// the rows that are written once in 65,536 records too
	readHeadsAndNodes = readHeads + readNodes + fromHeads
)

// Heads reads the heads of chains. Those that other servers extend too are held until the
// transaction ends, which is begun for that, as all are in one that is open.
func (w *Writer) Heads(chains []int64) (map[int64]Head, error) {
	hold := w.open
	for _, c := range chains {
		hold = hold || w.shared[c] != nil
	}
	b := &pgx.Batch{}
	if hold && !w.open {
		w.begin(b, false)
	}
	if hold {
		b.Queue(holdHeads, chains)
	}
	found := make(map[int64]Head, len(chains))
	text := readHeadsOnly
	if w.suspicious {
		text = readHeadsAndNodes
	}
	b.Queue(text, chains).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var c int64
			var h Head
			if err := rows.Scan(&c, &h.Length, &h.Root, &h.Frontier, &h.Timestamp, &h.LogRoot, &h.LogFrontier, &h.Epoch, &h.Generation, &h.Seed, &h.Public, &h.Beyond); err != nil {
				return err
			}
			h.Shared = w.look(c, h.Length)
			found[c] = h
		}
		return rows.Err()
	})
	if err := w.send(b, w.deadline(answerTimeout)); err != nil {
		return nil, w.failed(err)
	}
	return found, nil
}

// look says whether others extend a chain whose head was read.
func (w *Writer) look(chain, length int64) bool {
	o := w.shared[chain]
	switch {
	case o == nil:
		return false
	case o.length != length:
		o.length, o.quiet = length, 0
	default:
		o.quiet++
	}
	if o.quiet >= quiet {
		delete(w.shared, chain)
		return false
	}
	return true
}

// committed notes what a transaction has moved, and returns the chains that others had moved
// before.
func (w *Writer) committed(r *rows, moved []int64) (stale []int64) {
	stale = r.stale(moved)
	for _, c := range stale {
		if len(w.shared) >= maxShared {
			clear(w.shared)
		}
		w.shared[c] = &other{length: -1}
	}
	for i, c := range r.chain {
		if o := w.shared[c]; o != nil && !slices.Contains(stale, c) {
			o.length = r.length[i]
		}
	}
	return stale
}
