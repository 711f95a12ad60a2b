package store

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"attestd/chain/tlog"
	"attestd/store/db"
)

// Errors of Checkpoints.WitnessShows.
var (
	// the checkpoint is of another log, not signed by the log, or consistent with it
	ErrNoProof = errors.New("what the witness shows proves nothing")
	// an operator has accepted the difference
	ErrGivenUp = errors.New("a tree which an accepted rollback gave up")
)

// WitnessShows compares a log with a checkpoint that a witness has shown. ErrNoProof and ErrGivenUp
// mean that the checkpoint has no consequences. If it has the log's own signature, and the log is
// shorter or has a different root at its size, it is stored and the company is halted with a
// *RolledBackError. The signature of a compromised key proves nothing, because the thief could have
// made it.
func (s Checkpoints) WitnessShows(ctx context.Context, l db.Log, witness tlog.VKey, signed []byte) error {
	shown, err := s.openOwn(ctx, l, string(signed), false)
	if errors.Is(err, errNotOurs) {
		return fmt.Errorf("%w: %w", ErrNoProof, errNotOurs)
	}
	if err != nil {
		return err
	}
	shown.Witness = witness.String()
	head, _, err := s.db.now.Tip(ctx, l.Chain)
	if err != nil {
		return err
	}
	why, err := s.whyBehind(ctx, l, tlog.Tree{Size: head.Length, Root: head.LogRoot}, shown)
	if err != nil {
		return err
	}
	if why == "" {
		return fmt.Errorf("%w: the log has that tree, of size %d", ErrNoProof, shown.Tree.Size)
	}
	if accepted, err := s.isGivenUp(ctx, l, shown); err != nil {
		return err
	} else if accepted {
		return fmt.Errorf("it shows size %d, %w", shown.Tree.Size, ErrGivenUp)
	}
	b, err := s.behind(ctx, l, head, shown, why)
	if err != nil {
		return err
	}
	halted := s.db.halt(*b)
	// if storing fails, the next start asks the witness again
	if err := s.keepShown(ctx, l, shown); err != nil && s.db.Logger() != nil {
		s.db.Logger().Error("a checkpoint that a witness has shown could not be stored", "witness", witness.Name, "log",
			l.Origin, "error", err)
	}
	return halted
}

// keepShown stores a shown checkpoint in a row in addition to the witness's cosignature, with an
// empty line, because it is not a cosignature of the log's tree. So every server finds it at each
// start, until an operator accepts it.
func (s Checkpoints) keepShown(ctx context.Context, l db.Log, k KeptCheckpoint) error {
	return s.db.Write(ctx, func(w *db.Conn) error {
		_, err := w.Exec(`INSERT INTO cosignature (log_id, witness, size, note, line) VALUES (?, ?, ?, ?, '')
			ON CONFLICT (log_id, witness) DO UPDATE SET size = excluded.size, note = excluded.note, line = excluded.line`, l.ID, shownBy+k.Witness, k.Tree.Size, k.Note)
		return err
	})
}

// isGivenUp reports whether an operator has accepted that a log does not have the tree of a
// checkpoint. If a witness had shown it, the acceptance applies to that witness; if the head file
// or a published checkpoint had it, to all witnesses.
func (s Checkpoints) isGivenUp(ctx context.Context, l db.Log, k KeptCheckpoint) (givenUp bool, err error) {
	company, _ := db.LogOf(l.Chain)
	control := db.Control.ChainID(company)
	row := func(rows *sql.Rows) error {
		var payload []byte
		if err := rows.Scan(&payload); err != nil {
			return err
		}
		var accepted struct {
			ActionType ControlAction
			Payload    struct {
				Logs []struct {
					LogID   string
					Witness string
					Known   struct {
						Size             int64
						Root, Checkpoint string
					}
				}
			}
		}
		if json.Unmarshal(payload, &accepted) != nil || accepted.ActionType != RollbackAccepted {
			return nil // it has no sizes, or is about another change of the database
		}
		for _, b := range accepted.Payload.Logs {
			if b.LogID != l.ID || b.Witness != "" && b.Witness != k.Witness {
				continue
			}
			published, _, err := tlog.ParseSignedCheckpoint([]byte(b.Known.Checkpoint))
			givenUp = givenUp || b.Known.Size == k.Tree.Size && b.Known.Root == hex.EncodeToString(k.Tree.Root[:]) ||
				err == nil && published.Tree == k.Tree
		}
		return nil
	}
	err = s.db.Read(ctx, func(r *db.Conn) error {
		return r.Each(row, `SELECT payload`+controlRecords, SubjectDatabase, db.RecordID(control, 0),
			db.RecordID(control, db.IndexMask))
	})
	if err != nil {
		return false, fmt.Errorf("accepted rollbacks of log %s: %w", l.ID, err)
	}
	return givenUp, nil
}
