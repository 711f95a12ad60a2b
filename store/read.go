package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"attestd/chain"
	"attestd/chain/tlog"
)

// Tip implements chain.Reader. It uses one statement, and so one snapshot.
func (v *View) Tip(ctx context.Context, number int64) (h chain.Head, next int64, err error) {
	var root, frontier, logRoot, logFrontier []byte
	var last sql.NullInt64
	err = v.read(ctx, func(r *conn) error {
		return r.one([]any{&h.Length, &root, &frontier, &h.Timestamp, &logRoot, &logFrontier, &h.Bytes, &last}, `SELECT length, root, frontier, timestamp,
			`+v.since(logTrees, "log_root, log_frontier", "NULL, NULL")+`, `+v.since(quotaSchema, "bytes", "0")+`,
			(SELECT id FROM record WHERE id BETWEEN ? AND ? ORDER BY id DESC LIMIT 1) FROM `+v.since(twoLogs, "head", ofOneLog("head"))+` WHERE chain = ?`,
			recordID(number, 0), recordID(number, indexMask), number)
	})
	if errors.Is(err, ErrNotFound) {
		err = chain.ErrMissing
	}
	if err != nil {
		return chain.Head{}, 0, fmt.Errorf("head of chain %d: %w", number, err)
	}
	fillHead(&h, root, frontier, logRoot, logFrontier)
	if v.store.schema.Load() < logTrees {
		h.Log.Size = chain.NoLog
	}
	if last.Valid {
		next = last.Int64&indexMask + 1
	}
	return h, next, nil
}

// Owner implements chain.Reader. A control record has a member log, and an action has none.
func (v *View) Owner(ctx context.Context, number int64) (o chain.Owner, err error) {
	company, name := logOf(number)
	if name == Control {
		o.Log = string(Control)
	}
	err = v.read(ctx, func(r *conn) error {
		return r.one([]any{&o.CompanyID}, `SELECT company_id FROM company WHERE id = ?`, company)
	})
	if errors.Is(err, ErrNotFound) {
		return chain.Owner{}, nil // elsewhere, a chain without a company is reported
	}
	return o, err
}

// Records implements chain.Reader with one statement, and so one snapshot, which lasts until yield
// has returned for the last record. Callers read short ranges.
func (v *View) Records(ctx context.Context, number, from, to int64, yield func(*chain.Record) error) error {
	return v.read(ctx, func(c *conn) error { return c.records(number, from, to, "ORDER BY id", yield) })
}

// RecordsBackward is like Records, from the last record to the first.
func (v *View) RecordsBackward(ctx context.Context, number, from, to int64, yield func(*chain.Record) error) error {
	return v.read(ctx, func(c *conn) error { return c.records(number, from, to, "ORDER BY id DESC", yield) })
}

// records implements Records on one connection in a given order.
func (c *conn) records(number, from, to int64, order string, yield func(*chain.Record) error) error {
	var r chain.Record
	var id int64
	var hash, signature, payload, delegation sql.RawBytes
	row := func(rows *sql.Rows) error {
		if err := rows.Scan(&id, &hash, &signature, &r.Timestamp, &payload, &delegation); err != nil {
			return fmt.Errorf("records of chain %d: %w", number, err)
		}
		r.Index = id & indexMask
		fill(r.Hash[:], hash)
		fill(r.Signature[:], signature)
		r.Payload, r.Delegation = payload, delegation
		return yield(&r)
	}
	return c.each(row, `SELECT id, hash, signature, timestamp, payload, delegation FROM record WHERE id BETWEEN ? AND ? `+
		order,
		recordID(number, max(from, 0)), recordID(number, min(to, indexMask+1))-1)
}

// Hashes implements chain.Reader. It costs one statement and to-from rows. If hashes are missing,
// the error wraps chain.ErrMissing.
func (v *View) Hashes(ctx context.Context, number int64, level int, from, to int64) ([]chain.Hash, error) {
	if from < 0 || to > indexMask+1 || from > to {
		return nil, fmt.Errorf("hashes [%d, %d) of chain %d: %w", from, to, number, chain.ErrMissing)
	}
	hashes := make([]chain.Hash, 0, to-from)
	var index int64
	var hash sql.RawBytes
	row := func(rows *sql.Rows) error {
		if err := rows.Scan(&index, &hash); err != nil {
			return err
		}
		if index&indexMask != from+int64(len(hashes)) {
			return fmt.Errorf("hash %d: %w", from+int64(len(hashes)), chain.ErrMissing)
		}
		var h chain.Hash
		fill(h[:], hash)
		hashes = append(hashes, h)
		return nil
	}
	err := v.read(ctx, func(c *conn) error {
		if level == 0 {
			return c.each(row, `SELECT id, hash FROM record WHERE id BETWEEN ? AND ? ORDER BY id`, recordID(number, from),
				recordID(number, to)-1)
		}
		return c.each(row, `SELECT idx, hash FROM `+v.since(twoLogs, "node", ofOneLog("node"))+
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
	err := v.read(ctx, func(r *conn) error {
		return r.one([]any{&hash, &logHash}, `SELECT hash, `+v.since(logTrees, "log_hash", "NULL")+` FROM `+
			v.since(twoLogs, "node", ofOneLog("node"))+
			` WHERE chain = ? AND level = ? AND idx = ?`,
			number, level, index)
	})
	if errors.Is(err, ErrNotFound) {
		err = chain.ErrMissing
	}
	if err != nil {
		return chain.Node{}, fmt.Errorf("node %d of level %d of chain %d: %w", index, level, number, err)
	}
	fill(n.Hash[:], hash)
	fill(n.LogHash[:], logHash)
	return n, nil
}

// fillHead decodes the stored columns of a head into h. h.Length MUST be set.
func fillHead(h *chain.Head, root, frontier, logRoot, logFrontier []byte) {
	fill(h.Root[:], root)
	h.Frontier = splitHashes[chain.Hash](frontier)
	fill(h.LogRoot[:], logRoot)
	h.Log = tlog.Frontier{Size: h.Length, Roots: splitHashes[tlog.Hash](logFrontier)}
}

// The first schemas with log trees, and with a control log for each company.
const (
	logTrees = 3
	twoLogs  = 6
)

// ofOneLog returns the SQL for a table of chains in a file from before twoLogs, where a company has
// only its action log.
func ofOneLog(table string) string { return "(SELECT *, company AS chain FROM " + table + ")" }

// since returns the form of a part of a statement for the file's schema: now from schema on, and
// before for older files, which are only read.
func (v *View) since(schema int64, now, before string) string {
	if v.store.schema.Load() < schema {
		return before
	}
	return now
}

// fill copies a stored hash or signature. One of a wrong length, which only an altered file has,
// becomes zeros, which no check accepts. So verification reports a bad record instead of a failed
// read.
func fill(dst, stored []byte) {
	clear(dst)
	if len(stored) == len(dst) {
		copy(dst, stored)
	}
}
