package chain

import (
	"context"
	"errors"
)

// verifyNext reads the records of a chain that follow on a tree, up to an index or fewer where they
// are large, and returns them with the tree behind them. Each is verified as Verify does it, and
// the tree against the head where that covers no more; stored nodes and the log tree are not. An
// error that contradicts says that they are not what they should be, any other that they could not
// be read.
func (v *Verifier) verifyNext(ctx context.Context, chain int64, t tree, to int64) ([]Record, tree, error) {
	head, _, err := v.reader.Tip(ctx, chain)
	if err != nil {
		return nil, t, err
	}
	var records []Record
	var size int
	err = v.reader.Records(ctx, chain, t.length, to, func(r *Record) error {
		records = append(records, r.Clone())
		if size += len(r.Payload) + len(r.Delegation); size >= rangeBytes {
			return errFull
		}
		return nil
	})
	isWhole := err == nil
	if err != nil && !errors.Is(err, errFull) {
		return nil, t, err
	}
	if t, err = v.verifyRecords(ctx, chain, t, records); err != nil {
		return nil, t, err
	}
	switch {
	case isWhole && t.length < to:
		err = &failure{t.length, "the record is missing"}
	case t.length > head.Length:
		err = &failure{head.Length, "the record stands beyond the stored head"}
	case t.length == head.Length && (!t.is(head) || t.root() != head.Root):
		err = &failure{max(0, t.length-1), "the stored head is not that of the records"}
	}
	return records, t, err
}

// verifyRecords verifies records of a chain that follow on a tree, and returns the tree behind
// them.
func (v *Verifier) verifyRecords(ctx context.Context, chain int64, t tree, records []Record) (tree, error) {
	if len(records) == 0 {
		return t, nil
	}
	keys, err := v.reader.KeySet(ctx, chain) // after the records
	if err != nil {
		return t, err
	}
	owner, err := v.reader.Owner(ctx, chain)
	if err != nil {
		return t, err
	}
	var timestamp string // of the record before
	err = v.reader.Records(ctx, chain, t.length-1, t.length, func(r *Record) error {
		timestamp = r.Timestamp
		return nil
	})
	if err != nil {
		return t, err
	}
	reasons := make([]string, len(records))
	parallel(len(records), func(i int) {
		c := checker{owner: owner}
		reasons[i] = c.reasonAgainst(&records[i], keys.At(records[i].Index))
	})
	for i := range records {
		r := &records[i]
		switch {
		case r.Index != t.length:
			return t, &failure{t.length, "the record is missing"}
		case reasons[i] != "":
			return t, &failure{r.Index, reasons[i]}
		case r.Timestamp < timestamp:
			return t, &failure{r.Index, "the timestamp is earlier than that of the record before"}
		}
		timestamp = r.Timestamp
		t.append(r.Hash, nil)
	}
	return t, nil
}

// errContradiction says that what stands on disk does not fit itself.
var errContradiction = errors.New("not what it should be")

// contradicts reports whether an error says that something on disk is not what it should be, and
// not only that it could not be read.
func contradicts(err error) bool {
	wrong := (*failure)(nil)
	return errors.As(err, &wrong) || errors.Is(err, ErrMissing) || errors.Is(err, errContradiction) || errors.Is(err, errGap)
}
