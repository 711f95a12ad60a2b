package chain_test

import (
	"bytes"
	"math"
	"testing"

	"attestd/chain"
)

// The names of a series stand in the order of their numbers, and no other name is taken for one.
func TestSeries(t *testing.T) {
	t.Parallel()
	one, other := chain.Series{1, 16: 2}, chain.Series{1, 16: 3} // which share their first half
	var before chain.Hash
	for _, n := range []int64{0, 1, 255, 256, 1 << 40, math.MaxInt64} {
		name := one.At(n)
		if got, ok := one.Number(name); !ok || got != n {
			t.Errorf("the number of %d is %d, %v", n, got, ok)
		}
		if _, ok := other.Number(name); ok {
			t.Errorf("the name of %d is one of another series", n)
		}
		if bytes.Compare(before[:], name[:]) >= 0 {
			t.Errorf("the name of %d does not come after the one before", n)
		}
		before = name
	}
	if _, ok := one.Number(one.At(-1)); ok {
		t.Error("a negative number has a name")
	}
}
