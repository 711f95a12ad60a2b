package store

import (
	"context"
	"crypto/ed25519"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"attestd/chain"
	"attestd/chain/tlog"
	"attestd/store/db"
	"attestd/store/ledger"
)

// prunedSchema is the first in which payloads may be missing.
const prunedSchema = 20

// PrunedRecords says which payloads of the actions of a company may be missing, as its control log
// records it.
type PrunedRecords struct {
	chain.Pruned
	Bytes   int64  // of the payloads of these records, which the head still counts
	Archive string // SHA-256 of the archive that has the payloads, in hex
	Index   int64  // of the control record
	At      string // time of the control record
}

// Pruned implements chain.Reader.
func (v *View) Pruned(ctx context.Context, number int64) (chain.Pruned, error) {
	p, err := v.PrunedRecords(ctx, number)
	return p.Pruned, err
}

// PrunedRecords reads what the newest control record about payloads says, and checks its hash, its
// signature and whose it is. The result is zero for a control log, and where nothing was pruned. An
// error wraps chain.ErrUnproven if there is a record that does not verify.
func (v *View) PrunedRecords(ctx context.Context, number int64) (PrunedRecords, error) {
	company, name := db.LogOf(number)
	if name != db.Actions || v.Schema() < prunedSchema {
		return PrunedRecords{}, nil
	}
	return v.readPrune(ctx, company, func(c *db.Conn) (sql.NullInt64, error) { return latestPruned(c, company) })
}

// PruneOf is PrunedRecords of the first prune of a record. Its archive has the payload, because
// each archive after a prune continues the one before. The result is zero where there is none.
func (v *View) PruneOf(ctx context.Context, number, index int64) (p PrunedRecords, err error) {
	company, name := db.LogOf(number)
	if name != db.Actions || v.Schema() < prunedSchema {
		return p, nil
	}
	for after := int64(-1); ; after = p.Index {
		p, err = v.readPrune(ctx, company, func(c *db.Conn) (id sql.NullInt64, err error) {
			err = c.One([]any{&id}, `SELECT `+aboutSubject("CAST(?1 AS BIGINT)", "'"+subjectPayloads+"'", " AND id > CAST(?2 AS BIGINT)", "ASC"),
				company, db.RecordID(db.Control.ChainID(company), 0)+after)
			return id, err
		})
		if err != nil || p.Records == 0 || index < p.Records {
			return p, err
		}
	}
}

// readPrune reads and checks a control record about payloads, of which find returns the ID.
func (v *View) readPrune(ctx context.Context, company int64, find func(*db.Conn) (sql.NullInt64, error)) (PrunedRecords, error) {
	control := db.Control.ChainID(company)
	var r *chain.Record
	err := v.Read(ctx, func(c *db.Conn) error {
		r = nil
		id, err := find(c)
		if err == nil && id.Valid {
			r, err = ledger.ReadRecord(c, control, id.Int64&db.IndexMask)
		}
		return err
	})
	if err != nil || r == nil {
		return PrunedRecords{}, err
	}
	p, err := v.provenPruned(ctx, control, r)
	if err != nil {
		return PrunedRecords{}, fmt.Errorf("record %d of chain %d, about payloads that were pruned: %w", r.Index, control, err)
	}
	return p, nil
}

// latestPruned returns the ID of the newest control record about payloads.
func latestPruned(c *db.Conn, company int64) (id sql.NullInt64, err error) {
	err = c.One([]any{&id}, `SELECT `+latestOf("CAST(?1 AS BIGINT)", "'"+subjectPayloads+"'"), company)
	return id, err
}

// provenPruned reads a control record about payloads, and checks that the company has signed it.
func (v *View) provenPruned(ctx context.Context, control int64, r *chain.Record) (p PrunedRecords, err error) {
	// read after the record, so that they cover it
	head, _, err := v.Tip(ctx, control)
	if errors.Is(err, chain.ErrMissing) {
		return p, unproven("its log has no head")
	}
	if err != nil {
		return p, err
	}
	keys, err := v.KeySet(ctx, control)
	if errors.Is(err, chain.ErrMissing) {
		return p, unproven("its log has no key")
	}
	if err != nil {
		return p, err
	}
	owner, err := v.Owner(ctx, control)
	if err != nil {
		return p, err
	}
	key := keys.At(r.Index)
	switch {
	case r.Index >= head.Length:
		return p, unproven("it stands beyond the last record of its log")
	case r.ComputeHash(r.Payload) != r.Hash:
		return p, unproven("its hash is not that of the record")
	case len(key.Key) != ed25519.PublicKeySize || key.Flaw != "":
		return p, unproven("its key is not proven to be the company's")
	case !ed25519.Verify(key.Key, r.Hash[:], r.Signature[:]):
		return p, unproven("its signature is not that of its key")
	}
	return readPruned(owner, r)
}

func unproven(what string) error { return fmt.Errorf("%w: %s", chain.ErrUnproven, what) }

// readPruned reads a record that the company has signed, which may still be an action or about
// something else.
func readPruned(owner chain.Owner, r *chain.Record) (p PrunedRecords, err error) {
	var said struct {
		Log, CompanyID string
		ActionType     ControlAction
		Payload        struct {
			Subject, Skeleton, Archive, Root string
			Records, Bytes                   int64
		}
	}
	if err := json.Unmarshal(r.Payload, &said); err != nil {
		return p, unproven(err.Error())
	}
	d := &said.Payload
	switch {
	case said.Log != owner.Log || said.Log != string(db.Control) || said.CompanyID != owner.CompanyID:
		return p, unproven("it is of another log")
	case said.ActionType != PayloadsPruned || d.Subject != subjectPayloads:
		return p, unproven(fmt.Sprintf("it says %s", said.ActionType))
	case d.Records <= 0 || d.Records > db.IndexMask || d.Bytes < 0:
		return p, unproven("its numbers are none of records and bytes")
	}
	for _, text := range []string{d.Archive, d.Root, d.Skeleton} {
		sum, err := hex.DecodeString(text)
		if err != nil || len(sum) != len(p.Skeleton) {
			return p, unproven(fmt.Sprintf("%q is no SHA-256", text))
		}
		copy(p.Skeleton[:], sum) // the last one
	}
	p.Records, p.Bytes, p.Archive, p.Index, p.At = d.Records, d.Bytes, d.Archive, r.Index, r.Timestamp
	return p, nil
}

// prunedDetails are those of the control record.
func prunedDetails(p PrunedRecords, root tlog.Hash) map[string]any {
	return map[string]any{"records": p.Records, "bytes": p.Bytes, "archive": p.Archive, "root": hex.EncodeToString(root[:]),
		"skeleton": hex.EncodeToString(p.Skeleton[:])}
}
