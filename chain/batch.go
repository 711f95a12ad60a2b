package chain

import (
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"attestd/chain/tlog"
)

// maxHeads bounds the cached heads: there is room for 10,000 busy chains, for one that is read anew
// costs its key too. Each takes about 1 KiB with its key, after a million records 2 KiB: 32 MiB at
// most.
const maxHeads = 1 << 14

// maxLost is how often a batch is begun whose transactions are lost: there may be something in it
// that ends each of them.
const maxLost = 10

// MaxLostTime is how long after the first attempt at such a batch another one is begun.
const MaxLostTime = 10 * time.Second

// writer is what the goroutine of Log.Run owns. Heads are installed only after the commit that
// makes them true.
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
	cached    bool              // it is remembered from an earlier batch
	shared    bool              // it is not to be remembered
}

// write makes a batch durable and answers all its waiters. Who makes the transaction fail is
// answered alone, and the rest done again.
func (w *writer) write(batch []*waiter) {
	begun := time.Now()
	for lost := 0; len(batch) > 0; {
		retry, err := w.transact(batch)
		if errors.Is(err, ErrAgain) {
			if lost++; lost < maxLost && time.Since(begun) < MaxLostTime {
				continue
			}
		}
		if err != nil {
			for _, s := range without(batch, retry) {
				s.fail(err)
			}
		}
		batch = retry
	}
}

// transact makes a batch durable and answers it, but for those whose chains others have extended
// meanwhile: they are to be done again. On an error it answers nobody; the error concerns all but
// those who are to be done again, and ErrAgain nobody. One that ends the transaction concerns
// everybody, also who has an error of his own, for a key may have been refused deletion as the last
// one only for what another change of the lost transaction had done.
func (w *writer) transact(batch []*waiter) (retry []*waiter, err error) {
	now := w.now()
	if prepare := batch[0].prepare; prepare != nil {
		now = prepare(now)
	}
	tx, external, err := w.storage.Begin(now)
	if external {
		w.noteExternal()
	}
	if err != nil {
		return nil, err
	}
	groups, failed, err := w.plan(tx, batch)
	var extensions []Extension
	if err == nil {
		extensions = build(groups, now)
	}
	for i := range extensions {
		if err = tx.Extend(&extensions[i]); err != nil {
			failed, err = w.notExtended(tx, batch, &groups[i], err)
			break
		}
	}
	if err != nil {
		tx.Rollback()
		if errors.Is(err, ErrAgain) {
			clear(w.heads)
			return nil, err
		}
		return without(batch, failed), err
	}
	stale, err := tx.Commit()
	if err != nil {
		clear(w.heads)
		return nil, err
	}
	if len(stale) > 0 {
		for _, chain := range stale {
			delete(w.heads, chain)
		}
		isStale := func(chain int64) bool { return slices.Contains(stale, chain) }
		retry = slices.DeleteFunc(slices.Clone(batch), func(s *waiter) bool { return len(s.drafts) == 0 || !isStale(s.drafts[0].Chain) })
		batch = without(batch, retry)
		groups = slices.DeleteFunc(groups, func(g group) bool { return isStale(g.chain) })
		extensions = slices.DeleteFunc(extensions, func(e Extension) bool { return isStale(e.Chain) })
	}
	w.commit(batch, groups, extensions)
	return retry, nil
}

// without is what is left of a batch.
func without(batch, taken []*waiter) []*waiter {
	return slices.DeleteFunc(slices.Clone(batch), func(s *waiter) bool { return slices.Contains(taken, s) })
}

// plan writes the rows of a batch into a transaction, and lays out by chain the drafts that become
// records. An error concerns those who failed; nobody where it goes away when all is done again.
func (w *writer) plan(tx Transaction, batch []*waiter) (groups []group, failed []*waiter, err error) {
	if failed, err := runRows(tx, batch); err != nil {
		return nil, failed, err
	}
	for _, chain := range tx.Rekeyed() {
		delete(w.heads, chain) // the key beside the head is no longer the one that signs
	}
	// first, so that a key which is not kept below cannot come before the head has moved
	bases, failed, err := w.bases(tx, batch)
	if err != nil {
		return nil, failed, err
	}
	if failed, err := resolve(tx, batch); err != nil {
		return nil, failed, err
	}
	groups = groupByChain(batch)
	for i := range groups {
		groups[i].from = bases[groups[i].chain]
	}
	return groups, nil, nil
}

// notExtended says whom it concerns that a chain could not be extended.
func (w *writer) notExtended(tx Transaction, batch []*waiter, g *group, err error) (failed []*waiter, _ error) {
	switch {
	case tx.Err() != nil:
		failed = batch
	case errors.Is(err, ErrStale) && g.from.cached:
		// an external write that Begin has not seen, for nobody else may write
		w.noteExternal()
	default:
		failed = g.waiters
	}
	return failed, fmt.Errorf("chain: extend chain %d: %w", g.chain, err)
}

// noteExternal makes sure that nothing known of the chains outlives an external write, here and, by
// the next publish, elsewhere.
func (w *writer) noteExternal() {
	w.external = true
	clear(w.heads)
}

// runRows runs what the changes of a batch do to rows. One change alone needs no savepoint: its
// error undoes the transaction.
func runRows(tx Transaction, batch []*waiter) (failed []*waiter, err error) {
	for _, s := range batch {
		if s.rows == nil {
			continue
		}
		panicked := s.run(tx, len(batch) == 1)
		switch {
		case panicked:
			return []*waiter{s}, s.err
		case tx.Err() != nil:
			// to go on would be to commit the rest of the batch without what went before
			return batch, tx.Err()
		case s.err != nil && len(batch) == 1:
			return batch, s.err
		}
	}
	return nil, nil
}

// run runs the rows of a change. A panic is the caller's fault and must not end the log: it becomes
// the error of the change.
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

// bases finds what the records of a batch are built on, which must fit itself. An error concerns
// the failed.
func (w *writer) bases(tx Transaction, batch []*waiter) (bases map[int64]signedHead, failed []*waiter, err error) {
	bases = make(map[int64]signedHead)
	var unknown []int64
	for _, s := range batch {
		for i := range s.drafts {
			chain := s.drafts[i].Chain
			if _, seen := bases[chain]; seen {
				continue
			}
			from, cached := w.heads[chain]
			from.cached = cached
			if bases[chain] = from; !cached {
				unknown = append(unknown, chain)
			}
		}
	}
	if len(unknown) == 0 {
		return bases, nil, nil
	}
	for i, b := range tx.Bases(unknown) {
		chain, err := unknown[i], b.Err
		if err == nil {
			err = b.check()
		}
		if err != nil {
			if failed = batch; tx.Err() == nil {
				failed = slices.DeleteFunc(slices.Clone(batch), func(s *waiter) bool {
					return !slices.ContainsFunc(s.drafts, func(d Draft) bool { return d.Chain == chain })
				})
			}
			return nil, failed, fmt.Errorf("chain: head of chain %d: %w", chain, err)
		}
		bases[chain] = signedHead{Head: b.Head, key: b.Key, keyDigest: tlog.KeyDigest(b.Key.Public().(ed25519.PublicKey)), shared: b.Shared}
	}
	return bases, nil, nil
}

// check finds a head that does not fit itself.
func (b *Base) check() error {
	if _, err := treeAt(b.Head); err != nil {
		return err
	}
	if b.Head.Log.Size != b.Head.Length {
		return errors.New("the log tree is of another length")
	}
	return b.Head.Log.Check(b.Head.LogRoot)
}

// commit installs, publishes and answers what is durable.
func (w *writer) commit(batch []*waiter, groups []group, extensions []Extension) {
	for i := range groups {
		if from := &groups[i].from; !from.shared {
			keep(w.heads, maxHeads, groups[i].chain, signedHead{Head: extensions[i].Head, key: from.key, keyDigest: from.keyDigest})
		}
	}
	if len(extensions) > 0 || w.external {
		w.publish(extensions, w.external)
		w.external = false
	}
	// Drafts and records of a chain stand in one order, so each group gives its next record to the
	// next draft.
	records := make(map[int64][]Record, len(extensions))
	for i := range extensions {
		records[extensions[i].Chain] = extensions[i].Records
	}
	for _, s := range batch {
		if s.err == nil {
			s.assign(records)
		}
		close(s.done)
	}
}

// assign gives the drafts their records: from what a batch has added, or from where else resolve has
// found them.
func (s *waiter) assign(added map[int64][]Record) {
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
