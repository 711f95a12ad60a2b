package store

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"time"

	"attestd/chain"
	"attestd/chain/search"
)

// gaps are the chains of which summaries may be missing.
type gaps struct {
	wake chan struct{} // holds a token when there are any

	mu     sync.Mutex
	chains map[int64]bool
	all    bool // more than are remembered
}

// maxGaps is how many are remembered.
const maxGaps = 1 << 12

func newGaps() *gaps {
	g := &gaps{wake: make(chan struct{}, 1), chains: make(map[int64]bool)}
	g.noteAll()
	return g
}

func (g *gaps) note(number int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.chains) < maxGaps {
		g.chains[number] = true
	} else {
		g.all = true
	}
	g.ring()
}

func (g *gaps) noteAll() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.all = true
	g.ring()
}

func (g *gaps) ring() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

func (g *gaps) take() (chains map[int64]bool, all bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	chains, all = g.chains, g.all
	g.chains, g.all = make(map[int64]bool), false
	return chains, all
}

const (
	// after a look for summaries that are missing, so that one write makes those of many chains
	gapsWait = time.Second
	// after which all chains are looked at where other servers write too, which may be of a version
	// that makes none
	gapsAgain = 10 * time.Minute
	// how many times as long as it worked the making of a summary rests: it takes a quarter of a
	// core
	fillRest  = 3
	fillBatch = 64 // summaries of one write
)

// Summarize makes the summaries that are missing until ctx is done: of a database that was written
// before there were any, of a range in whose middle a server was started, and of chains that
// several servers extend. Until then a search reads those records. What is done is done also for
// the next start.
func (s *Store) Summarize(ctx context.Context) error {
	var again <-chan time.Time
	if s.isPostgres {
		ticker := time.NewTicker(gapsAgain)
		defer ticker.Stop()
		again = ticker.C
	}
	rest := func(worked time.Duration) { wait(ctx, fillRest*worked) }
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-again:
			s.writer.gaps.noteAll()
		case <-s.writer.gaps.wake:
		}
		if err := s.FillSummaries(ctx, rest); err != nil && ctx.Err() == nil {
			s.writer.logger.Warn("summaries for searches could not be made; until they are, those records are read", "error", err)
			s.writer.gaps.noteAll()
			wait(ctx, gapsAgain)
		}
		wait(ctx, gapsWait)
	}
}

func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// FillSummaries makes what is missing of the chains that are noted, which at first are all. rest is
// called after each with the time that it took; it may be nil.
func (s *Store) FillSummaries(ctx context.Context, rest func(worked time.Duration)) error {
	f := filler{store: s, rest: rest}
	chains, all := s.writer.gaps.take()
	if all {
		clear(chains) // they are among all
	}
	for number := range chains {
		if err := f.chain(ctx, number); err != nil {
			return err
		}
	}
	for after := int64(-1 << 62); all; {
		var page []int64
		err := s.read(ctx, func(c *conn) error {
			return c.each(func(rows *sql.Rows) error {
				var number int64
				err := rows.Scan(&number)
				page = append(page, number)
				return err
			}, `SELECT chain FROM head WHERE chain > ? AND length >= ? ORDER BY chain LIMIT 256`, after, search.Width)
		})
		if err != nil {
			return err
		}
		for _, number := range page {
			if err := f.chain(ctx, number); err != nil {
				return err
			}
			after = number
		}
		all = len(page) > 0
	}
	return f.write(ctx)
}

// filler is one call of FillSummaries.
type filler struct {
	store *Store
	rest  func(time.Duration)
	ready []search.Ready
}

// chain makes what is missing of one chain.
func (f *filler) chain(ctx context.Context, number int64) error {
	head, _, err := f.store.Tip(ctx, number)
	if errors.Is(err, chain.ErrMissing) {
		return nil
	}
	if err != nil {
		return err
	}
	whole := head.Length / search.Width
	var there int64
	err = f.store.read(ctx, func(c *conn) error {
		return c.one([]any{&there}, `SELECT count(*) FROM summary WHERE id BETWEEN ? AND ?`, summaryID(number, 0), summaryID(number, whole)-1)
	})
	if err != nil || there == whole {
		return err
	}
	for next := int64(0); next < whole; {
		end := min(next+1024, whole)
		missing := make(map[int64]bool)
		for i := next; i < end; i++ {
			missing[i] = true
		}
		err := f.store.Summaries(ctx, number, next, end, false, func(index int64, _ []byte) error {
			delete(missing, index)
			return nil
		})
		for ; err == nil && next < end; next++ {
			if missing[next] {
				err = f.make(ctx, number, next)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// make makes one summary. There is none of records that are damaged: a search meets them and says
// so.
func (f *filler) make(ctx context.Context, number, index int64) error {
	begun := time.Now()
	terms, err := search.Summarize(ctx, f.store, number, index)
	var damaged *search.DamageError
	if errors.As(err, &damaged) {
		terms, err = nil, nil
	}
	if err != nil {
		return err
	}
	if terms != nil {
		f.ready = append(f.ready, search.Ready{Chain: number, Index: index, Terms: terms})
	}
	if len(f.ready) >= fillBatch {
		if err := f.write(ctx); err != nil {
			return err
		}
	}
	if f.rest != nil {
		f.rest(time.Since(begun))
	}
	return nil
}

func (f *filler) write(ctx context.Context) error {
	if len(f.ready) == 0 {
		return nil
	}
	err := f.store.write(ctx, func(w *conn) error { return insertSummaries(w, f.ready) })
	f.ready = f.ready[:0]
	return err
}
