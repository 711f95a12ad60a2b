package postgres

import (
	"context"
	"database/sql"
	"log/slog"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"attestd/chain"
	"attestd/internal/sleep"
)

const (
	watchEvery     = 100 * time.Millisecond // how often it is looked what others have appended
	watchAgain     = 250 * time.Millisecond // when that could not be read
	reconcileEvery = 5 * time.Second        // how often some heads are compared with what was heard
	reconcileRows  = 1000                   // heads at once
	purgeFeedEvery = 10 * time.Second
)

// source is where a Watch reads what all servers append: a Feed, or that of a test. After an error
// it is opened again.
type source interface {
	Open(ctx context.Context) error
	// of the chains that were extended since the last look
	Next(ctx context.Context) (lengths map[int64]int64, err error)
	Heads(ctx context.Context, after int64, most int) (lengths map[int64]int64, last int64, err error)
	Lengths(ctx context.Context, chains []int64) (map[int64]int64, error)
	Purge(ctx context.Context) error
	Close()
}

// Watch reports what other servers append, in order with the commits of this server. It knows how
// long each chain is of which it has reported something, some 30 bytes each. So each record is
// reported once, whichever comes first: the notice of an own commit or its publication, and what
// another server had appended before it.
//
// These lengths are no copy of the heads that the log builds on (chain/batch.go): those are of few
// chains, and of none that other servers write too.
//
// A notice that is lost does no harm. After a lost connection all heads are compared with what is
// known, and a thousand of them every few seconds anyhow.
//
// The functions are set before Run. Extended and Shrunk are called one at a time, and MUST NOT call
// the Watch.
type Watch struct {
	Log *slog.Logger
	// called for the records that other servers have appended to a chain
	Extended func(chain, from, to int64)
	// called with the chains that have become shorter: the database is an older copy of what it was
	Shrunk func(chains []int64)
	// called after Shrunk, with the lengths that they had; an error repeats the comparison
	Compare func(ctx context.Context, before map[int64]int64) error
	// called after each new connection but the first, which may be to another copy of the database
	Reconnected func()

	source  source
	mu      sync.Mutex // held while anything is reported, which so is in order
	lengths map[int64]int64
	whole   bool // lengths has all chains: one that it has not is new
}

// NewWatch returns a watch of a database.
func NewWatch(db *sql.DB) *Watch { return newWatch(NewFeed(db)) }

func newWatch(source source) *Watch {
	return &Watch{
		Log:         slog.New(slog.DiscardHandler),
		Extended:    func(int64, int64, int64) {},
		Shrunk:      func([]int64) {},
		Compare:     func(context.Context, map[int64]int64) error { return nil },
		Reconnected: func() {},
		source:      source, lengths: make(map[int64]int64),
	}
}

// Run watches until ctx is done. ready is called once: after the first attempt to read all heads,
// or when Run is stopped before that, because a caller waits for it.
func (w *Watch) Run(ctx context.Context, ready func()) {
	ready = sync.OnceFunc(ready)
	defer ready()
	defer w.source.Close()
	failing := false
	for n := 0; ctx.Err() == nil; n++ {
		err := w.source.Open(ctx)
		if err == nil && n > 0 {
			w.Reconnected()
		}
		if err == nil {
			err = w.reconcileAll(ctx)
		}
		ready()
		if err == nil {
			if failing {
				w.Log.Info("what other servers append can be read again")
			}
			failing = false
			err = w.follow(ctx)
		}
		if ctx.Err() == nil && !failing {
			w.Log.Warn("it cannot be read what other servers append; it is tried again", "error", err)
			failing = true
		}
		_ = sleep.For(ctx, watchAgain)
	}
}

// follow looks at what is new until that cannot be read.
func (w *Watch) follow(ctx context.Context) error {
	var reconciled, purged time.Time
	at := int64(math.MinInt64) // the chain that was compared last
	for {
		lengths, err := w.source.Next(ctx)
		if err != nil {
			return err
		}
		w.heard(lengths)
		now := time.Now()
		if now.Sub(purged) >= purgeFeedEvery {
			purged = now
			err = w.source.Purge(ctx)
		}
		if err == nil && now.Sub(reconciled) >= reconcileEvery {
			reconciled = now
			at, err = w.reconcile(ctx, at)
		}
		if err != nil {
			return err
		}
		if err := sleep.For(ctx, watchEvery); err != nil {
			return err
		}
	}
}

// reconcileAll compares all heads with what is known.
func (w *Watch) reconcileAll(ctx context.Context) error {
	for at := int64(math.MinInt64); ; {
		next, err := w.reconcile(ctx, at)
		if err != nil {
			return err
		}
		if at = next; at == math.MinInt64 {
			break
		}
	}
	w.mu.Lock()
	w.whole = true
	w.mu.Unlock()
	return nil
}

// reconcile compares the next heads after a chain with what is known, and returns the last of these
// chains; the first number there is where no more follow.
func (w *Watch) reconcile(ctx context.Context, after int64) (last int64, err error) {
	heads, last, err := w.source.Heads(ctx, after, reconcileRows)
	if err != nil {
		return after, err
	}
	// or this server has appended since they were read
	if shorter := w.heard(heads); len(shorter) > 0 {
		lengths, err := w.source.Lengths(ctx, slices.Collect(maps.Keys(shorter)))
		if err != nil {
			return after, err
		}
		if before := w.behind(shorter, lengths); len(before) > 0 {
			if err := w.Compare(ctx, before); err != nil {
				return after, err
			}
		}
	}
	if len(heads) < reconcileRows {
		return math.MinInt64, nil
	}
	return last, nil
}

// heard says of the chains that are longer than is known that others have extended them, and
// returns what is known of those that are shorter.
func (w *Watch) heard(lengths map[int64]int64) (shorter map[int64]int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	shorter = make(map[int64]int64)
	for number, length := range lengths {
		known, ok := w.lengths[number]
		switch {
		case !ok && !w.whole:
			w.lengths[number] = length
		case length > known:
			w.extended(number, known, length)
		case length < known:
			shorter[number] = known
		}
	}
	return shorter
}

// extended reports that others have appended records of a chain. w.mu is held.
func (w *Watch) extended(number, from, to int64) {
	w.lengths[number] = to
	w.Extended(number, from, to)
}

// behind notices that chains have become shorter than was known before their lengths were read,
// which it returns: the database is an older copy of what it was.
func (w *Watch) behind(known, lengths map[int64]int64) map[int64]int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	var shorter []int64
	maps.DeleteFunc(known, func(number, before int64) bool {
		length, found := lengths[number]
		return !found || length >= before
	})
	for number := range known {
		w.lengths[number] = lengths[number]
		shorter = append(shorter, number)
	}
	if len(shorter) > 0 {
		w.Log.Error("records that were there are gone: the database is an older copy of what it was", "chains", len(shorter))
		w.Shrunk(shorter)
	}
	return known
}

// Publish hands on what this server has committed, after what others had appended before it, and
// without what was read as theirs meanwhile.
func (w *Watch) Publish(batch []chain.Extension, next func([]chain.Extension)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	left := make([]chain.Extension, 0, len(batch))
	for _, e := range batch {
		known, ok := w.lengths[e.Chain]
		if ok && known >= e.Head.Length {
			continue
		}
		if from := e.From.Length; ok && known < from || !ok && w.whole && from > 0 {
			w.extended(e.Chain, known, from)
		}
		w.lengths[e.Chain] = e.Head.Length
		left = append(left, e)
	}
	next(left)
}

// WentBack reports chains that another component has found to be shorter than they were.
func (w *Watch) WentBack(chains []int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Shrunk(chains)
}

// Length is how long a chain is as far as was reported; 0 where nothing was.
func (w *Watch) Length(number int64) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lengths[number]
}
