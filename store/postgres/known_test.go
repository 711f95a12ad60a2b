package postgres

import "testing"

// However many chains are read: the last ones are remembered, the others are forgotten, and a chain
// that is asked for stays.
func TestStatesForgetTheOldestChains(t *testing.T) {
	t.Parallel()
	s := newStates(100)
	for c := range int64(1000) {
		s.put(c, state{epoch: c, length: 1})
		if s.epoch(0) != 0 {
			t.Fatalf("chain 0, which is asked for each time, is forgotten after %d others", c)
		}
		for _, last := range []int64{c, max(0, c-30)} {
			if s.epoch(last) != last {
				t.Fatalf("chain %d is forgotten at %d", last, c)
			}
		}
	}
	if s.epoch(1) != unknownEpoch || len(s.young)+len(s.old) > 200 {
		t.Errorf("%d chains are remembered", len(s.young)+len(s.old))
	}
}
