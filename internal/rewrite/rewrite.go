// Package rewrite carries out the attack of an operator with the signing keys: it rewrites a
// database's history consistently, with guards, signatures, trees and heads. The file alone does
// not reveal that. Head files, witnesses and saved evidence detect it.
package rewrite

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite" // the driver

	"attestd/chain"
	"attestd/chain/tlog"
	"attestd/crypto/jcs"
	"attestd/store"
)

// Record changes the payload of one record of a company's log and rewrites all records of the log
// with their times; see Logs. It returns the number of records. No server may have the database
// open.
func Record(ctx context.Context, path, schema string, o store.Options, company string, log store.LogName, index int64, change func(payload []byte) []byte) (n int, err error) {
	err = Logs(ctx, path, schema, o, []Log{{company, log}}, func(logs [][]chain.Record) error {
		if n = len(logs[0]); index >= int64(n) {
			return fmt.Errorf("rewrite: the log has %d records", n)
		}
		logs[0][index].Payload = change(logs[0][index].Payload)
		return nil
	})
	return n, err
}

// Log is a log of a company.
type Log struct {
	Company string
	Name    store.LogName
}

// Logs rewrites all records of logs with the histories that change returns, from their payloads,
// delegations and times. Times MUST NOT decrease. It deletes checkpoints and cosignatures of the
// logs. The current key MUST have signed all records, because the operator has no other. No server
// may have the database open.
func Logs(ctx context.Context, path, schema string, o store.Options, logs []Log, change func(logs [][]chain.Record) error) (err error) {
	records, numbers := make([][]chain.Record, len(logs)), make([]int64, len(logs))
	for i, l := range logs {
		if records[i], numbers[i], err = empty(ctx, path, l.Company, l.Name); err != nil {
			return err
		}
	}
	if err := change(records); err != nil {
		return err
	}
	o.Heads = ""
	s, err := store.Open(ctx, path, schema, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	var at time.Time
	go s.Run(ctx, store.RunOptions{Now: func() time.Time { return at }})
	for i := range logs {
		for _, r := range records[i] {
			if at, err = time.Parse(time.RFC3339, r.Timestamp); err != nil {
				return err
			}
			d := chain.Draft{Chain: numbers[i], Payload: r.Payload, Delegation: r.Delegation}
			if d.Canonical, err = jcs.Append(nil, r.Payload, 130); err != nil {
				return err
			}
			if _, err := s.Append(ctx, d); err != nil {
				return err
			}
		}
	}
	return nil
}

// Unrevoke undoes the revocation of a passport, and with counted also adjusts the database's count
// of revocations.
func Unrevoke(ctx context.Context, path, jti string, counted bool) error {
	return Unguarded(ctx, path, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE passport SET revoked_at = NULL, reason = NULL WHERE jti = ?`, jti)
		if err == nil && counted {
			_, err = tx.ExecContext(ctx, `UPDATE company_usage SET revocations = revocations - 1 WHERE company = (SELECT company FROM passport WHERE jti = ?)`, jti)
		}
		return err
	})
}

// empty removes and returns all records of a log.
func empty(ctx context.Context, path, company string, log store.LogName) (records []chain.Record, number int64, err error) {
	err = Unguarded(ctx, path, func(tx *sql.Tx) error {
		var logID string
		if err := tx.QueryRowContext(ctx, `SELECT chain, log_id FROM log JOIN company ON company.id = log.company WHERE company_id = ? AND name = ?`,
			company, log).Scan(&number, &logID); err != nil {
			return err
		}
		rows, err := tx.QueryContext(ctx, `SELECT timestamp, payload, delegation FROM record WHERE id >> 40 = ? ORDER BY id`, number)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var r chain.Record
			if err := rows.Scan(&r.Timestamp, &r.Payload, &r.Delegation); err != nil {
				return err
			}
			records = append(records, r)
		}
		root, logRoot := sha256.Sum256(nil), tlog.EmptyRoot()
		for _, statement := range []string{
			`DELETE FROM record WHERE id >> 40 = ?1`,
			`DELETE FROM node WHERE chain = ?1`,
			`UPDATE head SET length = 0, root = ?2, frontier = x'', timestamp = '', log_root = ?3, log_frontier = x'', bytes = 0 WHERE chain = ?1`,
			`DELETE FROM checkpoint WHERE log_id = ?4`,
			`DELETE FROM cosignature WHERE log_id = ?4`,
		} {
			if _, err := tx.ExecContext(ctx, statement, number, root[:], logRoot[:], logID); err != nil {
				return err
			}
		}
		return rows.Err()
	})
	return records, number, err
}

// Unguarded runs change in a transaction without triggers and restores them afterwards.
func Unguarded(ctx context.Context, path string, change func(*sql.Tx) error) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: "mode=rw&_txlock=immediate&_busy_timeout=5000"}).String())
	if err != nil {
		return err
	}
	defer db.Close()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // no effect after the commit
	guards := map[string]string{}
	rows, err := tx.QueryContext(ctx, `SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'`)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var name, text string
		if err := rows.Scan(&name, &text); err != nil {
			return err
		}
		guards[name] = text
	}
	for name := range guards {
		if _, err := tx.ExecContext(ctx, `DROP TRIGGER `+name); err != nil {
			return err
		}
	}
	if err := change(tx); err != nil {
		return err
	}
	for _, text := range guards {
		if _, err := tx.ExecContext(ctx, text); err != nil {
			return err
		}
	}
	return errors.Join(tx.Commit(), db.Close())
}
