package db

import (
	"database/sql"

	"attestd/chain"
	"attestd/chain/tlog"
)

// ReadLeaves returns the leaf hashes of the records [from, to), up to the first missing one.
func ReadLeaves(c *Conn, number, from, to int64, keys chain.KeySet) (leaves []tlog.Hash, err error) {
	var r chain.Record
	var hash, signature sql.RawBytes
	made := chain.Leaves{Keys: keys}
	err = c.Each(func(rows *sql.Rows) error {
		var id int64
		if err := rows.Scan(&id, &hash, &signature); err != nil {
			return err
		}
		if r.Index = id & IndexMask; r.Index != from+int64(len(leaves)) {
			return nil
		}
		FillHash(r.Hash[:], hash)
		FillHash(r.Signature[:], signature)
		leaf := made.Of(&r)
		leaves = append(leaves, leaf.Hash())
		return nil
	}, `SELECT id, hash, signature FROM record WHERE id BETWEEN ? AND ?
		ORDER BY id`, RecordID(number, from), RecordID(number, to)-1)
	return leaves, err
}

// ReadKeys reads the keys of the records [from, to) without their proofs.
func ReadKeys(c *Conn, number, from, to int64) (set chain.KeySet, err error) {
	company, _ := LogOf(number)
	err = c.Each(func(rows *sql.Rows) error {
		var r chain.KeyRange
		err := rows.Scan(&r.From, &r.Key)
		set = append(set, r)
		return err
	}, `SELECT first_record, public_key FROM log_key JOIN company_key USING (generation) WHERE chain = ?1 AND company = ?4 AND first_record < ?3
		AND generation >= (SELECT coalesce(max(generation), 0) FROM log_key WHERE chain = ?1 AND first_record <= ?2) ORDER BY generation`, number, from, to, company)
	return set, err
}
