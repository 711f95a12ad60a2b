package ledger

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"attestd/chain"
	"attestd/store/db"
	"attestd/store/postgres"
)

// Extend writes extensions in one transaction, as the log does with what is appended. It serves
// tests of what the tables hold, and of what they refuse.
func (l *Ledger) Extend(batch ...chain.Extension) error {
	if l.MultiWriter() {
		return l.extendServer(batch)
	}
	return l.Write(context.Background(), func(c *db.Conn) error {
		tx := transaction{Conn: c, w: l.storage.(*fileWriter)}
		for i := range batch {
			if err := tx.Extend(&batch[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// extendServer extends as a second server would that has nothing else to write.
func (l *Ledger) extendServer(batch []chain.Extension) error {
	w := newPGWriter(postgres.NewWriter(l.closing, l.Pool(), new(atomic.Int64)), postgres.NewWatch(l.Pool()), l.Secrets(), new(LastUsed), NewNameDoubt())
	defer w.close()
	err := w.extend(batch)
	if errors.Is(err, chain.ErrTransactionLost) {
		err = w.extend(batch) // an error about a row beyond the head is returned later
	}
	if errors.Is(err, chain.ErrTransactionLost) {
		err = fmt.Errorf("%w: %w", chain.ErrStale, err)
	}
	return err
}

func (w *pgWriter) extend(batch []chain.Extension) error {
	tx, _, err := w.Begin(time.Now())
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := w.changing(); err != nil {
		return err
	}
	var chains []int64
	for i := range batch {
		chains = append(chains, batch[i].Chain)
	}
	for i, b := range tx.Bases(chains) {
		batch[i].Epoch = b.Epoch
		if err := tx.Extend(&batch[i]); err != nil {
			return err
		}
	}
	_, err = tx.Commit()
	return err
}
