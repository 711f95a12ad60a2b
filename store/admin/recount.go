package admin

import (
	"context"

	"attestd/store"
)

// Recount counts the bytes of logs again that VerifyAll has found to be counted wrongly, and calls
// each with what it has corrected. A control record of the company says what was counted before. It
// leaves out companies of which another log does not verify: their records do not say what to
// count. On PostgreSQL servers may append meanwhile. Run of s MUST be running.
func Recount(ctx context.Context, s *store.Store, verdicts []store.ChainVerdict, each func(store.ChainVerdict)) error {
	fails := map[string]bool{}
	for _, v := range verdicts {
		fails[v.Company] = fails[v.Company] || !v.Valid
	}
	for _, v := range verdicts {
		if v.Bytes == nil || fails[v.Company] {
			continue
		}
		n, err := s.Recount(ctx, v.Chain)
		if err != nil {
			return err
		}
		v.Bytes = &n
		each(v)
	}
	return nil
}
