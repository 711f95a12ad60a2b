package store

import (
	"context"
	"database/sql"
	"fmt"

	"attestd/chain/tlog"
	"attestd/store/db"
)

// KeepCosignature stores a cosignature of a log, together with the checkpoint as the log had signed
// it. It replaces the previous cosignature of the witness, unless that is of a larger size. The
// caller MUST have verified the cosignature.
func (s Checkpoints) KeepCosignature(
	ctx context.Context, logID string, size int64, checkpoint string, by tlog.Cosignature,
) error {
	err := s.db.Write(ctx, func(w *db.Conn) error {
		_, err := w.Exec(`INSERT INTO cosignature (log_id, witness, size, note, line) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (log_id, witness) DO UPDATE SET size = excluded.size, note = excluded.note, line = excluded.line WHERE excluded.size >= cosignature.size`,
			logID, by.Key.String(), size, checkpoint, by.Line)
		return err
	})
	if err != nil {
		return fmt.Errorf("keep cosignature of log %s: %w", logID, err)
	}
	return nil
}

// Cosignatures returns the concatenated signature lines of witnesses for the checkpoint of a log at
// a size, and the vkeys of the witnesses. Checkpoints of other trees that witnesses have shown are
// not cosignatures.
func (v *View) Cosignatures(
	ctx context.Context, logID string, size int64,
) (lines string, witnesses []string, err error) {
	err = v.Read(ctx, func(r *db.Conn) error {
		return r.Each(func(rows *sql.Rows) error {
			var line, witness string
			err := rows.Scan(&line, &witness)
			lines, witnesses = lines+line, append(witnesses, witness)
			return err
		}, `SELECT line, witness FROM cosignature WHERE log_id = ? AND size = ? AND line <> '' ORDER BY witness`, logID, size)
	})
	if err != nil {
		return "", nil, fmt.Errorf("cosignatures of log %s: %w", logID, err)
	}
	return lines, witnesses, nil
}

// CosignedCheckpoint returns the largest cosigned checkpoint of a log, as the log had signed it, if
// it covers the record with this index, otherwise ErrNotFound.
func (v *View) CosignedCheckpoint(ctx context.Context, logID string, index int64) (note string, err error) {
	err = v.Read(ctx, func(r *db.Conn) error {
		return r.One([]any{&note}, `SELECT note FROM cosignature WHERE log_id = ? AND size > ? AND line <> ''
			ORDER BY size DESC LIMIT 1`, logID, index)
	})
	if err != nil {
		return "", fmt.Errorf("cosigned checkpoint of log %s: %w", logID, err)
	}
	return note, nil
}
