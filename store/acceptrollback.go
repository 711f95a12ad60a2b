package store

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"attestd/chain"
	"attestd/crypto/seal"
	"attestd/store/headfile"
)

// AcceptOptions say what is accepted, and why.
type AcceptOptions struct {
	Heads  string // the head file
	Reason string // in the operator's words, for the control logs
	Master *seal.Master
}

// maxAcceptReason is the length in bytes of the reason for accepting a rollback.
const maxAcceptReason = 4096

// AcceptRollback makes what the database at path has the truth that its head file knows, and
// returns in what it was behind that or the checkpoints that it keeps. What was lost is written to
// the control log of each company that it concerns, and where a company itself is gone to that of
// the oldest company that is there, all in one transaction; then the head file is made anew. When
// that fails, it is to be called again, and records nothing twice. ErrRefused where the database is
// not behind; ErrInUse.
func AcceptRollback(ctx context.Context, path, schema string, o AcceptOptions) (accepted []Behind, err error) {
	if o.Reason == "" || len(o.Reason) > maxAcceptReason || !utf8.ValidString(o.Reason) {
		return nil, fmt.Errorf("%w: the reason must be UTF-8 text of at most %d bytes, and not empty", ErrRefused, maxAcceptReason)
	}
	s, err := Open(ctx, path, schema, Options{Master: o.Master, Heads: o.Heads})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	kept, err := s.compareKept(ctx, "true")
	if err != nil {
		return nil, err
	}
	accepted = append(s.behind, kept...)
	if cosigner := s.cosigned.behind; cosigner != nil {
		accepted = append(accepted, cosigner.Behind...)
	}
	if len(accepted) == 0 {
		return nil, fmt.Errorf("%w: %s is not behind its head file, so there is nothing to accept; nor is it behind a checkpoint that it keeps", ErrRefused, s.path)
	}
	// by whom it says, and nobody else: Open has just set it, and nobody runs the store yet
	s.writer.stopped.Store(nil)
	go s.Run(ctx, RunOptions{}) // until s is closed
	if _, err := s.change(ctx, func(w *conn) ([]chain.Draft, error) { return s.acceptBehind(w, accepted, o.Reason) }); err != nil {
		return nil, fmt.Errorf("accept the rollback: %w", err)
	}
	heads, err := absolute(o.Heads)
	if err != nil {
		return nil, err
	}
	id, err := s.databaseID(ctx)
	if err != nil {
		return nil, err
	}
	file, err := s.createHeads(ctx, heads, id)
	if err == nil {
		err = file.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("the rollback is recorded, but the head file is not brought to it; accept it once more: %w", err)
	}
	return accepted, nil
}

// acceptBehind sets the count of revocations to what is there, takes out what witnesses have signed
// of trees that are given up, and drafts the records. What the control log says already, because
// the head file was not brought to it, is not recorded once more.
func (s *Store) acceptBehind(w *conn, accepted []Behind, reason string) (drafts []chain.Draft, err error) {
	if _, err := w.exec(`UPDATE company_usage SET revocations =
		(SELECT count(*) FROM passport WHERE passport.company = company_usage.company AND revoked_at IS NOT NULL)`); err != nil {
		return nil, err
	}
	lost := map[int64][]any{} // by company
	for _, b := range accepted {
		if b.Kept != nil && b.Kept.row != "" {
			if _, err := w.exec(`DELETE FROM cosignature WHERE log_id = ? AND witness = ?`, hex.EncodeToString(b.Known.LogID[:]), b.Kept.row); err != nil {
				return nil, err
			}
		}
		company := b.company
		if company == 0 {
			if err := w.one([]any{&company}, `SELECT id FROM company ORDER BY id LIMIT 1`); errors.Is(err, ErrNotFound) {
				continue // there is no log that could say so
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
		c, err := s.CompanyOfChain(context.Background(), company)
		if err != nil {
			return nil, err
		}
		d, err := s.controlDraft(Caller{Company: c}, controlEvent{RollbackAccepted, subjectDatabase, map[string]any{"reason": reason, "logs": lost[company]}})
		if err != nil {
			return nil, err
		}
		drafts = append(drafts, d)
	}
	return drafts, nil
}

// accepted says whether the control log of a company has it that the same state of the log was
// given up.
func (b Behind) accepted(w *conn, company int64) (found bool, err error) {
	number := Control.number(company)
	known := treeDetails(b.Known.Tree)
	err = w.one([]any{&found}, `SELECT count(*) > 0
		FROM (SELECT payload`+controlRecords+` AND json_extract(payload, '$.actionType') = ?4) AS accepted CROSS JOIN json_each(payload, '$.payload.logs') AS given_up
		WHERE json_extract(given_up.value, '$.logId') = ?5 AND CAST(json_extract(given_up.value, '$.known.size') AS bigint) = ?6
			AND json_extract(given_up.value, '$.known.root') = ?7 AND json_extract(given_up.value, '$.known.merkleRoot') = ?8
			AND CAST(coalesce(json_extract(given_up.value, '$.revocations.known'), '0') AS bigint) >= ?9`,
		subjectDatabase, recordID(number, 0), recordID(number, indexMask), RollbackAccepted, hex.EncodeToString(b.Known.LogID[:]),
		b.Known.Size, known["root"], known["merkleRoot"], b.Known.Revocations)
	return found, err
}

// details are what a control record says of a log that is behind: what was known of it, and what is
// there.
func (b Behind) details() map[string]any {
	known := treeDetails(b.Known.Tree)
	known["checkpoint"] = nil
	if b.Known.Checkpoint.Published() && b.origin != "" && b.Found.LogID == b.Known.LogID {
		known["checkpoint"] = checkpointText(b.origin, b.Known.Checkpoint)
	}
	details := map[string]any{"log": b.Log, "logId": hex.EncodeToString(b.Known.LogID[:]), "why": b.Why, "known": known, "found": nil}
	if b.Log == Cosigned {
		known["merkleRoot"] = nil
		found := treeDetails(b.Found.Tree)
		found["merkleRoot"] = nil
		return map[string]any{"log": b.Log, "logId": nil, "origin": b.origin, "why": b.Why, "known": known, "found": found}
	}
	if b.Kept != nil { // a checkpoint says nothing of the specification's tree, nor of revocations
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
	if b.Log == Control && b.Kept == nil {
		details["revocations"] = map[string]any{"known": b.Known.Revocations, "found": b.Found.Revocations}
	}
	return details
}

func treeDetails(t headfile.Tree) map[string]any {
	return map[string]any{"size": t.Size, "merkleRoot": hex.EncodeToString(t.Root[:]), "root": hex.EncodeToString(t.LogRoot[:])}
}
