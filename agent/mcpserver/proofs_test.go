package mcpserver

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"attestd/crypto/dpop"
	"attestd/crypto/jose"
)

// As many proofs are remembered as fit, then none is accepted until some would be refused anyway;
// no proof counts twice meanwhile.
func TestProofsAreBounded(t *testing.T) {
	t.Parallel()
	var p proofs
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	proof := func(n int, at time.Time) *dpop.Proof {
		return &dpop.Proof{Key: &jose.Key{Thumbprint: "k"}, ID: strconv.Itoa(n), IssuedAt: at}
	}
	for n := range maxProofs {
		if err := p.use(proof(n, now), now); err != nil {
			t.Fatal(n, err)
		}
	}
	if err := p.use(proof(maxProofs, now), now); !errors.Is(err, errProofs) {
		t.Errorf("one more: %v", err)
	}
	var refused *dpop.Error
	for _, later := range []time.Duration{0, time.Minute, dpop.Window} {
		if err := p.use(proof(7, now), now.Add(later)); !errors.As(err, &refused) {
			t.Errorf("once more after %s: %v", later, err)
		}
	}
	after := now.Add(dpop.Window + time.Minute)
	if err := p.use(proof(maxProofs, after), after); err != nil || len(p.ends) != 1 {
		t.Errorf("after all have ended: %v, %d are remembered", err, len(p.ends))
	}
}
