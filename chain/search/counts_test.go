package search_test

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"attestd/chain"
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

// CountAgents returns the counts that follow from counting each agent by itself, with and without
// summaries, from any record to any other, the largest first.
func TestCountAgents(t *testing.T) {
	for seed := range uint64(40) {
		random := rand.New(rand.NewPCG(seed, 7))
		s := mixedChain(random, 1+random.IntN(4000))
		if random.IntN(2) == 0 {
			maps.DeleteFunc(s.summaries, func(int64, []byte) bool { return random.IntN(2) == 0 })
		}
		for _, index := range slices.Sorted(maps.Keys(s.summaries)) { // a malformed one is ignored
			s.summaries[index] = slices.Clone(s.summaries[index])[:len(s.summaries[index])-random.IntN(2)]
		}
		borders := []int64{random.Int64N(int64(len(s.records)))}
		for range 1 + random.IntN(5) {
			last := borders[len(borders)-1]
			borders = append(borders, last+random.Int64N(int64(len(s.records))-last+1))
		}
		most := 1 + random.IntN(len(agents))
		top, count, err := search.CountAgents(t.Context(), s, 1, borders, most)
		if err != nil {
			t.Fatal(err)
		}
		named := map[string]bool{}
		least := int64(1 << 40)
		for _, a := range top {
			want, err := search.Count(t.Context(), s, 1, search.Filter{Agent: a.Agent}, borders)
			if err != nil || !slices.Equal(a.Counts, want) {
				t.Fatalf("seed %d: %s has %v, want %v (%v)", seed, a.Agent, a.Counts, want, err)
			}
			sum := int64(0)
			for _, n := range want {
				sum += n
			}
			if a.Total != sum || sum > least {
				t.Fatalf("seed %d: %s has %d, want %d, after one with %d", seed, a.Agent, a.Total, sum, least)
			}
			named[a.Agent], least = true, sum
		}
		others := 0
		for _, agent := range agents {
			n, err := search.Count(t.Context(), s, 1, search.Filter{Agent: agent}, []int64{borders[0], borders[len(borders)-1]})
			if err != nil {
				t.Fatal(err)
			}
			if n[0] > 0 && !named[agent] {
				others++
				if n[0] > least {
					t.Fatalf("seed %d: %s is left out", seed, agent)
				}
			}
		}
		if count != len(top)+others || len(top) > most {
			t.Fatalf("seed %d: %d agents, of which %d are named", seed, count, len(top))
		}
	}
}

// A record that is missing or malformed where no summary helps is damage, not a wrong count.
func TestCountAgentsStopsAtDamage(t *testing.T) {
	for _, damage := range []func(*chain.Record){
		func(r *chain.Record) { r.Index = -1 },
		func(r *chain.Record) { r.Payload = []byte("{") },
	} {
		s := mixedChain(rand.New(rand.NewPCG(1, 1)), 300)
		damage(&s.records[270])
		var damaged *search.DamageError
		if _, _, err := search.CountAgents(t.Context(), s, 1, []int64{0, 300}, 3); !errors.As(err, &damaged) || damaged.Index != 270 {
			t.Error(err)
		}
	}
}
