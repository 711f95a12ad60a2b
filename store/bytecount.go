package store

import (
	"context"
	"fmt"
)

// countStep is the number of records per read, which keeps reads short.
const countStep = 1 << 16

// checkBytes compares the bytes that the head of a valid chain counts with its records.
func (s *Store) checkBytes(ctx context.Context, v *ChainVerdict) error {
	if !s.UpToDate() {
		return nil
	}
	head, _, err := s.Tip(ctx, v.Chain)
	if err != nil {
		return err
	}
	var total int64
	for at := int64(0); at < head.Length; at += countStep {
		var n int64
		err := s.read(ctx, func(r *conn) error {
			return r.one([]any{&n}, `SELECT CAST(coalesce(sum(octet_length(payload) + coalesce(octet_length(delegation), 0)), 0) AS BIGINT) FROM record WHERE id BETWEEN ? AND ?`,
				recordID(v.Chain, at), recordID(v.Chain, min(at+countStep, head.Length))-1)
		})
		if err != nil {
			return fmt.Errorf("count the bytes of chain %d: %w", v.Chain, err)
		}
		total += n
	}
	if total != head.Bytes {
		v.Valid, v.FailedAt = false, head.Length
		v.Reason = fmt.Sprintf("the head counts %d bytes, and the records have %d; quotas would be applied wrongly",
			head.Bytes, total)
	}
	return nil
}
