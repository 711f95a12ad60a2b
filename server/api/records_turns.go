package api

import (
	"context"
	"time"

	"attestd/chain"
	"attestd/chain/search"
	"attestd/internal/sleep"
)

// turns is the reader of one search. Searches that read much take turns, so that all together use
// one core, or half of one while many records are appended. So one company delays another by one
// read at most, which takes some milliseconds.
type turns struct {
	search.Reader
	s    *Searches
	long bool  // the search probably reads much
	read int64 // number of bytes
}

// atOnce is the number of bytes that any search may read without a turn. It is usually more than
// the summaries of a million records. If summaries are missing or leave much open, a search for two
// records reads as much as one for a text.
const atOnce = 4 << 20

func (t *turns) Records(ctx context.Context, number, from, to int64, yield func(*chain.Record) error) error {
	return t.inTurn(ctx, func() error { return t.Reader.Records(ctx, number, from, to, t.counted(yield)) })
}

func (t *turns) RecordsBackward(ctx context.Context, number, from, to int64, yield func(*chain.Record) error) error {
	return t.inTurn(ctx, func() error { return t.Reader.RecordsBackward(ctx, number, from, to, t.counted(yield)) })
}

func (t *turns) Summaries(
	ctx context.Context, number, from, to int64, backward bool, yield func(int64, []byte) error,
) error {
	return t.inTurn(ctx, func() error {
		return t.Reader.Summaries(ctx, number, from, to, backward, func(index int64, summary []byte) error {
			t.read += int64(len(summary))
			return yield(index, summary)
		})
	})
}

func (t *turns) counted(yield func(*chain.Record) error) func(*chain.Record) error {
	return func(r *chain.Record) error {
		t.read += int64(len(r.Payload) + len(r.Delegation))
		if r.IsPruned() { // a search may pass over very many
			t.read += prunedRow
		}
		return yield(r)
	}
}

// prunedRow is about what the row of a record without its payload has in bytes.
const prunedRow = 256

// inTurn calls read, in a turn if necessary.
func (t *turns) inTurn(ctx context.Context, read func() error) error {
	if !t.long && t.read < atOnce {
		return read()
	}
	if err := t.s.Long.Acquire(ctx, 1); err != nil {
		return err
	}
	defer t.s.Long.Release(1)
	begun := time.Now()
	err := read()
	if now := time.Now(); t.s.Appends.IsBusy(now) {
		_ = sleep.For(ctx, now.Sub(begun))
	}
	return err
}
