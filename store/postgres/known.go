package postgres

// state is what this server knows of a head.
type state struct{ epoch, length int64 }

// states remembers the heads of the chains that were read or moved last: at least the last
// maxChains of them, and at most twice as many. The log that writes remembers heads too. Of a chain
// that it builds on and that is forgotten here, the head has to be read again.
type states struct {
	young, old map[int64]state
	max        int
}

func newStates(most int) *states { return &states{young: map[int64]state{}, max: most} }

func (s *states) get(chain int64) (state, bool) {
	known, is := s.young[chain]
	if !is {
		if known, is = s.old[chain]; is {
			s.put(chain, known)
		}
	}
	return known, is
}

func (s *states) put(chain int64, known state) {
	if len(s.young) >= s.max {
		s.young, s.old = map[int64]state{}, s.young
	}
	s.young[chain] = known
}

// unknownEpoch is that of no head: what is built on one that is forgotten counts as stale.
const unknownEpoch = -1

// epoch is that of a chain's head as it is known.
func (s *states) epoch(chain int64) int64 {
	if known, is := s.get(chain); is {
		return known.epoch
	}
	return unknownEpoch
}
