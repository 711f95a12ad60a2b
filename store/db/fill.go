package db

import (
	"context"
	"crypto/ed25519"
	"database/sql"
	"fmt"

	"attestd/chain"
	"attestd/chain/tlog"
)

// fillLogs is the step from schema 2 to 3. It computes the log trees of the chains. A damaged chain
// gets the tree of the stored records, because verification reports damage and the upgrade does not
// refuse it.
func fillLogs(ctx context.Context, c *Conn, logHost string, progress Upgrading) error {
	type company struct {
		id   int64
		seed []byte
	}
	var companies []company
	var done, total int64
	err := c.Each(func(rows *sql.Rows) error {
		var f company
		err := rows.Scan(&f.id, &f.seed)
		companies = append(companies, f)
		return err
	}, `SELECT id, seed FROM company`)
	if err == nil {
		err = c.One([]any{&total}, `SELECT coalesce(sum(length), 0) FROM head`)
	}
	if err != nil {
		return err
	}
	for _, f := range companies {
		id, origin, err := newLogNames(logHost)
		if err == nil {
			_, err = c.Exec(`INSERT INTO log (company, name, log_id, origin) VALUES (?, 'actions', ?, ?)`, f.id, id, origin)
		}
		if err != nil {
			return err
		}
		if len(f.seed) != ed25519.SeedSize {
			return fmt.Errorf("%w: the key of company %d has %d bytes", ErrCorrupt, f.id, len(f.seed))
		}
		keys := chain.KeySet{{Key: PublicOf(f.seed)}}
		err = fillLog(ctx, c, f.id, keys, func(n int64) {
			if done += n; progress != nil {
				progress("upgrade", done, total)
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// fillStep is the number of records that are read at once. An upgrade holds their leaves in memory.
const fillStep = 1 << 12

func fillLog(ctx context.Context, c *Conn, number int64, keys chain.KeySet, report func(n int64)) error {
	var tree tlog.Frontier
	for {
		leaves, err := ReadLeaves(c, number, tree.Size, tree.Size+fillStep, keys)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		if len(leaves) == 0 {
			break
		}
		var nodes []tlog.Node
		tree, nodes = tree.Append(leaves...)
		for _, n := range nodes {
			if _, err := c.Exec(`UPDATE node SET log_hash = ? WHERE company = ? AND level = ? AND idx = ?`, n.Hash[:], number,
				n.Level, n.Index); err != nil {
				return err
			}
		}
		report(int64(len(leaves)))
	}
	root := tree.Root()
	_, err := c.Exec(`UPDATE head SET log_root = ?, log_frontier = ? WHERE company = ?`, root[:], JoinHashes(tree.Roots),
		number)
	return err
}

// fillControl is part of the step from schema 5 to 6. It creates the control log of each company.
func fillControl(ctx context.Context, c *Conn, logHost string, _ Upgrading) error {
	var companies []int64
	err := c.Each(func(rows *sql.Rows) error {
		var id int64
		err := rows.Scan(&id)
		companies = append(companies, id)
		return err
	}, `SELECT id FROM company`)
	for _, id := range companies {
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			_, err = InsertLog(c, id, Control, logHost)
		}
	}
	return err
}
