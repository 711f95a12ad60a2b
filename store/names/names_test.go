package names

import (
	"bytes"
	"slices"
	"testing"

	"attestd/chain"
)

// Statements whose jti begins with the time have names that sort next to one another, whichever
// keys have signed them. Each name belongs to one jti of one key, and to no idempotency key.
func TestStatementsOfOneTimeAreStoredTogether(t *testing.T) {
	t.Parallel()
	order := func(a, b chain.Hash) int { return bytes.Compare(a[:], b[:]) }
	var before, now []chain.Hash
	for _, kid := range []string{"one", "another"} {
		for _, random := range []string{"5b", "ff", "00"} {
			before = append(before, statementName(kid, "0199a0000000-"+random))
			now = append(now, statementName(kid, "0199a0000001-"+random))
		}
	}
	if order(slices.MaxFunc(before, order), slices.MinFunc(now, order)) >= 0 {
		t.Error("a later statement stands before an earlier one")
	}

	const long = "0199a0000000-0000000000"
	names := append(before, now...)
	for _, jti := range []string{"a", "a\x00", long + "a", long + "b"} {
		names = append(names, statementName("one", jti), statementName("another", jti), Key(jti))
	}
	slices.SortFunc(names, order)
	if n := len(slices.Compact(names)); n != 24 {
		t.Errorf("%d names for 24", n)
	}
}
