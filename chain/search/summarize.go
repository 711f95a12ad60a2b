package search

import (
	"context"

	"attestd/chain"
)

// Summarize makes the summary of the records of a chain of which it is number index, in short
// reads. It is nil where one of them is such that there is none; *DamageError.
func Summarize(ctx context.Context, r Reader, number, index int64) ([]byte, error) {
	var s Summary
	var t Terms
	var err error
	fits := true
	scan := NewScan(r, number, Filter{}, index*Width, (index+1)*Width, false)
	for err == nil && fits && !scan.Done() {
		var unread error
		err = scan.Step(ctx, func(r *chain.Record) bool {
			if unread = t.Read(r); unread == nil {
				fits = s.Add(&t)
			}
			return unread == nil && fits
		})
		if err == nil {
			err = unread
		}
	}
	if err != nil || !fits {
		return nil, err
	}
	return s.Append(nil), nil
}
