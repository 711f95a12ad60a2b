// Package rewrite does to a database what an operator can do who holds its keys: it writes another
// history, with guards, signatures, trees and heads that fit. Nothing inside the file shows that;
// it is the attack that head files, witnesses and kept evidence are there to find.
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

// Record changes the payload of one record of a company's log, in a database that no server has
// open, and writes all records of the log anew, with their times. Checkpoints and cosignatures of
// the log go. All records of the log must be of the key that signs now, for the operator has no
// other. It says how many records the log has.
func Record(ctx context.Context, path, schema string, o store.Options, company string, log store.LogName, index int64, change func(payload []byte) []byte) (n int, err error) {
	records, number, err := empty(ctx, path, company, log)
	if err != nil {
		return 0, err
	}
	if index >= int64(len(records)) {
		return 0, fmt.Errorf("rewrite: the log has %d records", len(records))
	}
	records[index].Payload = change(records[index].Payload)
	o.Heads = ""
	s, err := store.Open(ctx, path, schema, o)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	var at time.Time
	go s.Run(ctx, store.RunOptions{Now: func() time.Time { return at }})
	for _, r := range records {
		if at, err = time.Parse(time.RFC3339, r.Timestamp); err != nil {
			return 0, err
		}
		d := chain.Draft{Chain: number, Payload: r.Payload, Delegation: r.Delegation}
		if d.Canonical, err = jcs.Append(nil, r.Payload, 130); err != nil {
			return 0, err
		}
		if _, err := s.Append(ctx, d); err != nil {
			return 0, err
		}
	}
	return len(records), nil
}

// Unrevoke takes the revocation of a passport back. With counted, the database's own count of
// revocations too.
func Unrevoke(ctx context.Context, path, jti string, counted bool) error {
	return unguarded(ctx, path, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE passport SET revoked_at = NULL, reason = NULL WHERE jti = ?`, jti)
		if err == nil && counted {
			_, err = tx.ExecContext(ctx, `UPDATE company_usage SET revocations = revocations - 1 WHERE company = (SELECT company FROM passport WHERE jti = ?)`, jti)
		}
		return err
	})
}

// empty takes all records out of a log, and returns them.
func empty(ctx context.Context, path, company string, log store.LogName) (records []chain.Record, number int64, err error) {
	err = unguarded(ctx, path, func(tx *sql.Tx) error {
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
			`UPDATE head SET length = 0, root = ?2, frontier = x'', timestamp = '', log_root = ?3, log_frontier = x'' WHERE chain = ?1`,
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

// unguarded runs change in a transaction without triggers, which are there again after it.
func unguarded(ctx context.Context, path string, change func(*sql.Tx) error) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: "mode=rw"}).String())
	if err != nil {
		return err
	}
	defer db.Close()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // nothing to do after the commit
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
