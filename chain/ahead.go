package chain

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"attestd/chain/tlog"
)

// ahead is the first of two stages. While the commit of one batch syncs, the records of the next
// one are hashed and signed, nearly all of the work of a batch: by their callers as they arrive,
// and by one goroutine for those that wait already.
//
// Each is sealed at the place that it will probably have: the index that follows if this commit
// succeeds and all that waits before it becomes records, and the time of the forecast, which is
// after the call. The next batch takes the records that are at their places, and seals the others
// anew. So nothing depends on a forecast: neither whether this commit fails, nor which callers
// leave, replay a key or are refused, nor whether the clock or the signing key changes. What was
// sealed in vain is never seen by anybody.
//
// The goroutine of Log.Run owns all heads, and lends them from beginAhead to endAhead.
type ahead struct {
	heads heads
	now   func() time.Time
	skip  int // of the next commits, during which nothing is sealed

	ended   atomic.Bool    // the commit has ended
	sealing sync.WaitGroup // those that seal

	// Log.mu guards these.
	begun     bool // a commit syncs
	placed    int  // waiters at the front of the queue that have their places
	forecasts map[int64]*forecast
}

// forecast is the place of the next record of a chain.
type forecast struct {
	index     int64
	timestamp string
	head      *signedHead // after the commit that syncs
}

// sealed is a record that was sealed ahead of its batch.
type sealed struct {
	forecast
	record Record
	leaf   tlog.Hash
	done   bool // record and leaf are set
}

// skipped is the number of commits during which nothing is sealed after most of what was sealed for
// a batch was of no use. So callers who retry what is written pay little for it.
const skipped = 64

// beginAhead has records sealed until endAhead. The commit that begins makes the extensions'
// heads those of the groups' chains.
func (l *Log) beginAhead(groups []group, extensions []Extension) {
	a := &l.ahead
	if a.skip > 0 {
		a.skip--
		return
	}
	forecasts := make(map[int64]*forecast, len(groups))
	for i := range groups {
		head := groups[i].from
		head.Head = extensions[i].Head
		forecasts[groups[i].chain] = &forecast{head.Length, head.Timestamp, &head}
	}
	a.ended.Store(false)
	l.mu.Lock()
	defer l.mu.Unlock()
	a.begun, a.placed, a.forecasts = true, 0, forecasts
	if len(l.waiting) > 0 {
		a.sealing.Go(l.sealWaiting)
	}
}

// endAhead returns when nothing is being sealed.
func (l *Log) endAhead() {
	l.mu.Lock()
	begun := l.ahead.begun
	l.ahead.begun = false
	l.mu.Unlock()
	if begun {
		l.ahead.ended.Store(true)
		l.ahead.sealing.Wait()
	}
}

// sealWaiting seals the records of those that wait, in their order.
func (l *Log) sealWaiting() {
	for w := l.placeNext(); w != nil; w = l.placeNext() {
		l.ahead.seal(w)
	}
}

// placeNext gives places to the waiters in the queue, up to the first one with records to seal.
func (l *Log) placeNext() *waiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.ahead.begun && l.ahead.placed < min(len(l.waiting), maxBatch) {
		w := l.waiting[l.ahead.placed]
		l.ahead.placed++
		if l.ahead.place(w) {
			return w
		}
	}
	return nil
}

// placeArrived gives places to the last waiter in the queue, unless one before it has none. It
// reports whether the caller MUST call sealArrived next. Log.mu is held.
func (l *Log) placeArrived() bool {
	last := len(l.waiting) - 1
	if !l.ahead.begun || l.ahead.placed != last || last >= maxBatch {
		return false
	}
	l.ahead.placed++
	if !l.ahead.place(l.waiting[last]) {
		return false
	}
	l.ahead.sealing.Add(1)
	return true
}

// sealArrived seals the records of a waiter that placeArrived has placed.
func (l *Log) sealArrived(w *waiter) {
	defer l.ahead.sealing.Done()
	l.ahead.seal(w)
}

// place forecasts the places of a waiter's records, and reports whether any is to be sealed.
func (a *ahead) place(w *waiter) bool {
	if w.rows != nil || len(w.drafts) == 0 { // what rows add, mostly to other chains, is not known
		return false
	}
	chain := w.drafts[0].Chain // of all its drafts
	f := a.forecasts[chain]
	if f == nil {
		head, _ := a.heads.Get(chain)
		f = &forecast{head.Length, head.Timestamp, &head}
		a.forecasts[chain] = f
	}
	if f.head.key == nil || f.head.shared { // unknown, or about to be read again
		return false
	}
	if w.ahead == nil {
		w.ahead = make([]sealed, len(w.drafts))
	}
	f.timestamp = max(f.timestamp, FormatTime(a.now()))
	todo := false
	for i := range w.ahead {
		if s := &w.ahead[i]; !s.done || s.index != f.index || !s.head.hasKeyOf(f.head) {
			*s, todo = sealed{forecast: *f}, true
		}
		f.index++
	}
	return todo
}

// seal seals the records of a waiter that has its places, until the commit has ended: the next
// batch seals the rest on all processors.
func (a *ahead) seal(w *waiter) {
	for i := range w.ahead {
		s, d := &w.ahead[i], &w.drafts[i]
		if a.ended.Load() {
			return
		}
		if s.done {
			continue
		}
		s.record = d.record(s.index, s.timestamp)
		s.record.seal(d.Canonical, s.head.key)
		s.leaf, s.done = s.record.leafHash(&s.head.keyDigest), true
		runtime.Gosched() // the commit's end goes first
	}
}

// isAt reports whether a batch that begins at the time latest may take the record for an index.
func (s *sealed) isAt(index int64, head *signedHead, earliest, latest string) bool {
	return s != nil && s.done && s.index == index && s.head.hasKeyOf(head) &&
		earliest <= s.record.Timestamp && s.record.Timestamp <= latest
}

// hasKeyOf reports whether both have one key, in one place of memory.
func (h *signedHead) hasKeyOf(other *signedHead) bool { return &h.key[0] == &other.key[0] }

// learnAhead skips the next commits if most of what was sealed for a batch was of no use. A draft
// that replays a key is in no group, so what was sealed is counted by waiters.
func (l *Log) learnAhead(batch []*waiter, groups []group) {
	sealed, used := 0, 0
	for _, w := range batch {
		for i := range w.ahead {
			if w.ahead[i].done {
				sealed++
			}
		}
	}
	for i := range groups {
		used += groups[i].used
	}
	if 2*used < sealed {
		l.ahead.skip = skipped
	}
}
