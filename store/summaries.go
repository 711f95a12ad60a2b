package store

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"attestd/chain"
	"attestd/search"
)

// summarized is the schema that brought summaries.
const summarized = 10

// summaryID is the row of a summary: its chain's number and its own, as recordID is of a record.
func summaryID(number, index int64) int64 { return number<<summaryBits + index }

const summaryBits = indexBits - 8 // there is one for 2⁸ records

// Summaries implements search.Reader.
func (s *Store) Summaries(ctx context.Context, number, from, to int64, backward bool, yield func(index int64, summary []byte) error) error {
	order := ""
	if backward {
		order = " DESC"
	}
	var id int64
	var terms sql.RawBytes
	return s.read(ctx, func(c *conn) error {
		return c.each(func(rows *sql.Rows) error {
			if err := errors.Join(ctx.Err(), rows.Scan(&id, &terms)); err != nil {
				return fmt.Errorf("summaries of chain %d: %w", number, err)
			}
			return yield(id-summaryID(number, 0), terms)
		}, `SELECT id, terms FROM summary WHERE id BETWEEN ? AND ? ORDER BY id`+order, summaryID(number, from), summaryID(number, to)-1)
	})
}

// insertSummaries writes summaries. A row that is there already was made of the same records, or by whoever changes the database: verification compares.
func insertSummaries(w *conn, ready []search.Ready) error {
	for _, r := range ready {
		if _, err := w.exec(`INSERT INTO summary (id, terms) VALUES (?, ?) ON CONFLICT (id) DO NOTHING`, summaryID(r.Chain, r.Index), r.Terms); err != nil {
			return err
		}
	}
	return nil
}

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
	gapsWait  = time.Second      // after a look for summaries that are missing, so that one write makes those of many chains
	gapsAgain = 10 * time.Minute // after which all chains are looked at where other servers write too, which may be of a version that makes none
	fillRest  = 3                // how many times as long as it worked the making of a summary rests: it takes a quarter of a core
	fillBatch = 64               // summaries of one write
)

// Summarize makes the summaries that are missing until ctx is done: of a database that was written before there were any, of a range in whose middle
// a server was started, and of chains that several servers extend. Until then a search reads those records. What is done is done also for the next start.
func (s *Store) Summarize(ctx context.Context) error {
	var again <-chan time.Time
	if s.server {
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

// FillSummaries makes what is missing of the chains that are noted, which at first are all. rest is called after each with the time that it took; it may be nil.
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

// make makes one summary. There is none of records that are damaged: a search meets them and says so.
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

// checkSummaries compares the summaries of a chain that is valid with its records. One that says something else could keep a record from being
// found: then the verdict is that the first of its records fails.
func (s *Store) checkSummaries(ctx context.Context, v *ChainVerdict) error {
	if s.schema.Load() < summarized {
		return nil
	}
	for next, last := int64(0), int64(1)<<summaryBits; next < last; {
		index, terms := last, []byte(nil) // of the next one that is there
		err := s.Summaries(ctx, v.Chain, next, last, false, func(at int64, summary []byte) error {
			index, terms = at, bytes.Clone(summary)
			return errFound
		})
		if err != nil && !errors.Is(err, errFound) {
			return err
		}
		if next = index + 1; index == last {
			break
		}
		reason := "a summary stands beyond the last record"
		if (index+1)*search.Width > v.Length { // which may have been appended since
			head, _, err := s.Tip(ctx, v.Chain)
			if err != nil {
				return err
			}
			if (index+1)*search.Width <= head.Length {
				return nil
			}
		} else {
			reason = "the summary of its range is not what follows from the records; delete that row and a server makes it anew"
			want, err := search.Summarize(ctx, s, v.Chain, index)
			if err != nil {
				return err
			}
			if bytes.Equal(terms, want) {
				continue
			}
		}
		v.Valid, v.FailedAt, v.Reason = false, index*search.Width, reason
		return nil
	}
	return nil
}

var errFound = errors.New("found")
