package httpapi

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"attestd/chain"
	"attestd/store"
)

// The answer to a write that failed says what became of it: not carried out, and when to try again,
// or unknown, and how to find out.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err           error
		code, message string
		mayTryAgain   bool
	}{
		{store.ErrUnavailable, "NOT_DONE", "was not carried out; try again later", true},
		{chain.ErrClosed, "NOT_DONE", "was not carried out; try again later", true},
		{context.DeadlineExceeded, "NOT_DONE", "was not carried out; try again later", true},
		{store.ErrUnknown, "OUTCOME_UNKNOWN", "read the chain", false},
		{fmt.Errorf("%w: commit: %w", store.ErrUnknown, store.ErrUnavailable), "OUTCOME_UNKNOWN", "not known whether", false},
		{fmt.Errorf("%w: %w", store.ErrUnknown, context.DeadlineExceeded), "OUTCOME_UNKNOWN", "not known whether", false},
		{fmt.Errorf("%w: %w", store.ErrUnknown, store.ErrFileChanged), "OUTCOME_UNKNOWN", "not known whether", false},
		{store.ErrFileChanged, "FILE_CHANGED", "was not carried out", false},
		{fmt.Errorf("%w: %w", store.ErrUnavailable, store.ErrCorrupt), "NOT_DONE", "was not carried out; try again later", true},
		{fmt.Errorf("%w: %w", store.ErrDamaged, store.ErrCorrupt), "DATABASE_DAMAGED", "was not carried out", false},
		{store.ErrClock, "CLOCK", "was not carried out", false},
	} {
		e := Classify(fmt.Errorf("append: %w", c.err))
		if e.Status != 503 || e.Code != c.code || !strings.Contains(e.Message, c.message) || (e.Header.Get("Retry-After") != "") != c.mayTryAgain {
			t.Errorf("%v: %d %s %q, Retry-After %q", c.err, e.Status, e.Code, e.Message, e.Header.Get("Retry-After"))
		}
	}
}
