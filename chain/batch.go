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
	"attestd/internal/bounded"
)

// maxLost is how many times a batch with lost transactions is tried, because the batch itself may
// end each of them.
const maxLost = 10

// MaxLostTime is how long after the first attempt at such a batch a retry may begin.
const MaxLostTime = 10 * time.Second

// writer is the state that the goroutine of Log.Run owns.
type writer struct {
	log      *Log
	storage  Storage
	now      func() time.Time
	publish  func([]Extension, bool)
	observe  func(Transacted) // may be nil
	heads    heads
	external bool // another process has written since the last publish
}

// write commits a batch and answers all its waiters. Waiters that make the transaction fail get the
// error, and the rest is retried.
func (w *writer) write(batch []*waiter) {
	begun := time.Now()
	for lost := 0; len(batch) > 0; {
		retry, err := w.transact(batch)
		if errors.Is(err, ErrTransactionLost) {
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

// transact commits a batch and answers its waiters. It returns the waiters to retry: those whose
// chains another process has extended meanwhile. On an error it answers no waiter; the error
// applies to all waiters but those in retry, and ErrTransactionLost to none. An error that ends the
// transaction applies even to a waiter with an error of its own, which another lost change may have
// caused.
func (w *writer) transact(batch []*waiter) (retry []*waiter, err error) {
	o := observation{to: w.observe, began: time.Now()}
	now := w.now()
	if prepare := batch[0].prepare; prepare != nil {
		now = prepare(now)
	}
	tx, external, err := w.storage.Begin(now)
	if external {
		w.recordExternal()
	}
	if err != nil {
		o.lost(batch, err)
		return nil, err
	}
	groups, failed, err := w.plan(tx, batch)
	var extensions []Extension
	if err == nil {
		var at *Draft
		if extensions, at, err = build(groups, now); err != nil {
			failed = slices.DeleteFunc(slices.Clone(batch), func(s *waiter) bool { return !s.has(at) })
		}
		w.log.learnAhead(batch, groups)
	}
	for i := 0; i < len(extensions) && err == nil; i++ {
		if err = tx.Extend(&extensions[i]); err != nil {
			failed, err = w.notExtended(tx, batch, &groups[i], err)
			break
		}
	}
	if err != nil {
		o.lost(batch, tx.Err())
		tx.Rollback()
		if errors.Is(err, ErrTransactionLost) {
			w.heads.Clear()
			return nil, err
		}
		return without(batch, failed), err // only the failed waiters get the error
	}
	committing := time.Now()
	if len(batch) > 1 || w.log.Waiting() > 0 { // a lone caller sends nothing until it is answered
		w.log.beginAhead(groups, extensions)
	}
	stale, err := tx.Commit()
	w.log.endAhead()
	o.synced = time.Since(committing)
	if err != nil {
		o.lost(batch, err)
		w.heads.Clear()
		return nil, err
	}
	if len(stale) > 0 {
		w.heads.forget(stale)
		isStale := func(chain int64) bool { return slices.Contains(stale, chain) }
		retry = slices.DeleteFunc(slices.Clone(batch), func(s *waiter) bool { return len(s.drafts) == 0 || !isStale(s.drafts[0].Chain) })
		batch = without(batch, retry)
		groups = slices.DeleteFunc(groups, func(g group) bool { return isStale(g.chain) })
		extensions = slices.DeleteFunc(extensions, func(e Extension) bool { return isStale(e.Chain) })
	}
	w.commit(batch, groups, extensions)
	o.durable(batch, extensions)
	return retry, nil
}

// has reports whether a draft is one of the waiter's.
func (s *waiter) has(d *Draft) bool {
	for i := range s.drafts {
		if &s.drafts[i] == d {
			return true
		}
	}
	return false
}

// without returns the waiters of a batch that are not among removed.
func without(batch, removed []*waiter) []*waiter {
	return slices.DeleteFunc(slices.Clone(batch), func(s *waiter) bool { return slices.Contains(removed, s) })
}

// plan writes the rows of a batch into a transaction, and groups by chain the drafts that become
// records. An error applies to the waiters in failed. It is empty if a retry of the batch can
// succeed.
func (w *writer) plan(tx Transaction, batch []*waiter) (groups []group, failed []*waiter, err error) {
	if failed, err := runRows(tx, batch); err != nil {
		return nil, failed, err
	}
	if chains, all := tx.Rekeyed(); all {
		w.heads.Clear()
	} else {
		w.heads.forget(chains)
	}
	// Heads are read before idempotency keys: a key found missing must not predate a newer head.
	bases, failed, err := w.bases(tx, batch)
	if err != nil {
		return nil, failed, err
	}
	if failed, err := resolve(tx, batch); err != nil {
		return nil, failed, err
	}
	if failed := refuseOutdated(bases, batch); failed != nil {
		return nil, failed, ErrRevision
	}
	room := tx.Room()
	if err := tx.Err(); err != nil {
		return nil, batch, err
	}
	if failed, err := admit(room, bases, batch); err != nil {
		return nil, failed, err
	}
	groups = groupByChain(batch)
	for i := range groups {
		groups[i].from = bases[groups[i].chain]
	}
	return groups, nil, nil
}

// notExtended returns the waiters to which the error of extending a chain applies.
func (w *writer) notExtended(tx Transaction, batch []*waiter, g *group, err error) (failed []*waiter, _ error) {
	switch {
	case tx.Err() != nil:
		failed = batch
	case errors.Is(err, ErrStale) && g.from.cached:
		// Begin has missed an external write: only this process may write.
		w.recordExternal()
	default:
		failed = g.waiters
	}
	return failed, fmt.Errorf("chain: extend chain %d: %w", g.chain, err)
}

// recordExternal drops all cached heads after an external write, and makes the next publish report
// it.
func (w *writer) recordExternal() {
	w.external = true
	w.heads.Clear()
}

// runRows runs the row functions of a batch. A single change needs no savepoint, because its error
// rolls back the transaction.
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
			// Continuing would commit the rest of the batch without the changes before.
			return batch, tx.Err()
		case s.err != nil && len(batch) == 1:
			return batch, s.err
		}
	}
	return nil, nil
}

// run runs the row function of a change. A panic there must not end the log, so it becomes the
// error of the change.
func (s *waiter) run(tx Transaction, alone bool) (panicked bool) {
	defer func() {
		if p := recover(); p != nil {
			s.err, panicked = fmt.Errorf("chain: a write panicked: %v\n%s", p, debug.Stack()), true
		}
	}()
	if alone {
		s.err = s.writeRows()
	} else {
		s.err = tx.Savepoint(s.writeRows)
	}
	if s.err != nil {
		s.drafts = nil
	}
	return false
}

func (s *waiter) writeRows() (err error) {
	s.drafts, err = s.rows()
	return err
}

// bases returns the head of each chain in a batch, and checks its consistency. An error applies to
// the waiters in failed.
func (w *writer) bases(tx Transaction, batch []*waiter) (bases map[int64]signedHead, failed []*waiter, err error) {
	bases = make(map[int64]signedHead)
	var unknown []int64
	for _, s := range batch {
		for i := range s.drafts {
			chain := s.drafts[i].Chain
			if _, seen := bases[chain]; seen {
				continue
			}
			from, cached := w.heads.Get(chain)
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
		bases[chain] = signedHead{Head: b.Head, epoch: b.Epoch, key: b.Key, limit: b.Limit, revision: b.Revision, keyDigest: tlog.KeyDigest(b.Key.Public().(ed25519.PublicKey)), shared: b.Shared}
	}
	return bases, nil, nil
}

// check returns an error if the parts of a head contradict each other.
func (b *Base) check() error {
	if _, err := treeAt(b.Head); err != nil {
		return err
	}
	if b.Head.Log.Size != b.Head.Length {
		return errors.New("the log tree has another length")
	}
	return b.Head.Log.Check(b.Head.LogRoot)
}

// commit caches the new heads, publishes the extensions and answers the waiters. The transaction
// MUST be durable.
func (w *writer) commit(batch []*waiter, groups []group, extensions []Extension) {
	for i := range groups {
		head := groups[i].from
		head.Head = extensions[i].Head
		w.heads.put(groups[i].chain, head)
	}
	if len(extensions) > 0 || w.external {
		w.publish(extensions, w.external)
		w.external = false
	}
	// Drafts and records of a chain have the same order, so the next draft gets the next record.
	records := make(map[int64][]Record, len(extensions))
	for i := range extensions {
		records[extensions[i].Chain] = extensions[i].Records
	}
	for _, s := range batch {
		if s.err == nil {
			s.setRecords(records)
		}
		close(s.done)
	}
}

// setRecords sets the records of the drafts: those that the batch has added, or those that resolve
// has found them.
func (s *waiter) setRecords(added map[int64][]Record) {
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

// maxHeads bounds the remembered heads. It allows 10,000 busy chains, because a miss reads the key
// too. Each head has about 1 KiB with its key, after a million records 2 KiB: 32 MiB at most.
const maxHeads = 1 << 14

// signedHead is a head, the key that signs the record after it, and the epoch of both on disk.
type signedHead struct {
	Head
	epoch     int64 // see Base
	key       ed25519.PrivateKey
	keyDigest [sha256.Size]byte // of its public part, for leaves
	limit     Limit
	revision  int64 // see Base
	cached    bool  // from an earlier batch
	shared    bool  // must not be cached, because other processes write the chain
}

// heads is the only owner of what a process builds on: the heads of chains as it has committed
// them, or read them since, with their epochs. The storage of either engine gets them back in an
// Extension and remembers none. A head is put here after its commit, and forgotten when it was
// stale, when its key was changed, and when another process has written. The goroutine of Log.Run
// uses it.
type heads struct {
	*bounded.Map[int64, signedHead]
}

// put remembers a head, unless other processes write the chain.
func (h heads) put(chain int64, head signedHead) {
	if !head.shared {
		h.Put(chain, head)
	}
}

// forget drops the heads of chains.
func (h heads) forget(chains []int64) {
	for _, chain := range chains {
		h.Delete(chain)
	}
}
