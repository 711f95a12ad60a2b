package chain

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
)

// EventReader makes events of records read from disk, like those that a Monitor makes of appended
// records: whether the entire current chain verifies, and the root after the record. It MUST be
// used by one goroutine at a time.
//
// It requires no verification if the monitor has verified the chain and no external write came
// since. It then links a record to the verified tree with a few hundred hashes.
type EventReader struct {
	m          *Monitor
	chain      int64
	next       int64
	generation int64    // of bad and tree; 0 for never
	discarded  int64    // Monitor.discarded when they were read
	bad        *Verdict // the verdict on an invalid chain, or nil
	tree       tree     // of a valid chain: the tree of the records before next
}

// EventReader returns a reader of events for the records of a chain from an index on. The index
// MUST NOT be greater than the length.
func (m *Monitor) EventReader(chain, from int64) *EventReader {
	return &EventReader{m: m, chain: chain, next: from}
}

// Invalidate discards the verdict on a chain that another process may have changed. The monitor
// verifies it from disk before its next verdict.
func (m *Monitor) Invalidate(chain int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.discarded++
	if w := m.watched[chain]; w != nil {
		w.generation = 0
	}
}

// Next returns the index of the first record of the next events.
func (r *EventReader) Next() int64 { return r.next }

// maxRetries bounds the consecutive reads that contradict the preceding verification.
const maxRetries = 3

// Events returns the events of the next records. read returns the records from an index on, in
// order, and the index after them. Events verifies the chain first if the monitor has no verdict,
// and reads again after an external write. No events means that there are no records yet.
func (r *EventReader) Events(ctx context.Context, read func(from int64) (records []Record, next int64, err error)) ([]Event, error) {
	for range maxRetries {
		if err := r.sync(ctx); err != nil {
			return nil, err
		}
		records, next, err := read(r.next)
		if err != nil {
			return nil, err
		}
		if !r.m.isGeneration(r.generation) {
			continue
		}
		events, err := r.verify(ctx, records)
		switch {
		case contradicts(err):
			r.invalidate()
			continue
		case err != nil:
			return nil, err
		}
		r.next = next
		return events, nil
	}
	return nil, errors.New("chain: the disk changes under the verification")
}

// verify makes events of records. It returns an error for which contradicts is true if the records
// do not follow the ones before them in a valid chain.
func (r *EventReader) verify(ctx context.Context, records []Record) ([]Event, error) {
	if r.m.shared && r.bad == nil {
		if _, err := r.m.verifier.verifyRecords(ctx, r.chain, r.tree.clone(), records); err != nil {
			return nil, err
		}
	}
	events, t := make([]Event, 0, len(records)), r.tree.clone()
	for _, record := range records {
		verdict := Verdict{Length: record.Index + 1}
		if r.bad != nil {
			verdict.FailedAt, verdict.Reason = r.bad.FailedAt, r.bad.Reason
		} else {
			if record.Index != t.length {
				return nil, errGap
			}
			t.append(record.Hash, nil)
			verdict.Valid, verdict.Root = true, t.root()
		}
		events = append(events, Event{r.chain, record, verdict})
	}
	r.tree = t
	return events, nil
}

// sync updates the reader to the monitor's current state of the chain.
func (r *EventReader) sync(ctx context.Context) error {
	for range maxRetries {
		discarded := r.m.countDiscarded() // before the state, so that a later one is noticed
		generation, known, bad, err := r.m.state(ctx, r.chain)
		if err != nil || generation == r.generation && discarded == r.discarded {
			return err
		}
		r.generation, r.discarded, r.bad, r.tree = generation, discarded, bad, tree{}
		if bad != nil {
			return nil
		}
		if r.tree, err = r.m.treeBefore(ctx, r.chain, r.next, known); err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		r.invalidate()
	}
	return errors.New("chain: the hashes on disk do not lead to the root that was verified")
}

// invalidate discards the verdict on the chain, so that it is verified again.
func (r *EventReader) invalidate() {
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	if w := r.m.watched[r.chain]; w != nil && w.generation == r.generation {
		w.generation = 0
		r.m.discarded++
	}
	r.generation = 0
}

func (m *Monitor) countDiscarded() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.discarded
}

func (m *Monitor) isGeneration(generation int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.generation == generation
}

// state returns the verified tree of a chain or the verdict that it is invalid, and the generation
// of that state. It verifies an unknown chain once for all concurrent callers.
func (m *Monitor) state(ctx context.Context, chain int64) (generation int64, known tree, bad *Verdict, err error) {
	for {
		m.mu.Lock()
		w := m.watched[chain]
		if w != nil && w.generation == m.generation {
			defer m.mu.Unlock()
			return w.generation, w.tree, w.bad, nil
		}
		underway, isUnderway := m.verifying[chain]
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
		m.verifying[chain] = done
		generation, to := m.generation, int64(0)
		if w != nil {
			to = w.to
		}
		m.mu.Unlock()

		verdict, verifiedTree, err := m.verifier.verifyFull(ctx, chain)
		bad := verdict.wrong(to)

		m.mu.Lock()
		delete(m.verifying, chain)
		close(done)
		same := m.generation == generation
		if err == nil && same {
			m.install(chain, verifiedTree, bad)
		}
		m.mu.Unlock()
		if err != nil || same {
			return generation, verifiedTree, bad, err
		}
	}
}

// install stores the result of a verification if it is the state before the pending records.
func (m *Monitor) install(chain int64, verifiedTree tree, bad *Verdict) {
	w := m.watched[chain]
	switch {
	case w == nil:
		w = &watch{chain: chain, from: verifiedTree.length, to: verifiedTree.length}
		if m.shared { // other servers may have appended without a notice so far
			w.from, w.to = lengthUnknown, lengthUnknown
		}
		m.watched[chain] = w
	case w.busy || w.from != w.to || bad == nil && !m.shared && w.from != verifiedTree.length:
		return
	}
	w.generation, w.tree, w.bad = m.generation, verifiedTree, bad
	m.evict()
}

// treeBefore returns the tree of the first n records of a chain, which it proves against the
// chain's verified tree. If n is beyond the known tree of a shared chain, it verifies the records
// between.
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
	// also checks that both roots lead to the head's
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
