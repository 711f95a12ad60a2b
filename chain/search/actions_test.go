package search_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"attestd/chain/search"
)

// CountActions returns the counts that follow from counting each action by itself, with and without
// summaries, the largest first.
func TestCountActions(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 9))
		s := mixedChain(random, 1+random.IntN(3000))
		if random.IntN(2) == 0 {
			maps.DeleteFunc(s.summaries, func(int64, []byte) bool { return random.IntN(2) == 0 })
		}
		from := random.Int64N(int64(len(s.records)))
		to := from + random.Int64N(int64(len(s.records))-from+1)
		want := map[string]int64{}
		for i := from; i < to; i++ {
			var terms search.Terms
			if err := terms.Read(&s.records[i]); err != nil {
				t.Fatal(err)
			}
			want[string(terms.Action)]++
		}
		most := 1 + random.IntN(12)
		top, actions, err := search.CountActions(t.Context(), s, 1, from, to, most)
		if err != nil || actions != len(want) || len(top) != min(most, len(want)) {
			t.Fatalf("seed %d: %d of %d actions, want %d of %d (%v)", seed, len(top), actions, most, len(want), err)
		}
		largest := slices.Sorted(maps.Values(want))
		slices.Reverse(largest)
		for i, a := range top {
			if a.Total != want[a.Action] || a.Total != largest[i] {
				t.Errorf("seed %d: %q has %d, want %d, and as place %d %d", seed, a.Action, a.Total, want[a.Action], i, largest[i])
			}
			delete(want, a.Action)
		}
	}
}
