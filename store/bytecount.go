package store

import (
	"context"
	"errors"
	"fmt"

	"attestd/chain"
)

// checkDerived compares what a server derives from the records of a valid chain with them: the
// summaries and the count of bytes. Payloads may be pruned while it reads; then it reads again.
func (s *Store) checkDerived(ctx context.Context, v *ChainVerdict) error {
	for {
		p, err := s.PrunedRecords(ctx, v.Chain)
		if errors.Is(err, chain.ErrUnproven) {
			v.Valid, v.FailedAt, v.Reason = false, 0, err.Error()
			return nil
		}
		if err != nil {
			return err
		}
		checked := *v
		err = s.checkSummaries(ctx, &checked, p.Records)
		if err == nil && checked.Valid {
			err = s.checkBytes(ctx, &checked, &p)
		}
		if err != nil || !checked.Valid {
			if now, failed := s.PrunedRecords(ctx, v.Chain); failed == nil && now != p {
				continue
			}
		}
		*v = checked
		return err
	}
}

// countStep is the number of records per read, which keeps reads short.
const countStep = 1 << 16

// checkBytes compares the bytes that the head of a valid chain counts with its records. Of payloads
// that may be missing their control record says how many bytes they have, whether they are missing
// or not.
func (s *Store) checkBytes(ctx context.Context, v *ChainVerdict, p *PrunedRecords) error {
	if !s.UpToDate() {
		return nil
	}
	head, _, err := s.Tip(ctx, v.Chain)
	if err != nil {
		return err
	}
	total := p.Bytes
	for at := int64(0); at < head.Length; at += countStep {
		var n int64
		err := s.read(ctx, func(r *conn) error {
			return r.one([]any{&n}, `SELECT CAST(coalesce(sum(CASE WHEN id < ? THEN 0 ELSE octet_length(payload) END + coalesce(octet_length(delegation), 0)), 0) AS BIGINT)
				FROM record WHERE id BETWEEN ? AND ?`,
				recordID(v.Chain, p.Records), recordID(v.Chain, at), recordID(v.Chain, min(at+countStep, head.Length))-1)
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
