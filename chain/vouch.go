package chain

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
)

// Voucher says of records that are read from disk what a Monitor says of those that are appended:
// whether the whole chain verifies, as it stands now, and the root after the record. One goroutine
// uses it.
//
// It costs no verification where the monitor knows the chain, which it does once it was verified,
// until an external write. From then on the tree is the one that was verified, and what leads from
// a record to it is a few hundred hashes.
type Voucher struct {
	m     *Monitor
	chain int64
	next  int64
	epoch int64    // in which the rest was found; 0 for never
	bad   *Verdict // the state: not valid,
	tree  tree     // or valid, and this the tree of the records before next
}

// Vouch returns a voucher for the records of a chain from an index on, which must not be greater
// than its length.
func (m *Monitor) Vouch(chain, from int64) *Voucher { return &Voucher{m: m, chain: chain, next: from} }

// Doubt says that a chain may have been changed by someone else: it is verified from disk before
// anything is said of it to who comes next.
func (m *Monitor) Doubt(chain int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if w := m.watched[chain]; w != nil {
		w.epoch = 0
	}
}

// Next is the index of the record that the next events begin with.
func (v *Voucher) Next() int64 { return v.next }

// maxDoubts is how often in a row the disk may be found to be otherwise than it was just verified.
const maxDoubts = 3

// Events returns the events of the next records, which read reads from disk: those from an index
// on, without a gap where there is none, and the index behind them. It verifies the chain first
// where the monitor does not know it; and reads again what was read while somebody else has
// written. None means that there are none for now.
func (v *Voucher) Events(ctx context.Context, read func(from int64) (records []Record, next int64, err error)) ([]Event, error) {
	for range maxDoubts {
		if err := v.sync(ctx); err != nil {
			return nil, err
		}
		records, next, err := read(v.next)
		if err != nil {
			return nil, err
		}
		if !v.m.isEpoch(v.epoch) {
			continue
		}
		events, err := v.verify(ctx, records)
		switch {
		case contradicts(err):
			v.invalidate()
			continue
		case err != nil:
			return nil, err
		}
		v.next = next
		return events, nil
	}
	return nil, errors.New("chain: the disk changes under the verification")
}

// verify makes events of records. An error that contradicts says that they do not follow on those
// before them in a chain that is valid.
func (v *Voucher) verify(ctx context.Context, records []Record) ([]Event, error) {
	if v.m.shared && v.bad == nil {
		if _, err := v.m.verifier.verifyRecords(ctx, v.chain, v.tree.clone(), records); err != nil {
			return nil, err
		}
	}
	events, t := make([]Event, 0, len(records)), v.tree.clone()
	for _, r := range records {
		verdict := Verdict{Length: r.Index + 1}
		if v.bad != nil {
			verdict.FailedAt, verdict.Reason = v.bad.FailedAt, v.bad.Reason
		} else {
			if r.Index != t.length {
				return nil, errGap
			}
			t.append(r.Hash, nil)
			verdict.Valid, verdict.Root = true, t.root()
		}
		events = append(events, Event{v.chain, r, verdict})
	}
	v.tree = t
	return events, nil
}

// sync makes sure that what the voucher goes by is what the monitor knows now.
func (v *Voucher) sync(ctx context.Context) error {
	for range maxDoubts {
		epoch, known, bad, err := v.m.state(ctx, v.chain)
		if err != nil || epoch == v.epoch {
			return err
		}
		v.epoch, v.bad, v.tree = epoch, bad, tree{}
		if bad != nil {
			return nil
		}
		if v.tree, err = v.m.treeBefore(ctx, v.chain, v.next, known); err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		v.invalidate()
	}
	return errors.New("chain: the hashes on disk do not lead to the root that was verified")
}

// invalidate makes the chain be verified anew.
func (v *Voucher) invalidate() {
	v.m.mu.Lock()
	defer v.m.mu.Unlock()
	if w := v.m.watched[v.chain]; w != nil && w.epoch == v.epoch {
		w.epoch = 0
	}
	v.epoch = 0
}

func (m *Monitor) isEpoch(epoch int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.epoch == epoch
}

// state returns what is known of a chain, the tree of records that were verified or what is bad
// about it, and in which epoch that was found. It verifies one that is not known, for all who ask
// meanwhile.
func (m *Monitor) state(ctx context.Context, chain int64) (epoch int64, known tree, bad *Verdict, err error) {
	for {
		m.mu.Lock()
		w := m.watched[chain]
		if w != nil && w.epoch == m.epoch {
			defer m.mu.Unlock()
			return w.epoch, w.tree, w.bad, nil
		}
		underway, isUnderway := m.vouching[chain]
		if isUnderway {
			m.mu.Unlock()
			select {
			case <-underway:
				continue
			case <-ctx.Done():
				return 0, tree{}, nil, ctx.Err()
			}
		}
		done := make(chan struct{})
		m.vouching[chain] = done
		epoch, to := m.epoch, int64(0)
		if w != nil {
			to = w.to
		}
		m.mu.Unlock()

		verdict, whole, err := m.verifier.verifyWhole(ctx, chain)
		bad := verdict.wrong(to)

		m.mu.Lock()
		delete(m.vouching, chain)
		close(done)
		same := m.epoch == epoch
		if err == nil && same {
			m.install(chain, whole, bad)
		}
		m.mu.Unlock()
		if err != nil || same {
			return epoch, whole, bad, err
		}
	}
}

// install keeps what was found out of a whole chain, where that is the state before the records
// that come next.
func (m *Monitor) install(chain int64, whole tree, bad *Verdict) {
	w := m.watched[chain]
	switch {
	case w == nil:
		w = &watch{chain: chain, from: whole.length, to: whole.length}
		if m.shared { // others may have written what nobody has heard of yet
			w.from, w.to = unheard, unheard
		}
		m.watched[chain] = w
	case w.busy || w.from != w.to || bad == nil && !m.shared && w.from != whole.length:
		return
	}
	w.epoch, w.tree, w.bad = m.epoch, whole, bad
	m.evict()
}

// treeBefore returns the tree of the first n records of a chain. It leads to the chain's root; of a
// shared chain it leads to or from the tree known, by records that it verifies where those are
// more.
func (m *Monitor) treeBefore(ctx context.Context, chain, n int64, known tree) (t tree, err error) {
	head, _, err := m.reader.Tip(ctx, chain)
	if err != nil {
		return tree{}, err
	}
	to := n
	if m.shared {
		for t = known.clone(); t.length < n && err == nil; {
			_, t, err = m.verifier.verifyNext(ctx, chain, t, min(n, t.length+deliverAtOnce))
		}
		if err != nil || t.length == n {
			return t, err
		}
		to = known.length
	}
	// which has checked that both roots lead to the head's
	proof, err := ProveConsistency(ctx, m.reader, chain, n, to, head)
	if err != nil {
		return tree{}, err
	}
	s := newSubtrees(ctx, m.reader, chain, head)
	t = tree{length: n}
	for low := int64(0); low < n; {
		level := bits.Len64(uint64(n-low)) - 1
		hash, err := s.perfect(level, low>>level)
		if err != nil {
			return tree{}, err
		}
		t.frontier, low = append(t.frontier, hash), low+1<<level
	}
	if t.root() != proof.FromRoot || m.shared && proof.ToRoot != known.root() {
		return tree{}, fmt.Errorf("chain: hashes on disk do not give the root of %d records: %w", n, errContradiction)
	}
	return t, nil
}
