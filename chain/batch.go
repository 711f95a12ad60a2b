package chain

import (
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"attestd/tlog"
)

const maxHeads = 4096 // cached heads, 1 KiB each at most

// writer is what the goroutine of Log.Run owns. Heads are installed only after the commit that makes them true.
type writer struct {
	storage  Storage
	now      func() time.Time
	publish  func([]Extension, bool)
	heads    map[int64]signedHead // as committed by this process, or read since
	external bool                 // someone else has written since the last publish
}

// signedHead is a head and the key that signs the record after it.
type signedHead struct {
	Head
	key       ed25519.PrivateKey
	keyDigest [sha256.Size]byte // of its public part, for leaves
}

// write makes a batch durable and answers all its waiters. Who spoils the transaction is answered alone, and the rest done again.
func (w *writer) write(batch []*waiter) {
	for len(batch) > 0 {
		spoilers, err := w.transact(batch)
		if err == nil {
			return
		}
		for _, s := range spoilers {
			s.fail(err)
		}
		if len(spoilers) == len(batch) {
			return
		}
		batch = slices.DeleteFunc(batch, func(s *waiter) bool { return slices.Contains(spoilers, s) })
	}
}

// transact makes a batch durable and answers it. On an error it answers nobody, and returns those whom the error concerns: for one that
// ends the transaction everybody, also who has an error of his own, for a key may have been refused deletion as the last one only
// for what another change of the lost transaction had done; nobody for one that goes away when all is done again.
func (w *writer) transact(batch []*waiter) (spoilers []*waiter, err error) {
	now := w.now()
	tx, external, err := w.storage.Begin(now)
	if external {
		w.noteExternal()
	}
	if err != nil {
		return batch, err
	}
	if spoilers, err := runRows(tx, batch); err != nil {
		tx.Rollback()
		return spoilers, err
	}
	if spoilers, err := resolve(tx, batch); err != nil {
		tx.Rollback()
		return spoilers, err
	}
	for _, chain := range tx.Rekeyed() {
		delete(w.heads, chain) // the key beside the head is no longer the one that signs
	}
	groups := groupByChain(batch)
	extensions, bad, err := w.extend(tx, groups, now)
	switch {
	case err == nil:
	case tx.Err() != nil:
		spoilers = batch
	case errors.Is(err, ErrStale) && bad.cached: // an external write that Begin has not seen, for nobody else may write
		w.noteExternal()
	default:
		spoilers = bad.waiters
	}
	if err != nil {
		tx.Rollback()
		return spoilers, err
	}
	if err := tx.Commit(); err != nil {
		clear(w.heads)
		return batch, err
	}
	w.commit(batch, groups, extensions)
	return nil, nil
}

// noteExternal makes sure that nothing known of the chains outlives an external write, here and, by the next publish, elsewhere.
func (w *writer) noteExternal() {
	w.external = true
	clear(w.heads)
}

// runRows runs what the changes of a batch do to rows. One change alone needs no savepoint: its error undoes the transaction.
func runRows(tx Transaction, batch []*waiter) (spoilers []*waiter, err error) {
	for _, s := range batch {
		if s.rows == nil {
			continue
		}
		panicked := s.run(tx, len(batch) == 1)
		switch {
		case panicked:
			return []*waiter{s}, s.err
		case tx.Err() != nil: // to go on would be to commit the rest of the batch without what went before
			return batch, tx.Err()
		case s.err != nil && len(batch) == 1:
			return batch, s.err
		}
	}
	return nil, nil
}

// run runs the rows of a change. A panic is the caller's fault and must not end the log: it becomes the error of the change.
func (s *waiter) run(tx Transaction, alone bool) (panicked bool) {
	defer func() {
		if p := recover(); p != nil {
			s.err, panicked = fmt.Errorf("chain: a write panicked: %v\n%s", p, debug.Stack()), true
		}
	}()
	rows := func() (err error) {
		s.drafts, err = s.rows()
		return err
	}
	if alone {
		s.err = rows()
	} else {
		s.err = tx.Savepoint(rows)
	}
	if s.err != nil {
		s.drafts = nil
	}
	return false
}

// extend writes the records of all groups. An error names the group that it met; it concerns that one alone as long as tx.Err is nil.
func (w *writer) extend(tx Transaction, groups []group, now time.Time) ([]Extension, *group, error) {
	for i := range groups {
		if err := w.readHead(tx, &groups[i]); err != nil {
			return nil, &groups[i], fmt.Errorf("chain: head of chain %d: %w", groups[i].chain, err)
		}
	}
	extensions := build(groups, now)
	for i := range extensions {
		if err := tx.Extend(&extensions[i]); err != nil {
			return nil, &groups[i], fmt.Errorf("chain: extend chain %d: %w", groups[i].chain, err)
		}
	}
	return extensions, nil, nil
}

// readHead gives a group the head to build on, which must fit itself.
func (w *writer) readHead(tx Transaction, g *group) (err error) {
	if g.from, g.cached = w.heads[g.chain]; g.cached {
		return nil
	}
	if g.from.Head, g.from.key, err = tx.Head(g.chain); err != nil {
		return err
	}
	g.from.keyDigest = tlog.KeyDigest(g.from.key.Public().(ed25519.PublicKey))
	if _, err = treeAt(g.from.Head); err == nil && g.from.Log.Size != g.from.Length {
		err = errors.New("the log tree is of another length")
	}
	if err == nil {
		err = g.from.Log.Check(g.from.LogRoot)
	}
	return err
}

// commit installs, publishes and answers what is durable.
func (w *writer) commit(batch []*waiter, groups []group, extensions []Extension) {
	for i := range groups {
		keep(w.heads, maxHeads, groups[i].chain, signedHead{extensions[i].Head, groups[i].from.key, groups[i].from.keyDigest})
	}
	if len(extensions) > 0 || w.external {
		w.publish(extensions, w.external)
		w.external = false
	}
	// Drafts and records of a chain stand in one order, so each group gives its next record to the next draft.
	records := make(map[int64][]Record, len(extensions))
	for i := range extensions {
		records[extensions[i].Chain] = extensions[i].Records
	}
	for _, s := range batch {
		if s.err == nil {
			s.take(records)
		}
		close(s.done)
	}
}

// take gives the drafts their records: from what a batch has added, or from where else resolve has found them.
func (s *waiter) take(added map[int64][]Record) {
	s.records = make([]Record, len(s.drafts))
	for i := range s.drafts {
		switch from := s.source(i); {
		case from.record != nil:
			s.records[i] = *from.record
		case from.of != nil:
			s.records[i] = from.of.records[from.draft]
		default:
			c := s.drafts[i].Chain
			s.records[i], added[c] = added[c][0], added[c][1:]
		}
	}
}

// keep puts v into a map of at most limit chains; when it is full it forgets an arbitrary one.
func keep[V any](m map[int64]V, limit int, chain int64, v V) {
	if _, known := m[chain]; !known && len(m) >= limit {
		for other := range m {
			delete(m, other)
			break
		}
	}
	m[chain] = v
}
