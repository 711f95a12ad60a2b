package ledger

import (
	"sync"

	"attestd/internal/wake"
)

// Gaps holds the chains that may lack summaries.
type Gaps struct {
	Wake wake.Signal // set if there are any

	mu     sync.Mutex
	chains map[int64]bool
	all    bool // there are more than maxGaps
}

// maxGaps bounds the number of remembered chains.
const maxGaps = 1 << 12

func newGaps() *Gaps {
	g := &Gaps{Wake: wake.NewSignal(), chains: make(map[int64]bool)}
	g.NoteAll()
	return g
}

func (g *Gaps) note(number int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.chains) < maxGaps {
		g.chains[number] = true
	} else {
		g.all = true
	}
	g.Wake.Set()
}

func (g *Gaps) NoteAll() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.all = true
	g.Wake.Set()
}

func (g *Gaps) Take() (chains map[int64]bool, all bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	chains, all = g.chains, g.all
	g.chains, g.all = make(map[int64]bool), false
	return chains, all
}
