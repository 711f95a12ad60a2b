package admin

import (
	"database/sql"
	"errors"

	"attestd/store"
	"attestd/store/db"
)

// compareWitness finds what the cosigner would forget. It would then sign a different history,
// which only a comparison of its cosignatures could reveal.
func (r *Rollback) compareWitness(c *db.Conn, of schemas) error {
	if of.target < db.WitnessSchema {
		return nil
	}
	backupLogs, backupKeys := "main.witness_log", "main.witness_key"
	if of.backup < db.WitnessSchema {
		backupLogs, backupKeys = "(SELECT '' AS origin, 0 AS size, x'' AS root)", "(SELECT x'' AS public_key)"
	}
	var name string
	err := c.One([]any{&name}, `SELECT name FROM target.witness_key WHERE public_key NOT IN (SELECT public_key FROM `+
		backupKeys+`)`)
	switch {
	case err == nil:
		r.add("witness: the key of %s, gone", name)
	case !errors.Is(err, store.ErrNotFound):
		return err
	}
	return c.Each(func(rows *sql.Rows) error {
		var origin string
		var size, oldSize int64
		if err := rows.Scan(&origin, &size, &oldSize); err != nil {
			return err
		}
		if size == oldSize {
			r.add("witness: %s was cosigned at size %d, in the backup with another log root", origin, size)
		} else {
			r.add("witness: %s was cosigned at size %d, in the backup at %d", origin, size, oldSize)
		}
		return nil
	}, `SELECT t.origin, t.size, coalesce(b.size, 0) FROM target.witness_log t LEFT JOIN `+backupLogs+` b ON b.origin = t.origin
		WHERE t.size > coalesce(b.size, 0) OR t.size = b.size AND t.root <> b.root ORDER BY t.origin`)
}
