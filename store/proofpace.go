package store

import "time"

const (
	// proofs take this part of the time of their goroutine, so that appends keep theirs
	proofShare   = 50
	proofRest    = time.Second
	maxProofRest = time.Minute
	maxProofTurn = 2 * time.Second // what is left then waits for the next round
)

// proofPace spreads the proofs that the head file needs of chains which others write too. What
// waits for one is in memory meanwhile.
type proofPace struct {
	next    time.Time // when the next one may be made
	waiting bool      // something waits for one
}

// proofTurn is one round of proofs, or one in which none is made.
type proofTurn struct {
	begun time.Time
	open  bool
	taken bool
	left  bool
}

// begin begins a round. The last one waits for nothing.
func (p *proofPace) begin(now time.Time, last bool) *proofTurn {
	return &proofTurn{begun: now, open: last || !now.Before(p.next)}
}

// take says whether a proof may be made now.
func (t *proofTurn) take() bool {
	t.open = t.open && time.Since(t.begun) < maxProofTurn
	t.taken = t.taken || t.open
	t.left = t.left || !t.open
	return t.open
}

func (p *proofPace) end(t *proofTurn) {
	if p.waiting = t.left; t.taken {
		now := time.Now()
		p.next = now.Add(min(max(proofRest, proofShare*now.Sub(t.begun)), maxProofRest))
	}
}

// rest is how long what waits is still to wait; 0 where nothing does.
func (p *proofPace) rest(now time.Time) time.Duration {
	if !p.waiting {
		return 0
	}
	return max(time.Millisecond, p.next.Sub(now))
}
