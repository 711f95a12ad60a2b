package store

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"attestd/store/db"
)

// halt stops changes to a company, because a checkpoint shows that one of its logs was rolled back
// or has a different history. It returns the reason. Other companies are not affected.
func (s *base) halt(b Behind) error {
	err := &RolledBackError{[]Behind{b}}
	if log := s.Logger(); s.halted.add(b.company, err) && log != nil {
		log.Error("nothing of a company is written any more: its log was rolled back", "company", b.Company, "log", b.Log,
			"error", err)
	}
	return s.halted.of(b.company)
}

// HaltedChain returns why nothing is appended to a chain, a *RolledBackError, or nil if its company
// is not halted.
func (s Rollback) HaltedChain(number int64) error { return s.db.haltedChain(number) }

// Halted returns the reasons why companies are halted, a *RolledBackError for each.
func (s Rollback) Halted() []error { return s.db.halted.all() }

// openKept halts the companies of which a witness has shown that a log was rolled back, or which
// have a published checkpoint larger than the log, until an operator accepts that. All other stored
// checkpoints are compared in the background; see Checkpoints.Agree.
func (s Checkpoints) openKept(ctx context.Context) error {
	found, err := s.compareKept(ctx, `(line = '' OR kept.size > coalesce(length, 0))`)
	for _, b := range found {
		s.db.notices = append(s.db.notices, fmt.Sprintf("nothing of company %q is written: %v; see attestd help accept-rollback", b.Company, s.db.halt(b)))
	}
	return err
}

// compareKept compares logs with those stored checkpoints that a condition selects.
func (s Checkpoints) compareKept(ctx context.Context, where string) (found []Behind, err error) {
	type row struct {
		log  db.Log
		kept KeptCheckpoint
	}
	var list []row
	err = s.db.Read(ctx, func(r *db.Conn) error {
		return r.Each(func(rows *sql.Rows) error {
			var k row
			err := rows.Scan(&k.log.Chain, &k.log.Name, &k.log.ID, &k.log.Origin, &k.kept.row, &k.kept.Note)
			k.kept.Witness = strings.TrimPrefix(k.kept.row, shownBy)
			list = append(list, k)
			return err
		}, `SELECT log.chain, log.name, log.log_id, log.origin, witness, note
			FROM (SELECT log_id, '' AS witness, size, note, 'published' AS line FROM checkpoint
				UNION ALL SELECT log_id, witness, size, note, line FROM cosignature) AS kept
			JOIN log ON log.log_id = kept.log_id LEFT JOIN head ON head.chain = log.chain WHERE `+where+` ORDER BY log.chain, witness`)
	})
	if err != nil {
		return nil, fmt.Errorf("checkpoints of all logs: %w", err)
	}
	for _, k := range list {
		b, err := s.compare(ctx, k.log, k.kept)
		if err != nil {
			return nil, err
		}
		if b != nil {
			found = append(found, *b)
		}
	}
	return found, nil
}
