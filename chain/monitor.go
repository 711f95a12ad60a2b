package chain

import (
	"context"
	"sync"
	"time"

	"attestd/internal/sleep"
	"attestd/internal/wake"
)

const (
	// largest number of chains without pending records whose state is cached, 1 KiB each at most
	maxWatched = 4096
	// bytes of committed records in memory that wait for delivery
	maxHeld       = 16 << 20
	deliverAtOnce = 256         // records read back from disk before other chains get a turn
	retryAfter    = time.Second // after a chain could not be read
)

// Event is one message of the stream: a committed record and the verdict on its whole chain.
type Event struct {
	Chain   int64
	Record  Record
	Verdict Verdict
}

// Monitor reports for each committed record whether its whole chain verifies. It has a running tree
// for each verified chain. It verifies unknown chains from disk: after a start, and after an
// external write.
//
// If other servers write the chains too, their appends are no external writes. The monitor reads
// them from disk, verifies them against the running tree, and extends the tree.
//
// Publish only records, for each chain, that the records [from, to) are pending. Exactly one of two
// goroutines processes a chain with pending records, so its events stay in order. The deliverer
// does it while the state is known; otherwise the checker determines the state from disk. The
// deliverer uses records held in memory, or else reads them from disk, so nothing is lost when
// memory is short.
type Monitor struct {
	reader   Reader
	verifier *Verifier
	shared   bool // other servers write the chains too

	mu        sync.Mutex
	listening bool
	// grows with each external write that Publish reports; a state of an earlier generation counts
	// as unknown
	generation int64
	discarded  int64 // number of verdicts that were discarded, of all chains
	watched    map[int64]*watch
	held       int // bytes in watch.held of all chains
	deliverer  queue
	checker    queue
	// chains that are being verified for event readers; closed at the end
	verifying map[int64]chan struct{}
}

// watch is the state of a chain in a Monitor; Monitor.mu guards it.
type watch struct {
	chain      int64
	generation int64    // of the state; 0 for an unknown state
	bad        *Verdict // verdict on an invalid chain, or nil
	// tree of a valid chain before from; of a shared chain, a verified tree of another length
	tree tree

	// committed records that are not yet delivered; both are lengthUnknown before the first notice
	// about a shared chain
	from, to int64
	held     []Record // the first of them, in memory
	busy     bool     // queued, or being processed
	unread   bool     // the last read failed, so the checker waits before it retries
}

// lengthUnknown is the length of a chain that was verified before its first Publish or Grown.
const lengthUnknown = -1

// queue has the chains that wait for one goroutine, each at most once; Monitor.mu guards the list.
type queue struct {
	list []*watch
	wake wake.Signal // set when the list may not be empty
}

func (q *queue) push(w *watch) {
	q.list = append(q.list, w)
	q.wake.Set()
}

// NewMonitor returns a monitor of the chains of r that verifies with v. If shared is true, other
// servers write the chains too; see Grown.
func NewMonitor(r Reader, v *Verifier, shared bool) *Monitor {
	return &Monitor{
		reader: r, verifier: v, shared: shared,
		generation: 1,
		watched:    make(map[int64]*watch),
		deliverer:  queue{wake: wake.NewSignal()},
		checker:    queue{wake: wake.NewSignal()},
		verifying:  make(map[int64]chan struct{}),
	}
}

// Publish is the publish function for Log.Run. It never blocks, and is cheap without listeners.
func (m *Monitor) Publish(batch []Extension, external bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if external {
		m.generation++
	}
	m.verifier.Appended()
	for i := range batch {
		if m.listening {
			m.enqueue(&batch[i])
		} else {
			m.follow(&batch[i])
		}
	}
}

// Grown reports that other servers have appended the records [from, to) of a shared chain. Calls
// may be late or repeated; known records are ignored. A call of Publish for the chain MUST NOT
// precede the calls about the records before it. Grown never blocks, and is cheap without
// listeners.
func (m *Monitor) Grown(chain, from, to int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := m.watched[chain]
	if w != nil && w.to == lengthUnknown {
		w.from, w.to = from, from
	}
	switch {
	case w != nil && to <= w.to:
	case m.listening:
		if w == nil {
			w = &watch{chain: chain, from: from, to: from}
			m.watched[chain] = w
		}
		w.to = to
		m.schedule(w)
	case w != nil: // its tree is updated when there is a listener
		w.from, w.to = to, to
	}
}

// follow updates the state of a chain from its head, without hashing, while there is no listener.
func (m *Monitor) follow(e *Extension) {
	w := m.watched[e.Chain]
	switch {
	case w == nil:
	case m.known(w) && (w.bad != nil || w.tree.is(e.From)):
		w.from, w.to = e.Head.Length, e.Head.Length
		w.tree = tree{e.Head.Length, e.Head.Frontier}
	case m.fits(w, e.From):
		w.from, w.to = e.Head.Length, e.Head.Length
	default:
		delete(m.watched, e.Chain)
	}
}

// fits reports whether the known state may belong to the extended chain. The tree of a shared chain
// may have another length.
func (m *Monitor) fits(w *watch, from Head) bool {
	return w.tree.is(from) || m.shared && w.generation == m.generation && w.tree.length != from.Length
}

// enqueue schedules the records of e for delivery.
func (m *Monitor) enqueue(e *Extension) {
	w := m.watched[e.Chain]
	if w == nil || e.From.Length < w.to { // a shorter chain is a different one
		m.forget(w)
		w = &watch{chain: e.Chain, from: e.From.Length, to: e.From.Length}
		m.watched[e.Chain] = w
	}
	if w.from == w.to && !w.busy {
		if w.bad == nil && !m.fits(w, e.From) {
			w.generation = 0 // the known state does not belong to the extended chain
		}
		if !m.shared || w.to == lengthUnknown {
			w.from = e.From.Length
		}
	}
	if w.generation == m.generation && w.from+int64(len(w.held)) == e.From.Length {
		for i := range e.Records {
			if m.held >= maxHeld {
				break
			}
			w.held = append(w.held, e.Records[i])
			m.held += size(&e.Records[i])
		}
	}
	w.to = e.Head.Length
	m.schedule(w)
}

// Listen sets whether there are listeners. Records committed without listeners are not delivered
// later.
func (m *Monitor) Listen(on bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.listening = on; on {
		return
	}
	for _, w := range m.watched {
		if w.busy {
			m.forget(w)
		}
	}
	m.deliverer.list, m.checker.list = nil, nil
}

// Run emits events, for each chain in index order, until ctx is done; then it returns nil. One
// goroutine calls emit, which should not block. While a chain cannot be read, Run retries each
// second and its events wait. Run MUST be called once.
func (m *Monitor) Run(ctx context.Context, emit func(Event)) error {
	var group sync.WaitGroup
	defer group.Wait()
	group.Go(func() {
		for w := m.next(ctx, &m.checker); w != nil; w = m.next(ctx, &m.checker) {
			m.check(ctx, w)
		}
	})
	for w := m.next(ctx, &m.deliverer); w != nil; w = m.next(ctx, &m.deliverer) {
		m.deliver(ctx, w, emit)
	}
	return nil
}

// next waits for a chain in a queue. It returns nil when ctx is done.
func (m *Monitor) next(ctx context.Context, q *queue) *watch {
	for ctx.Err() == nil {
		m.mu.Lock()
		for len(q.list) > 0 {
			w := q.list[0]
			q.list = q.list[1:]
			if m.watched[w.chain] == w {
				m.mu.Unlock()
				return w
			}
		}
		m.mu.Unlock()
		select {
		case <-q.wake:
		case <-ctx.Done():
		}
	}
	return nil
}

// known reports whether the state of a chain covers the records before from, or will after catchUp.
func (m *Monitor) known(w *watch) bool {
	return w.generation == m.generation && (w.bad != nil || w.tree.length == w.from || m.isBehind(w))
}

// isBehind reports whether the tree of a shared chain must be extended before delivery.
func (m *Monitor) isBehind(w *watch) bool {
	return m.shared && w.bad == nil && w.tree.length < w.from
}

// schedule adds an idle chain to the queue of its next step.
func (m *Monitor) schedule(w *watch) {
	switch {
	case w.busy || m.watched[w.chain] != w:
	case w.from == w.to:
		m.evict()
	case m.known(w) && !w.unread:
		w.busy = true
		m.deliverer.push(w)
	default:
		w.busy = true
		m.checker.push(w)
	}
}

// evict removes an arbitrary chain without pending records if there are too many. A bounded.Map
// would also remove one with pending records, whose events would be lost.
func (m *Monitor) evict() {
	if len(m.watched) <= maxWatched {
		return
	}
	for _, w := range m.watched {
		if w.from == w.to && !w.busy {
			m.forget(w)
			return
		}
	}
}

func (m *Monitor) forget(w *watch) {
	if w != nil {
		m.drainHeld(w)
		delete(m.watched, w.chain)
	}
}

// drainHeld removes and returns the records of w in memory.
func (m *Monitor) drainHeld(w *watch) []Record {
	records := w.held
	for i := range records {
		m.held -= size(&records[i])
	}
	w.held = nil
	return records
}

// size estimates the memory of a held record.
func size(r *Record) int { return 256 + len(r.Payload) + len(r.Delegation) }

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
			own := r.Clone()
			return one(&own)
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
