package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"attestd/chain"
	"attestd/chain/tlog"
	"attestd/store/db"
)

// Tip implements chain.Reader. It uses one statement, and so one snapshot.
func (v *View) Tip(ctx context.Context, number int64) (h chain.Head, next int64, err error) {
	var root, frontier, logRoot, logFrontier []byte
	var last sql.NullInt64
	err = v.Read(ctx, func(r *db.Conn) error {
		return r.One([]any{&h.Length, &root, &frontier, &h.Timestamp, &logRoot, &logFrontier, &h.Bytes, &last}, `SELECT length, root, frontier, timestamp,
			`+v.Since(db.LogTrees, "log_root, log_frontier", "NULL, NULL")+`, `+v.Since(db.QuotaSchema, "bytes", "0")+`,
			(SELECT id FROM record WHERE id BETWEEN ? AND ? ORDER BY id DESC LIMIT 1) FROM `+v.Since(db.TwoLogs, "head", db.OfOneLog("head"))+` WHERE chain = ?`,
			db.RecordID(number, 0), db.RecordID(number, db.IndexMask), number)
	})
	if errors.Is(err, db.ErrNotFound) {
		err = chain.ErrMissing
	}
	if err != nil {
		return chain.Head{}, 0, fmt.Errorf("head of chain %d: %w", number, err)
	}
	fillHead(&h, root, frontier, logRoot, logFrontier)
	if v.Schema() < db.LogTrees {
		h.Log.Size = chain.NoLog
	}
	if last.Valid {
		next = last.Int64&db.IndexMask + 1
	}
	return h, next, nil
}

// Owner implements chain.Reader. A control record has a member log, and an action has none.
func (v *View) Owner(ctx context.Context, number int64) (o chain.Owner, err error) {
	company, name := db.LogOf(number)
	if name == db.Control {
		o.Log = string(db.Control)
	}
	err = v.Read(ctx, func(r *db.Conn) error {
		return r.One([]any{&o.CompanyID}, `SELECT company_id FROM company WHERE id = ?`, company)
	})
	if errors.Is(err, db.ErrNotFound) {
		return chain.Owner{}, nil // elsewhere, a chain without a company is reported
	}
	return o, err
}

// Records implements chain.Reader with one statement, and so one snapshot, which lasts until yield
// has returned for the last record. Callers read short ranges.
func (v *View) Records(ctx context.Context, number, from, to int64, yield func(*chain.Record) error) error {
	return v.Read(ctx, func(c *db.Conn) error { return c.Records(number, from, to, "ORDER BY id", yield) })
}

// RecordsBackward is like Records, from the last record to the first.
func (v *View) RecordsBackward(ctx context.Context, number, from, to int64, yield func(*chain.Record) error) error {
	return v.Read(ctx, func(c *db.Conn) error { return c.Records(number, from, to, "ORDER BY id DESC", yield) })
}

// Hashes implements chain.Reader. It costs one statement and to-from rows. If hashes are missing,
// the error wraps chain.ErrMissing.
func (v *View) Hashes(ctx context.Context, number int64, level int, from, to int64) ([]chain.Hash, error) {
	if from < 0 || to > db.IndexMask+1 || from > to {
		return nil, fmt.Errorf("hashes [%d, %d) of chain %d: %w", from, to, number, chain.ErrMissing)
	}
	hashes := make([]chain.Hash, 0, to-from)
	var index int64
	var hash sql.RawBytes
	row := func(rows *sql.Rows) error {
		if err := rows.Scan(&index, &hash); err != nil {
			return err
		}
		if index&db.IndexMask != from+int64(len(hashes)) {
			return fmt.Errorf("hash %d: %w", from+int64(len(hashes)), chain.ErrMissing)
		}
		var h chain.Hash
		db.FillHash(h[:], hash)
		hashes = append(hashes, h)
		return nil
	}
	err := v.Read(ctx, func(c *db.Conn) error {
		if level == 0 {
			return c.Each(row, `SELECT id, hash FROM record WHERE id BETWEEN ? AND ? ORDER BY id`, db.RecordID(number, from),
				db.RecordID(number, to)-1)
		}
		return c.Each(row, `SELECT idx, hash FROM `+v.Since(db.TwoLogs, "node", db.OfOneLog("node"))+
			` WHERE chain = ? AND level = ? AND idx >= ? AND idx < ? ORDER BY idx`,
			number, level, from, to)
	})
	if err == nil && int64(len(hashes)) < to-from {
		err = fmt.Errorf("hash %d: %w", from+int64(len(hashes)), chain.ErrMissing)
	}
	if err != nil {
		return nil, fmt.Errorf("level %d of chain %d: %w", level, number, err)
	}
	return hashes, nil
}

// Node implements chain.Reader.
func (v *View) Node(ctx context.Context, number int64, level int, index int64) (chain.Node, error) {
	n := chain.Node{Level: level, Index: index}
	var hash, logHash []byte
	err := v.Read(ctx, func(r *db.Conn) error {
		return r.One([]any{&hash, &logHash}, `SELECT hash, `+v.Since(db.LogTrees, "log_hash", "NULL")+` FROM `+
			v.Since(db.TwoLogs, "node", db.OfOneLog("node"))+
			` WHERE chain = ? AND level = ? AND idx = ?`,
			number, level, index)
	})
	if errors.Is(err, db.ErrNotFound) {
		err = chain.ErrMissing
	}
	if err != nil {
		return chain.Node{}, fmt.Errorf("node %d of level %d of chain %d: %w", index, level, number, err)
	}
	db.FillHash(n.Hash[:], hash)
	db.FillHash(n.LogHash[:], logHash)
	return n, nil
}

// fillHead decodes the stored columns of a head into h. h.Length MUST be set.
func fillHead(h *chain.Head, root, frontier, logRoot, logFrontier []byte) {
	db.FillHash(h.Root[:], root)
	h.Frontier = db.SplitHashes[chain.Hash](frontier)
	db.FillHash(h.LogRoot[:], logRoot)
	h.Log = tlog.Frontier{Size: h.Length, Roots: db.SplitHashes[tlog.Hash](logFrontier)}
}

// Chains returns the chain IDs of all logs that may have records.
func (l *Ledger) Chains(ctx context.Context) (numbers []int64, err error) {
	err = l.Read(ctx, func(r *db.Conn) error {
		return r.Each(func(rows *sql.Rows) error {
			var number int64
			err := rows.Scan(&number)
			numbers = append(numbers, number)
			return err
		}, `SELECT chain FROM log WHERE chain <> ?`, int64(db.Installation))
	})
	if err != nil {
		return nil, fmt.Errorf("chains: %w", err)
	}
	return numbers, nil
}
