package chain

import (
	"context"
	"errors"

	"attestd/internal/sleep"
)

// check determines the state of a chain from disk. It is the checker's step.
func (m *Monitor) check(ctx context.Context, w *watch) {
	m.mu.Lock()
	generation, from, to := m.generation, w.from, w.to
	isFound, bad, before, unread := m.shared && w.generation == generation, w.bad, w.tree, w.unread
	m.mu.Unlock()

	var err error
	// a shared chain has more records than those before from, or its records could not be read
	if isFound {
		before, err = m.treeBefore(ctx, w.chain, min(from, before.length), before)
		if err == nil && unread {
			_, _, err = m.verifier.verifyNext(ctx, w.chain, before.clone(), before.length+1)
		}
	}
	if !isFound || contradicts(err) {
		var verdict Verdict
		verdict, before, err = m.verifier.verifyInBackground(ctx, w.chain, from)
		bad = verdict.wrong(to)
	}
	if err != nil {
		_ = sleep.For(ctx, retryAfter)
	}

	m.mu.Lock()
	defer m.mu.Unlock()
	w.busy = false
	if err == nil {
		w.generation, w.tree, w.bad, w.unread = generation, before, bad, false
	}
	m.schedule(w)
}

// wrong returns nil for a valid chain with all committed records, or else the verdict on it.
func (v Verdict) wrong(committed int64) *Verdict {
	switch {
	case !v.Valid:
		return &v
	case v.Length < committed:
		return &Verdict{Length: v.Length, FailedAt: v.Length, Reason: "committed records are no longer there"}
	}
	return nil
}

var errGap = errors.New("record is missing")

// deliver emits the held records of a chain, or else its next records on disk. It is the
// deliverer's step.
func (m *Monitor) deliver(ctx context.Context, w *watch, emit func(Event)) {
	m.mu.Lock()
	if !m.known(w) { // an external write came since it was queued
		w.busy = false
		m.schedule(w)
		m.mu.Unlock()
		return
	}
	if m.isBehind(w) {
		m.mu.Unlock()
		m.catchUp(ctx, w)
		return
	}
	records := m.drainHeld(w)
	from, to := w.from, min(w.to, w.from+deliverAtOnce)
	if len(records) > 0 {
		to = from + int64(len(records))
	}
	w.from = to // so that records committed meanwhile can be held
	generation, bad, t := w.generation, w.bad, w.tree.clone()
	m.mu.Unlock()

	delivered := from
	one := func(r *Record) error {
		verdict := Verdict{Length: r.Index + 1}
		if bad != nil {
			verdict.FailedAt, verdict.Reason = bad.FailedAt, bad.Reason
		} else {
			if r.Index != t.length {
				return errGap
			}
			t.append(r.Hash, nil)
			verdict.Valid, verdict.Root = true, t.root()
		}
		emit(Event{w.chain, *r, verdict})
		delivered = r.Index + 1
		return nil
	}
	var err error
	if m.shared && bad == nil && len(records) == 0 {
		if records, _, err = m.verifier.verifyNext(ctx, w.chain, t.clone(), to); err == nil {
			to = from + int64(len(records))
		}
	}
	switch {
	case err != nil:
	case len(records) > 0:
		for i := 0; i < len(records) && err == nil; i++ {
			err = one(&records[i])
		}
	default:
		err = m.reader.Records(ctx, w.chain, from, to, func(r *Record) error {
			mine := r.Clone()
			return one(&mine)
		})
	}
	if err == nil && bad != nil {
		delivered = to // a chain that is known to be bad may have lost records
	}

	m.mu.Lock()
	defer m.mu.Unlock()
	w.busy = false
	// large or missing records precede the held ones
	if delivered != w.from {
		m.drainHeld(w)
		w.from = delivered
	}
	switch {
	case m.shared && bad == nil && err != nil && !contradicts(err):
		w.unread = true
	case delivered != to:
		// The disk contradicts this state or cannot be read; the checker determines which.
		w.generation = 0
	case w.generation == generation:
		w.tree = t
	}
	m.schedule(w)
}

// catchUp extends the tree of a shared chain up to the pending records, after other servers have
// extended the chain without listeners. It is also a step of the deliverer.
func (m *Monitor) catchUp(ctx context.Context, w *watch) {
	m.mu.Lock()
	generation, to := w.generation, min(w.from, w.tree.length+deliverAtOnce)
	before := w.tree.clone()
	m.mu.Unlock()
	_, t, err := m.verifier.verifyNext(ctx, w.chain, before, to)

	m.mu.Lock()
	defer m.mu.Unlock()
	w.busy = false
	switch {
	case err != nil && !contradicts(err):
		w.unread = true
	case err != nil:
		w.generation = 0
	case w.generation == generation:
		w.tree = t
	}
	m.schedule(w)
}
