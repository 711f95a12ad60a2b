package ledger

import (
	"fmt"

	"attestd/chain"
	"attestd/store/db"
)

// Extend implements chain.Transaction. An existing row, which only an altered file has, is
// ErrCorrupt.
func (tx *transaction) Extend(e *chain.Extension) error {
	moved, err := tx.Exec(`UPDATE head SET length = ?, root = ?, frontier = ?, timestamp = ?, log_root = ?, log_frontier = ?, bytes = ?
		WHERE chain = ? AND length = ? AND root = ?`,
		e.Head.Length, e.Head.Root[:], db.JoinHashes(e.Head.Frontier), e.Head.Timestamp, e.Head.LogRoot[:], db.JoinHashes(e.Head.Log.Roots), e.Head.Bytes, e.Chain, e.From.Length, e.From.Root[:])
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
		if _, err := tx.Exec(`INSERT INTO record (id, hash, signature, timestamp, payload, delegation)
			VALUES (?, ?, ?, ?, ?, ?)`,
			db.RecordID(e.Chain, r.Index), r.Hash[:], r.Signature[:], r.Timestamp, string(r.Payload), delegation); err != nil {
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
		if _, err := tx.Exec(`INSERT INTO node (chain, level, idx, hash, log_hash) VALUES (?, ?, ?, ?, ?)`,
			e.Chain, n.Level, n.Index, n.Hash[:], n.LogHash[:]); err != nil {
			return beyondHead(fmt.Sprintf("node %d of level %d", n.Index, n.Level), err)
		}
	}
	return InsertSummaries(tx.Conn, tx.w.summarize(e))
}

// beyondHead distinguishes an existing row from other failures.
func beyondHead(what string, err error) error {
	if !db.IsConstraint(err) {
		return err
	}
	return fmt.Errorf("%w: %s stands beyond the head: %w", db.ErrCorrupt, what, err)
}
