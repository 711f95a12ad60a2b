package postgres

import (
	"database/sql"
	"slices"

	"github.com/jackc/pgx/v5"
)

const (
	maxShared = 16384 // bound on the chains that are known to be extended by other servers
	// consecutive reads without changes by other servers after which a chain counts as only this
	// server's
	quiet = 3
)

// other is the state of a chain that other servers have extended recently. Its head is locked
// before it is extended, because otherwise too many extensions would fail.
type other struct {
	length int64 // last known length
	quiet  int   // consecutive reads that found this length
}

// Head is a row of table head with the company_key row of the key that signs the next record.
type Head struct {
	Length, Epoch                        int64
	Root, Frontier, LogRoot, LogFrontier []byte
	Timestamp                            string
	Generation                           int64
	Seed, Public                         []byte
	Bytes                                int64
	Suspended                            bool
	MaxRecords, MaxBytes                 sql.NullInt64 // of the company; NULL for the server's
	Revision                             int64         // of the company's policies
	Shared                               bool          // with other servers, recently
	// rows exist beyond the head, which only an external write can have added
	Beyond bool
}

// Heads and their keys are read in a separate statement after the heads are locked, because a
// statement that waits for a lock sees other rows as they were before.
const (
	holdHeads = `SELECT FROM head WHERE chain = ANY ($1) ORDER BY chain FOR UPDATE`
	readHeads = `SELECT h.chain, h.length, h.root, h.frontier, h.timestamp, h.log_root, h.log_frontier, h.epoch, k.generation, k.seed, k.public_key, h.bytes, s.suspended_at IS NOT NULL, q.max_records, q.max_bytes, coalesce(c.revision, 0),
	EXISTS (SELECT FROM record WHERE id BETWEEN (h.chain << 40) + h.length AND (h.chain << 40) + 1099511627775)
	OR EXISTS (SELECT FROM node n WHERE n.chain = h.chain AND n.level = 8 AND n.idx >= h.length >> 8)
`
	readNodes = `	OR EXISTS (SELECT FROM unnest(ARRAY[16, 24, 32]) AS l (level), node n WHERE n.chain = h.chain AND n.level = l.level AND n.idx >= h.length >> l.level)
`
	fromHeads = `FROM head h JOIN company_key k ON k.company = abs(h.chain) AND k.ended_at IS NULL
	LEFT JOIN company_suspension s ON s.company = abs(h.chain) LEFT JOIN company_quota q ON q.company = abs(h.chain)
	LEFT JOIN cedar_set c ON c.company = abs(h.chain) WHERE h.chain = ANY ($1)`

	readHeadsOnly = readHeads + fromHeads
	// also checks rows that are written only once in 65,536 records
	readHeadsAndNodes = readHeads + readNodes + fromHeads
)

// Heads reads the heads of chains. Those that other servers extend too are locked until the
// transaction ends, which begins if necessary. In an open transaction all are locked.
func (w *Writer) Heads(chains []int64) (map[int64]Head, error) {
	hold := w.open
	for _, c := range chains {
		_, shared := w.shared.Get(c)
		hold = hold || shared
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
			if err := rows.Scan(&c, &h.Length, &h.Root, &h.Frontier, &h.Timestamp, &h.LogRoot, &h.LogFrontier, &h.Epoch,
				&h.Generation, &h.Seed, &h.Public, &h.Bytes, &h.Suspended, &h.MaxRecords, &h.MaxBytes, &h.Revision, &h.Beyond); err != nil {
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

// look updates the state of a chain whose head was read, and reports whether other servers extend
// the chain.
func (w *Writer) look(chain, length int64) bool {
	o, is := w.shared.Get(chain)
	switch {
	case !is:
		return false
	case o.length != length:
		o.length, o.quiet = length, 0
	default:
		o.quiet++
	}
	if o.quiet >= quiet {
		w.shared.Delete(chain)
		return false
	}
	return true
}

// committed updates the state of shared chains after a commit, and returns the chains that other
// servers had moved before it.
func (w *Writer) committed(r *rows, moved []int64) (stale []int64) {
	stale = r.stale(moved)
	for _, c := range stale {
		w.shared.Put(c, &other{length: -1})
	}
	for i, c := range r.chain {
		if o, is := w.shared.Get(c); is && !slices.Contains(stale, c) {
			o.length = r.length[i]
		}
	}
	return stale
}
