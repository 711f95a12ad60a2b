package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"attestd/chain"
	"attestd/store/db"
	"attestd/store/names"
	"attestd/store/projection"
)

// Tables are compared with the control logs.
type Tables struct {
	db        *base
	keys      rowKeys
	view      *View
	companies Companies
	sessions  Sessions
	settings  Settings
	webhooks  Webhooks
	cedar     CedarPolicies

	limits *db.Cache[int64, db.Dated[comparedLimits]]
}

// maxDifferences bounds the differences that one comparison remembers.
const maxDifferences = 10_000

// comparison compares the tables of a company with a replay of its control log.
type comparison struct {
	tables  Tables
	company *Company
	state   *projection.State
	rows    projection.Comparison
	size    int64 // number of replayed records
	pace    Pace

	complete    bool                     // the log covers every row
	differences []*projection.Difference // at most maxDifferences
	unrecorded  []*projection.Difference // rows from before an incomplete log
	more        int64                    // number of differences beyond maxDifferences
	unlisted    map[names.Session]bool   // sessions without statements that have names, and no row
}

// scope is what of a company a comparison compares.
type scope int

const (
	everything scope = iota
	onlyRights       // with the control log
	onlyNames        // with the records of the actions
)

// replay replays the control log of a company and compares it with every row that the service
// obeys, and the records of its actions with the rows that follow from them. It ignores concurrent
// changes. It does not verify the logs themselves, which a Verifier does.
func (s Tables) replay(ctx context.Context, c *Company, of scope, pace Pace) (*comparison, error) {
	r := &comparison{tables: s, company: c, state: projection.New(c.ID), pace: pace}
	if of != onlyNames {
		if err := r.compareRights(ctx); err != nil {
			return nil, err
		}
	} else if err := s.db.Read(ctx, func(conn *db.Conn) error { return r.readNameState(conn) }); err != nil {
		return nil, err
	}
	if of == onlyRights || c.Chain == db.Installation {
		return r, nil
	}
	generation := s.db.Names().Now()
	broken, err := r.compareNames(ctx)
	if err != nil {
		return nil, fmt.Errorf("compare the names of company %q: %w", c.ID, err)
	}
	s.db.Names().Settle(c.Actions.Chain, generation, broken)
	return r, nil
}

// compareRights compares the rows that follow from the control log.
func (r *comparison) compareRights(ctx context.Context) error {
	c := r.company
	head, _, err := r.tables.db.now.Tip(ctx, c.Control.Chain)
	if err != nil {
		return err
	}
	r.size = head.Length
	if err := r.replay(ctx); err != nil {
		return fmt.Errorf("replay the control log of company %q: %w", c.ID, err)
	}
	r.complete, r.rows = r.state.Complete(), r.state.Compare()
	if err := r.readTables(ctx); err != nil {
		return fmt.Errorf("compare the tables of company %q: %w", c.ID, err)
	}
	// read after the rows: what was deleted meanwhile had expired by it
	newest, err := r.tables.db.newestOf(ctx, c.Chain)
	if err != nil {
		return err
	}
	for d := range r.rows.Missing(newest) {
		r.add(d)
	}
	err = r.dropTouched(ctx)
	if err == nil && c.Chain == db.Installation {
		err = errors.Join(r.compareCompanies(ctx), r.compareTokens(ctx))
	}
	if err != nil {
		return fmt.Errorf("compare the tables of company %q: %w", c.ID, err)
	}
	return nil
}

// replayStep is the number of records per read, which keeps reads short.
const replayStep = 1024

// eachControl calls fn with the records [from, to) of the company's control log. It reads the next
// page while fn runs.
func (r *comparison) eachControl(ctx context.Context, from, to int64, fn func(*chain.Record) error) error {
	g, ctx := errgroup.WithContext(ctx)
	pages := make(chan []chain.Record, 1)
	g.Go(func() error {
		defer close(pages)
		for at := from; at < to; at = min(at+replayStep, to) {
			page := make([]chain.Record, 0, replayStep)
			err := r.tables.db.now.Records(ctx, r.company.Control.Chain, at, min(at+replayStep, to), func(record *chain.Record) error {
				page = append(page, record.Clone())
				return nil
			})
			if err != nil {
				return err
			}
			select {
			case pages <- page:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	g.Go(func() error {
		for page := range pages {
			began := time.Now()
			for i := range page {
				if err := fn(&page[i]); err != nil {
					return err
				}
			}
			if err := r.pace.rest(ctx, began); err != nil {
				return err
			}
		}
		return nil
	})
	return g.Wait()
}

func (r *comparison) replay(ctx context.Context) error {
	return r.eachControl(ctx, 0, r.size, func(record *chain.Record) error {
		err := r.state.Apply(record.Index, record.Timestamp, record.Payload)
		var wrong *projection.RecordError
		if errors.As(err, &wrong) {
			r.add(&projection.Difference{Table: "record", Row: "control", Index: wrong.Index, What: wrong.Error()})
			return nil
		}
		return err
	})
}

// add adds a difference, or nothing if it is nil.
func (r *comparison) add(d *projection.Difference) {
	switch {
	case d == nil:
	case d.Unrecorded() && !r.complete:
		r.unrecorded = append(r.unrecorded, d)
	case len(r.differences) < maxDifferences:
		r.differences = append(r.differences, d)
	default:
		r.more++
	}
}

// dropTouched removes differences that records from during the comparison may explain.
func (r *comparison) dropTouched(ctx context.Context) error {
	if len(r.differences) == 0 && len(r.unrecorded) == 0 {
		return nil
	}
	head, _, err := r.tables.db.now.Tip(ctx, r.company.Control.Chain)
	if err != nil || head.Length == r.size {
		return err
	}
	var touched projection.Touched
	err = r.eachControl(ctx, r.size, head.Length, func(record *chain.Record) error { return touched.Add(record.Payload) })
	if err == nil {
		r.differences, r.unrecorded = touched.Without(r.differences), touched.Without(r.unrecorded)
	}
	return err
}

// err returns the first difference as an error, or nil.
func (r *comparison) err() error {
	if len(r.differences) == 0 {
		return nil
	}
	return &TablesChangedError{Company: r.company.ID, Difference: *r.differences[0]}
}

// Verify turns the verdict on a valid control log into a failure if the tables of its company do
// not match it. For a row without a record, FailedAt is the index after the last record. The result
// is remembered: see Changeable.
func (s Tables) Verify(ctx context.Context, number int64, v *chain.Verdict) error {
	c, err := s.db.named(ctx, number)
	if err != nil {
		return err
	}
	found, err := s.replay(ctx, c, everything, nil)
	if err != nil {
		return err
	}
	if err := found.err(); err == nil {
		return nil
	} else {
		_ = s.db.noted(c, err)
	}
	first := found.differences[0]
	v.Valid, v.FailedAt, v.Reason = false, first.Index, first.Error()
	if first.Index < 0 {
		v.FailedAt = found.size
	}
	return nil
}
