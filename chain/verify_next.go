package chain

import (
	"context"
	"errors"
)

// verifyNext reads and verifies the records of a chain after a tree, up to an index, or fewer if
// they are large. It returns them with the extended tree. It checks each record as Verify does, and
// the tree against a head of the same length, but not stored nodes and the log tree. An error for
// which contradicts is true means that they are wrong; other errors are read errors.
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

// verifyRecords verifies the records of a chain after a tree, and returns the extended tree.
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
	var timestamp string // of the previous record
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

// errContradiction means that stored data is inconsistent.
var errContradiction = errors.New("stored data is inconsistent")

// contradicts reports whether an error means that stored data is inconsistent or missing. Other
// errors are read errors.
func contradicts(err error) bool {
	wrong := (*failure)(nil)
	return errors.As(err, &wrong) || errors.Is(err, ErrMissing) || errors.Is(err, errContradiction) || errors.Is(err, errGap)
}
