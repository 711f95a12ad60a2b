package store

import (
	"fmt"

	"attestd/chain"
)

// A record's row ID consists of its chain's ID and its index, so that one B-tree holds every chain
// contiguously and in order.
const (
	indexBits = 40
	indexMask = 1<<indexBits - 1
)

func recordID(chain, index int64) int64 { return chain<<indexBits + index }

// RecordIDs returns the smallest and the largest row ID of the records of a chain.
func RecordIDs(chain int64) (first, last int64) {
	return recordID(chain, 0), recordID(chain, indexMask)
}

// Extend implements chain.Transaction. An existing row, which only an altered file has, is
// ErrCorrupt.
func (tx *transaction) Extend(e *chain.Extension) error {
	moved, err := tx.exec(`UPDATE head SET length = ?, root = ?, frontier = ?, timestamp = ?, log_root = ?, log_frontier = ?, bytes = ?
		WHERE chain = ? AND length = ? AND root = ?`,
		e.Head.Length, e.Head.Root[:], joinHashes(e.Head.Frontier), e.Head.Timestamp, e.Head.LogRoot[:], joinHashes(e.Head.Log.Roots), e.Head.Bytes, e.Chain, e.From.Length, e.From.Root[:])
	if err != nil {
		return err
	}
	if moved == 0 {
		return chain.ErrStale
	}
	for i := range e.Records {
		r := &e.Records[i]
		var delegation any // NULL
		if r.Delegation != nil {
			delegation = string(r.Delegation)
		}
		// One row per statement: several rows in one statement were measured to save a tenth of
		// this, which is a fraction of the sync.
		if _, err := tx.exec(`INSERT INTO record (id, hash, signature, timestamp, payload, delegation)
			VALUES (?, ?, ?, ?, ?, ?)`,
			recordID(e.Chain, r.Index), r.Hash[:], r.Signature[:], r.Timestamp, string(r.Payload), delegation); err != nil {
			return beyondHead(fmt.Sprintf("record %d", r.Index), err)
		}
	}
	tx.added.add(usageOf(e))
	if err := tx.keep(e); err != nil {
		return err
	}
	if len(e.Keys) > 0 {
		tx.extensions = append(tx.extensions, e)
	}
	for i := range e.Nodes {
		n := &e.Nodes[i]
		if _, err := tx.exec(`INSERT INTO node (chain, level, idx, hash, log_hash) VALUES (?, ?, ?, ?, ?)`,
			e.Chain, n.Level, n.Index, n.Hash[:], n.LogHash[:]); err != nil {
			return beyondHead(fmt.Sprintf("node %d of level %d", n.Index, n.Level), err)
		}
	}
	return insertSummaries(tx.conn, tx.w.summarize(e))
}

// beyondHead distinguishes an existing row from other failures.
func beyondHead(what string, err error) error {
	if !isConstraint(err) {
		return err
	}
	return fmt.Errorf("%w: %s stands beyond the head: %w", ErrCorrupt, what, err)
}

func joinHashes[H ~[32]byte](hashes []H) []byte {
	joined := make([]byte, 0, len(hashes)*len(H{}))
	for i := range hashes {
		joined = append(joined, hashes[i][:]...)
	}
	return joined
}

func splitHashes[H ~[32]byte](joined []byte) []H {
	hashes := make([]H, len(joined)/len(H{}))
	for i := range hashes {
		copy(hashes[i][:], joined[i*len(H{}):])
	}
	return hashes
}
