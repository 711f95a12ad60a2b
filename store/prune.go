package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"attestd/chain"
	"attestd/chain/tlog"
	"attestd/crypto/jcs"
	"attestd/store/db"
)

// Pruning deletes the payloads of old actions.
type Pruning struct {
	db   *base
	view *View
}

// ErrNotPrunable means that payloads stay, because they may still be needed or an argument is
// wrong. The error says what to do. It is an ErrRefused.
var ErrNotPrunable = fmt.Errorf("%w: the payloads stay", db.ErrRefused)

const (
	// the age of the last record whose payload may go
	pruneAge = 24 * time.Hour
	// records that one transaction prunes, and one read adds to the skeleton
	pruneStep = 256
	// pause after a transaction, as a multiple of its time
	pruneRest = 3
	// one more than a caller's value may nest, which the payload wraps
	payloadDepth = 128 + 1
)

// BeginPrune records in the control log of the caller's company that the payloads of its first
// actions may be missing from then on: those of a number of records, the root of whose log tree is
// given, and which are in an archive with this SHA-256 in hex. The caller MUST have read and
// checked that archive. PruneNext then deletes them. It returns ErrNotPrunable, and the errors of
// other changes of a company.
func (s Pruning) BeginPrune(
	ctx context.Context, by Caller, records int64, root tlog.Hash, archive string,
) (p PrunedRecords, err error) {
	if p, err = s.beginPrune(ctx, by, records, root, archive); err != nil {
		return PrunedRecords{}, fmt.Errorf("prune the payloads of company %q: %w", by.Company.ID, err)
	}
	return p, nil
}

func (s Pruning) beginPrune(
	ctx context.Context, by Caller, records int64, root tlog.Hash, archive string,
) (p PrunedRecords, err error) {
	number := by.Company.Chain
	if err := s.db.intact(number); err != nil {
		return p, err
	}
	if sum, err := hex.DecodeString(archive); err != nil || len(sum) != sha256.Size {
		return p, fmt.Errorf("%w: %q is no SHA-256 of an archive", ErrNotPrunable, archive)
	}
	former, err := s.view.PrunedRecords(ctx, number)
	if err != nil {
		return p, err
	}
	head, _, err := s.db.now.Tip(ctx, number)
	switch {
	case err != nil:
		return p, err
	case records <= former.Records:
		return p, fmt.Errorf("%w: those of the first %d records are pruned already", ErrNotPrunable, former.Records)
	case records > head.Length:
		return p, fmt.Errorf("%w: the log has %d records, and not %d", ErrNotPrunable, head.Length, records)
	}
	now, err := s.db.TrustedTime(ctx, by.At)
	if errors.Is(err, db.ErrClockLeapt) {
		return p, fmt.Errorf("%w: %w: set it right", ErrNotPrunable, err)
	}
	if err == nil {
		err = s.db.Read(ctx, func(c *db.Conn) error { return mayPrune(c, by, now, records) })
	}
	if err != nil {
		return p, err
	}
	// records below the head never change, so this needs no transaction
	f := pruneFold{former: former}
	if p, err = f.read(ctx, s.view, by, records); err != nil {
		return p, err
	}
	if f.tree.Root() != root {
		return p, fmt.Errorf("%w: the first %d records are not those of the archive: their log root is another one", ErrNotPrunable, records)
	}
	p.Archive = archive
	// In one transaction with another prune, latestPruned would not see the record of that: records
	// are written at its end.
	s.db.pruning.Lock()
	defer s.db.pruning.Unlock()
	err = s.db.controlled(ctx, by, func(w *db.Conn) ([]controlEvent, error) {
		if err := s.db.intact(number); err != nil {
			return nil, err
		}
		latest, err := latestPruned(w, number)
		if err != nil {
			return nil, err
		}
		if latest.Valid != (former.Records > 0) || latest.Valid && latest.Int64&db.IndexMask != former.Index {
			return nil, fmt.Errorf("%w: others were pruned meanwhile; try again", ErrNotPrunable)
		}
		if err := mayPruneBesideWebhooks(w, number, records); err != nil {
			return nil, err
		}
		return []controlEvent{{PayloadsPruned, subjectPayloads, prunedDetails(p, root)}}, nil
	})
	if err != nil {
		return p, err
	}
	return s.view.PrunedRecords(ctx, number)
}

// mayPrune refuses to prune payloads that may still be needed at a trusted time. Except for
// webhooks, what it reads changes only in favour of pruning: a record of which an idempotency key
// is made is the last one.
func mayPrune(c *db.Conn, by Caller, now time.Time, records int64) error {
	number := by.Company.Chain
	var text string
	err := c.One([]any{&text}, `SELECT timestamp FROM record WHERE id = ?`, db.RecordID(number, records-1))
	if err != nil {
		return err
	}
	last, err := db.ParseTime(text)
	if err != nil {
		return err
	}
	switch end := last.Add(pruneAge); {
	case by.At.Before(end):
		return fmt.Errorf("%w: record %d is not a day old; prune it after %s", ErrNotPrunable, records-1, chain.FormatTime(end))
	case now.Before(end): // this process began with a clock that was ahead of the database
		return fmt.Errorf("%w: record %d is a day old by this clock alone, which is %s ahead of the time that follows from the database: "+
			"where it is right, start a server with --accept-clock, and prune beside it",
			ErrNotPrunable, records-1, by.At.Round(0).Sub(now).Round(time.Second))
	}
	// A retry under a name that stays taken for ever, as those of statements do, is answered
	// without payload.
	var index, expires int64
	err = c.One([]any{&index, &expires}, `SELECT idx, expires_at FROM idempotency_key
		WHERE chain = ? AND idx < ? AND expires_at > ? AND expires_at < ? LIMIT 1`,
		number, records, now.UnixMilli(), chain.LastTime.UnixMilli())
	if err == nil {
		return fmt.Errorf("%w: a retry of record %d is answered with it until %s", ErrNotPrunable, index, chain.FormatTime(time.UnixMilli(expires)))
	}
	if !errors.Is(err, db.ErrNotFound) {
		return err
	}
	return mayPruneBesideWebhooks(c, number, records)
}

func mayPruneBesideWebhooks(c *db.Conn, company, records int64) error {
	var id string
	var next int64
	err := c.One([]any{&id, &next}, `SELECT webhook_id, next_record FROM webhook
		WHERE company = ? AND disabled_at IS NULL AND next_record < ? ORDER BY next_record LIMIT 1`, company, records)
	if errors.Is(err, db.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: webhook %s has not sent records from %d on; wait for it, or disable it", ErrNotPrunable, id, next)
}

// pruneFold computes the skeleton and the log tree of records. So that the company signs nothing
// that was altered, each record must have its hash, or be one of those that were pruned before.
type pruneFold struct {
	former PrunedRecords

	next      int64
	bytes     int64 // of payloads that were not pruned before
	tree      tlog.Frontier
	scratch   []byte
	canonical []byte
}

func (f *pruneFold) read(ctx context.Context, s *View, by Caller, records int64) (p PrunedRecords, err error) {
	number := by.Company.Chain
	keys, err := s.KeySet(ctx, number)
	if err != nil {
		return p, err
	}
	leaves, skeleton := chain.Leaves{Keys: keys}, sha256.New()
	for f.next < records {
		to := min(f.next+pruneStep, records)
		var hashes []tlog.Hash
		err := s.Records(ctx, number, f.next, to, func(r *chain.Record) error {
			if err := f.check(r); err != nil {
				return fmt.Errorf("record %d: %w: %w", r.Index, db.ErrCorrupt, err)
			}
			f.scratch = r.AppendSkeleton(f.scratch[:0])
			skeleton.Write(f.scratch)
			if r.Index == f.former.Records-1 && chain.Hash(skeleton.Sum(nil)) != f.former.Skeleton {
				return fmt.Errorf("%w: the first %d records are not those whose payloads were pruned", db.ErrCorrupt, f.former.Records)
			}
			leaf := leaves.Of(r)
			hashes = append(hashes, leaf.Hash())
			f.next++
			return nil
		})
		if err != nil {
			return p, err
		}
		if f.next < to {
			return p, fmt.Errorf("%w: record %d: %w", db.ErrCorrupt, f.next, chain.ErrMissing)
		}
		f.tree, _ = f.tree.Append(hashes...)
	}
	p.Records, p.Bytes = records, f.former.Bytes+f.bytes
	skeleton.Sum(p.Skeleton[:0])
	return p, nil
}

// check checks the next record, and counts its payload.
func (f *pruneFold) check(r *chain.Record) (err error) {
	isFormer := r.Index < f.former.Records
	switch {
	case r.Index != f.next:
		return chain.ErrMissing
	case r.IsPruned() && isFormer:
		return nil
	case r.IsPruned():
		return errors.New("its payload is missing")
	}
	if !isFormer {
		f.bytes += int64(len(r.Payload))
	}
	if f.canonical, err = jcs.Append(f.canonical[:0], r.Payload, payloadDepth); err != nil {
		return err
	}
	if r.ComputeHash(f.canonical) != r.Hash {
		return errors.New("its hash is not that of the record")
	}
	return nil
}
