package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"attestd/chain"
	"attestd/chain/search"
	"attestd/internal/sleep"
	"attestd/store/db"
	"attestd/store/ledger"
)

const (
	// pause between two passes, so that one write has the summaries of many chains
	gapsWait = time.Second
	// interval of passes over all chains when other servers write too, which may be of a version
	// that does not write summaries
	gapsAgain = 10 * time.Minute
	// pause after a summary, as a multiple of the time to compute it: this uses a quarter of a core
	fillRest  = 3
	fillBatch = 64 // summaries per write
)

// Summarize computes missing summaries until ctx is done: those of records from before summaries
// existed, of a range during which a server was started, and of chains that several servers extend.
// A search reads the records themselves where a summary is missing. Progress is durable.
func (s *Store) Summarize(ctx context.Context) error {
	var again <-chan time.Time
	if s.MultiWriter() {
		ticker := time.NewTicker(gapsAgain)
		defer ticker.Stop()
		again = ticker.C
	}
	rest := func(worked time.Duration) { _ = sleep.For(ctx, fillRest*worked) }
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-again:
			s.Gaps().NoteAll()
		case <-s.Gaps().Wake:
		}
		if err := s.FillSummaries(ctx, rest); err != nil && ctx.Err() == nil {
			s.WriterLogger().Warn("summaries for searches could not be made; until they are, those records are read", "error",
				err)
			s.Gaps().NoteAll()
			_ = sleep.For(ctx, gapsAgain)
		}
		_ = sleep.For(ctx, gapsWait)
	}
}

// FillSummaries computes the missing summaries of the chains in gaps, which at first are all. rest
// is called after each summary with the time that it took; it may be nil.
func (s *Store) FillSummaries(ctx context.Context, rest func(worked time.Duration)) error {
	f := filler{store: s, rest: rest}
	chains, all := s.Gaps().Take()
	if all {
		clear(chains) // all includes them
	}
	for number := range chains {
		if err := f.chain(ctx, number); err != nil {
			return err
		}
	}
	for after := int64(-1 << 62); all; {
		var page []int64
		err := s.Read(ctx, func(c *db.Conn) error {
			return c.Each(func(rows *sql.Rows) error {
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

// filler is the state of one call of FillSummaries.
type filler struct {
	store *Store
	rest  func(time.Duration)
	ready []search.Ready
}

// chain computes the missing summaries of one chain.
func (f *filler) chain(ctx context.Context, number int64) error {
	head, _, err := f.store.Tip(ctx, number)
	if errors.Is(err, chain.ErrMissing) {
		return nil
	}
	if err != nil {
		return err
	}
	// Of records without payloads no summary can be made. A log that is damaged there gets none.
	p, err := f.store.PrunedRecords(ctx, number)
	if errors.Is(err, chain.ErrUnproven) {
		return nil
	}
	if err != nil {
		return err
	}
	next, whole := (p.Records+search.Width-1)/search.Width, head.Length/search.Width
	var there int64
	err = f.store.Read(ctx, func(c *db.Conn) error {
		return c.One([]any{&there}, `SELECT count(*) FROM summary WHERE id BETWEEN ? AND ?`, ledger.SummaryID(number, next),
			ledger.SummaryID(number, whole)-1)
	})
	if err != nil || there == max(0, whole-next) {
		return err
	}
	for next < whole {
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

// make computes one summary. Damaged records get none, so that a search reads them and reports the
// damage.
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
	err := f.store.Write(ctx, func(w *db.Conn) error { return ledger.InsertSummaries(w, f.ready) })
	f.ready = f.ready[:0]
	return err
}
