package store

import (
	"context"
	"log/slog"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"attestd/chain"
	"attestd/store/postgres"
)

const (
	watchEvery     = 100 * time.Millisecond // how often it is looked what others have appended
	watchAgain     = 250 * time.Millisecond // when that could not be read
	reconcileEvery = 5 * time.Second        // how often some heads are compared with what was heard
	reconcileRows  = 1000                   // heads at once
	purgeFeedEvery = 10 * time.Second
)

// appends is where a watch reads what all servers append; a postgres.Feed. After an error it is
// opened again.
type appends interface {
	Open(ctx context.Context) error
	// of the chains that were extended since the last look
	Next(ctx context.Context) (lengths map[int64]int64, err error)
	Heads(ctx context.Context, after int64, most int) (lengths map[int64]int64, last int64, err error)
	Lengths(ctx context.Context, chains []int64) (map[int64]int64, error)
	Purge(ctx context.Context) error
	Close()
}

// watch says to those who follow chains what other servers append. It knows how long each chain is
// that was said to them, some 30 bytes each, so that everything is said once and in order,
// whichever comes first: the notice of an own commit or its publication, and what another server
// had appended before it.
//
// A notice that is lost does no harm. After a lost connection all heads are compared with what is
// known, and a thousand of them every few seconds anyhow.
type watch struct {
	source appends
	log    *slog.Logger
	grown  func(number int64)           // of each chain that others have extended
	others func(number, from, to int64) // with the records of actions that they have appended
	// of which they have changed something, as its control log says
	changed func(company int64)
	// called when the database is behind what it was, with the chains that are
	shrunk func(chains []int64)

	heads *heads // what the head file is to know; nil without one

	mu      sync.Mutex // held while anything is said, which so is in order
	lengths map[int64]int64
	whole   bool // lengths has all chains: one that it has not is new
}

func newWatch(source appends) *watch {
	return &watch{source: source, lengths: make(map[int64]int64)}
}

// run watches until ctx is done. ready is called once, after the first attempt to read all heads.
func (w *watch) run(ctx context.Context, ready func()) {
	defer w.source.Close()
	failing := false
	for n := 0; ctx.Err() == nil; n++ {
		err := w.source.Open(ctx)
		if err == nil && n > 0 && w.heads != nil {
			w.heads.suspect()
		}
		if err == nil {
			err = w.reconcileAll(ctx)
		}
		ready()
		if err == nil {
			if failing {
				w.log.Info("what other servers append can be read again")
			}
			failing = false
			err = w.follow(ctx)
		}
		if ctx.Err() == nil && !failing {
			w.log.Warn("it cannot be read what other servers append; it is tried again", "error", err)
			failing = true
		}
		pause(ctx, watchAgain)
	}
}

// follow looks at what is new until that cannot be read.
func (w *watch) follow(ctx context.Context) error {
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
		pause(ctx, watchEvery)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// reconcileAll compares all heads with what is known.
func (w *watch) reconcileAll(ctx context.Context) error {
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
func (w *watch) reconcile(ctx context.Context, after int64) (last int64, err error) {
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
		if before := w.behind(shorter, lengths); len(before) > 0 && w.heads != nil {
			if err := w.heads.shrunk(ctx, before, w.log); err != nil {
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
func (w *watch) heard(lengths map[int64]int64) (shorter map[int64]int64) {
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

// extended says that others have appended records of a chain. w.mu is held.
func (w *watch) extended(number, from, to int64) {
	w.lengths[number] = to
	if w.heads != nil {
		w.heads.extended(number)
	}
	w.grown(number)
	if company, name := logOf(number); name == Control {
		w.changed(company)
	} else {
		w.others(number, from, to)
	}
}

// behind notices that chains have become shorter than was known before their lengths were read,
// which it returns: the database is an older copy of what it was.
func (w *watch) behind(known, lengths map[int64]int64) map[int64]int64 {
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
		w.log.Error("records that were there are gone: the database is an older copy of what it was", "chains", len(shorter))
		w.shrunk(shorter)
	}
	return known
}

// publish hands on what this server has committed, after what others had appended before it, and
// without what was read as theirs meanwhile.
func (w *watch) publish(batch []chain.Extension, next func([]chain.Extension)) {
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

// length is how long a chain is as far as was said; 0 where nothing was.
func (w *watch) length(number int64) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lengths[number]
}

// MultiWriter says whether other servers may write the database too.
func (s *Store) MultiWriter() bool { return s.isPostgres }

// watched watches a database that other servers write too, as one of a group, until ctx is done. It
// returns publish as it is to be used then, once it is known how long all chains are, or that this
// cannot be read now.
func (s *Store) watched(ctx context.Context, group *sync.WaitGroup, o RunOptions, publish func([]chain.Extension, bool)) func([]chain.Extension, bool) {
	w := s.storage.(*pgWriter).watch
	w.source = postgres.NewFeed(s.db)
	w.log, w.heads, w.grown, w.others, w.changed = s.writer.logger, s.heads, o.Grown, o.Others, o.Changed
	w.shrunk = func(chains []int64) {
		s.forget()
		publish(nil, true)
		for _, number := range chains {
			if _, name := logOf(number); name == Actions {
				o.WentBack(number)
			}
		}
	}
	if h := s.heads; h != nil {
		h.wentBack = func(chains []int64) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.shrunk(chains)
		}
	}
	ready := make(chan struct{})
	group.Go(func() { w.run(ctx, sync.OnceFunc(func() { close(ready) })) })
	<-ready
	return func(batch []chain.Extension, external bool) {
		w.publish(batch, func(left []chain.Extension) { publish(left, external) })
	}
}
