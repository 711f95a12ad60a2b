package chain_test

import (
	"crypto/ed25519"
	"testing"

	"attestd/chain"
)

// recalled returns a verifier that remembers what another has verified, as after a restart.
func recalled(d *disk, from *chain.Verifier) *chain.Verifier {
	known, _ := from.Prefixes()
	v := chain.NewVerifier(d, 1)
	v.Recall(known)
	return v
}

// What was verified before is recalled for exactly the same bytes, keys and owner: whatever was
// changed meanwhile is found, and a signature that was not checked yet is.
func TestRecalledPrefixNeverHidesAChange(t *testing.T) {
	t.Parallel()
	const n = 600
	original := newDisk(1)
	grow(t, original, 1, 0, n)
	first := chain.NewVerifier(original, 1)
	mustVerify(t, first, 1)
	for name, c := range map[string]struct {
		change func(*stored)
		at     int64
	}{
		"a payload":            {func(s *stored) { edit(&s.rows[7].Payload, `"z"`, `"y"`) }, 7},
		"a signature":          {func(s *stored) { s.rows[8].Signature[3] ^= 1 }, 8},
		"a record and its key": {func(s *stored) { r := s.rows[9].Clone(); r.Timestamp = s.rows[10].Timestamp + " "; s.rows[9] = r }, 9},
		"a record that another key has signed": {func(s *stored) {
			r := s.rows[n-1].Clone()
			edit(&r.Payload, `"z"`, `"y"`)
			reseal(&r, otherKey)
			s.rows[n-1] = r
		}, n - 1},
		"a stored node":          {func(s *stored) { h := s.nodes[[2]int64{8, 0}]; h[0] ^= 1; s.nodes[[2]int64{8, 0}] = h }, 255},
		"a node of the log tree": {func(s *stored) { h := s.log[[2]int64{8, 1}]; h[0] ^= 1; s.log[[2]int64{8, 1}] = h }, 511},
		"the key":                {func(s *stored) { s.keys = signingBy(otherKey) }, 0},
		"the key, from a record on": {func(s *stored) {
			s.keys.set = append(s.keys.set, chain.KeyRange{From: 300, Key: otherKey.Public().(ed25519.PublicKey)})
		}, 300},
		"the proof of the key":    {func(s *stored) { s.keys.set = chain.KeySet{{Key: public, Flaw: "the key is not proven"}} }, 0},
		"the last record is gone": {func(s *stored) { s.rows = s.rows[:n-1] }, n - 1},
		"the root of the log":     {func(s *stored) { s.head.LogRoot[0] ^= 1 }, n - 1},
	} {
		d := original.clone()
		d.tamper(1, c.change)
		v := mustVerify(t, recalled(d, first), 1)
		fresh := mustVerify(t, chain.NewVerifier(d, 1), 1)
		if v.Valid || v.FailedAt != c.at || v != fresh {
			t.Errorf("%s: %+v, want a failure at %d; without memory %+v", name, v, c.at, fresh)
		}
	}
	// Records that came later are checked.
	d := original.clone()
	grow(t, d, 1, n, n+10)
	d.tamper(1, func(s *stored) { s.rows[n+4].Signature[0] ^= 1 })
	if v := mustVerify(t, recalled(d, first), 1); v.Valid || v.FailedAt != n+4 {
		t.Errorf("a later record: %+v", v)
	}
	// The memory of another chain is of other bytes.
	other := newDisk(1)
	grow(t, other, 1, 0, n)
	other.tamper(1, func(s *stored) {
		r := s.rows[5].Clone()
		edit(&r.Payload, `"z"`, `"y"`)
		s.rows[5] = r
	})
	if v := mustVerify(t, recalled(other, first), 1); v.Valid || v.FailedAt != 5 {
		t.Errorf("another database: %+v", v)
	}
	if v := mustVerify(t, recalled(original.clone(), first), 1); !v.Valid || v.Length != n {
		t.Errorf("the same database: %+v", v)
	}
}
