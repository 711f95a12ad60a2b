package store

import (
	"context"
	"encoding/hex"
	"errors"
	"maps"
	"slices"

	"attestd/chain"
	"attestd/store/db"
	"attestd/store/headfile"
)

// All returns in what the database is behind its head file, its stored checkpoints, and what it has
// cosigned. The caller MUST NOT have started Run.
func (s Rollback) All(ctx context.Context) ([]Behind, error) {
	kept, err := s.checkpoints.compareKept(ctx, "true")
	if err != nil {
		return nil, err
	}
	all := append(s.head.behind, kept...)
	if cosigner := s.cosigner.cosigned.behind; cosigner != nil {
		all = append(all, cosigner.Behind...)
	}
	return all, nil
}

// Accept accepts the state of the database as the truth. It records what was lost in the control
// log of each affected company, or of the oldest company if the affected one is gone, in one
// transaction. It does not record again what the logs contain already. Run MUST be running.
func (s Rollback) Accept(ctx context.Context, accepted []Behind, reason string) error {
	_, err := s.db.Change(ctx, func(w *db.Conn) ([]chain.Draft, error) { return s.accept(ctx, w, accepted, reason) })
	return err
}

// MayWrite allows writes to a database that is behind its head file. The caller MUST NOT have
// started Run, so that only Open can have stopped the writes.
func (s Rollback) MayWrite() { s.db.Resume() }

// MakeHeadFile creates a new head file with the current state of the database.
func (s Rollback) MakeHeadFile(ctx context.Context, path string) error {
	path, err := db.Absolute(path)
	if err != nil {
		return err
	}
	id, err := s.db.DatabaseID(ctx)
	if err != nil {
		return err
	}
	file, err := s.createHeads(ctx, path, id)
	if err != nil {
		return err
	}
	return file.Close()
}

// accept corrects the count of revocations, deletes the cosignatures of trees that are given up,
// and drafts the records. A record may exist already, if an earlier attempt did not update the head
// file. It is not written again.
func (s Rollback) accept(
	ctx context.Context, w *db.Conn, accepted []Behind, reason string,
) (drafts []chain.Draft, err error) {
	if _, err := w.Exec(`UPDATE company_usage SET revocations =
		deleted_revocations + (SELECT count(*) FROM passport WHERE passport.company = company_usage.company AND revoked_at IS NOT NULL)`); err != nil {
		return nil, err
	}
	lost := map[int64][]any{} // by company
	for _, b := range accepted {
		if b.Kept != nil && b.Kept.row != "" {
			if _, err := w.Exec(`DELETE FROM cosignature WHERE log_id = ? AND witness = ?`, hex.EncodeToString(b.Known.LogID[:]),
				b.Kept.row); err != nil {
				return nil, err
			}
		}
		company := b.company
		if company == 0 {
			if err := w.One([]any{&company}, `SELECT id FROM company ORDER BY id LIMIT 1`); errors.Is(err, db.ErrNotFound) {
				continue // no log can record it
			} else if err != nil {
				return nil, err
			}
		}
		recorded, err := b.accepted(w, company)
		if err != nil {
			return nil, err
		}
		if !recorded {
			lost[company] = append(lost[company], b.details())
		}
	}
	for _, company := range slices.Sorted(maps.Keys(lost)) {
		c, err := s.companies.OfChain(ctx, company)
		if err != nil {
			return nil, err
		}
		d, err := s.db.controlDraft(Caller{Company: c},
			controlEvent{RollbackAccepted, SubjectDatabase, map[string]any{"reason": reason, "logs": lost[company]}})
		if err != nil {
			return nil, err
		}
		drafts = append(drafts, d)
	}
	return drafts, nil
}

// accepted reports whether the control log of a company already records that this state of the log
// was given up.
func (b Behind) accepted(w *db.Conn, company int64) (found bool, err error) {
	number := db.Control.ChainID(company)
	known := treeDetails(b.Known.Tree)
	err = w.One([]any{&found}, `SELECT count(*) > 0
		FROM (SELECT payload`+controlRecords+` AND json_extract(payload, '$.actionType') = ?4) AS accepted CROSS JOIN json_each(payload, '$.payload.logs') AS given_up
		WHERE json_extract(given_up.value, '$.logId') = ?5 AND CAST(json_extract(given_up.value, '$.known.size') AS bigint) = ?6
			AND json_extract(given_up.value, '$.known.root') = ?7 AND json_extract(given_up.value, '$.known.merkleRoot') = ?8
			AND CAST(coalesce(json_extract(given_up.value, '$.revocations.known'), '0') AS bigint) >= ?9`,
		SubjectDatabase, db.RecordID(number, 0), db.RecordID(number, db.IndexMask), RollbackAccepted,
		hex.EncodeToString(b.Known.LogID[:]),
		b.Known.Size, known["root"], known["merkleRoot"], b.Known.Revocations)
	return found, err
}

// details returns the content of a control record about a log that is behind: the known state and
// the state found.
func (b Behind) details() map[string]any {
	known := treeDetails(b.Known.Tree)
	known["checkpoint"] = nil
	if b.Known.Checkpoint.Published() && b.origin != "" && b.Found.LogID == b.Known.LogID {
		known["checkpoint"] = checkpointText(b.origin, b.Known.Checkpoint)
	}
	details := map[string]any{"log": b.Log, "logId": hex.EncodeToString(b.Known.LogID[:]), "why": b.Why, "known": known,
		"found": nil}
	if b.Log == db.Cosigned {
		known["merkleRoot"] = nil
		found := treeDetails(b.Found.Tree)
		found["merkleRoot"] = nil
		return map[string]any{"log": b.Log, "logId": nil, "origin": b.origin, "why": b.Why, "known": known, "found": found}
	}
	if b.Kept != nil { // a checkpoint has neither the specification's tree nor revocations
		known["merkleRoot"], known["checkpoint"] = nil, b.Kept.Note
		details["witness"] = nil
		if b.Kept.Witness != "" {
			details["witness"] = b.Kept.Witness
		}
	}
	if b.Found != (headfile.Head{}) {
		details["found"] = treeDetails(b.Found.Tree)
		details["found"].(map[string]any)["logId"] = hex.EncodeToString(b.Found.LogID[:])
	}
	if b.Log == db.Control && b.Kept == nil {
		details["revocations"] = map[string]any{"known": b.Known.Revocations, "found": b.Found.Revocations}
	}
	return details
}

func treeDetails(t headfile.Tree) map[string]any {
	return map[string]any{"size": t.Size, "merkleRoot": hex.EncodeToString(t.Root[:]),
		"root": hex.EncodeToString(t.LogRoot[:])}
}
