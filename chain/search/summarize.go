package search

import (
	"context"

	"attestd/chain"
)

// Summarize makes the summary with an index from stored records, in short reads. It returns nil if
// a record does not fit into a summary or its payload was pruned, and a *DamageError for a damaged
// record.
func Summarize(ctx context.Context, r Reader, chainID, index int64) ([]byte, error) {
	var s Summary
	var t Terms
	var err error
	fits := true
	scan := NewScan(r, chainID, Filter{}, index*Width, (index+1)*Width, false)
	for err == nil && fits && !scan.Done() {
		var readErr error
		err = scan.Step(ctx, func(r *chain.Record) bool {
			if readErr = t.Read(r); readErr == nil {
				fits = !r.IsPruned() && s.Add(&t)
			}
			return readErr == nil && fits
		})
		if err == nil {
			err = readErr
		}
	}
	if err != nil || !fits {
		return nil, err
	}
	return s.Append(nil), nil
}
