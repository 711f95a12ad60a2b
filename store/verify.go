package store

import (
	"context"
	"fmt"

	"attestd/chain"
)

// VerifyError names the first record of a database that does not verify.
type VerifyError struct {
	Company string
	Index   int64
	Reason  string
}

func (e *VerifyError) Error() string {
	return fmt.Sprintf("company %q, record %d: %s", e.Company, e.Index, e.Reason)
}

// VerifyAll verifies the chain of the company named, or of all in the order of their IDs when company is "". each, if not nil, is
// told every verdict; progress, if not nil, the records done so far and their number at the start. A chain that fails does not stop
// the others: the first failure is returned at the end, a *VerifyError. ErrNotFound where there is no such company.
func (s *Store) VerifyAll(ctx context.Context, company string, workers int, each func(*Company, chain.Verdict), progress func(done, total int64)) error {
	var done, total int64
	if company == "" {
		if err := s.read(ctx, func(r *conn) error {
			return r.one([]any{&total}, `SELECT coalesce(sum(length), 0) FROM head`)
		}); err != nil {
			return fmt.Errorf("verify: %w", err)
		}
	}
	v := chain.NewVerifier(s, workers)
	var first error
	verify := func(c *Company) error {
		verdict, err := v.Verify(ctx, c.Chain, c.Issuer.Public.Key, func(n, of int64) {
			if progress != nil {
				progress(done+n, max(total, of))
			}
		})
		if err != nil {
			return fmt.Errorf("verify company %q: %w", c.ID, err)
		}
		done += verdict.Length
		if each != nil {
			each(c, verdict)
		}
		if !verdict.Valid && first == nil {
			first = &VerifyError{Company: c.ID, Index: verdict.FailedAt, Reason: verdict.Reason}
		}
		return nil
	}
	if company != "" {
		c, err := s.Company(ctx, company)
		if err != nil {
			return err
		}
		if err := verify(c); err != nil {
			return err
		}
		return first
	}
	for after, more := "", true; more; {
		page, err := s.Companies(ctx, after, 256)
		if err != nil {
			return err
		}
		for _, c := range page {
			if err := verify(c); err != nil {
				return err
			}
			after = c.ID
		}
		more = len(page) > 0
	}
	return first
}
