package server

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	maxDeliveries = 256 // attempts under way at a time, of all webhooks
	companyPlaces = 4   // of them, those of one company
	fastPlaces    = 64  // of them, those kept for endpoints that answer fast
	// what an endpoint's last answer took at most, for it to be one of them
	fastAnswer = time.Second
)

// places are where attempts at webhooks are made. A company has a few at a time, and companies take
// turns, so that the slow endpoints of some hold up no others'; where very many companies have such
// endpoints, those that answer fast have places of their own.
type places struct {
	mu      sync.Mutex
	free    int               // for everybody
	fast    int               // free for endpoints that answer fast
	held    map[int64]int     // by company
	waiting map[int64]*queues // by company
	turns   []int64           // companies that wait, in the order of their turns
	came    uint64            // turns so far
}

// queues are the turns of a company, in the order in which they came: of fast endpoints, and of
// others.
type queues struct{ fast, others []*turn }

// turn is one attempt that waits for its place.
type turn struct {
	isFast bool
	came   uint64        // its number
	ready  chan struct{} // closed when it has one
	kept   bool          // that is one of those for fast endpoints
}

func newPlaces() *places {
	return &places{free: maxDeliveries - fastPlaces, fast: fastPlaces, held: make(map[int64]int), waiting: make(map[int64]*queues)}
}

// take waits for a place, and returns what gives it back. It is not ok when ctx is done.
func (p *places) take(ctx context.Context, company int64, isFast bool) (give func(), ok bool) {
	t := &turn{isFast: isFast, ready: make(chan struct{})}
	p.mu.Lock()
	p.came++
	t.came = p.came
	q := p.waiting[company]
	if q == nil {
		q = new(queues)
		p.waiting[company], p.turns = q, append(p.turns, company)
	}
	if isFast {
		q.fast = append(q.fast, t)
	} else {
		q.others = append(q.others, t)
	}
	p.hand()
	p.mu.Unlock()
	select {
	case <-t.ready:
	case <-ctx.Done():
		if p.withdraw(company, t) {
			return nil, false
		}
	}
	give = func() { p.give(company, t) }
	if ctx.Err() != nil {
		give()
		return nil, false
	}
	return give, true
}

// hand gives the places that are free to those whose turn it is. Its caller holds the lock.
func (p *places) hand() {
	for i := 0; i < len(p.turns) && p.free+p.fast > 0; {
		company := p.turns[i]
		t := p.next(company)
		if t == nil {
			i++
			continue
		}
		if t.kept = t.isFast && p.fast > 0; t.kept {
			p.fast--
		} else {
			p.free--
		}
		p.held[company]++
		p.turns = slices.Delete(p.turns, i, i+1)
		if q := p.waiting[company]; len(q.fast)+len(q.others) > 0 {
			p.turns = append(p.turns, company)
		} else {
			delete(p.waiting, company)
		}
		close(t.ready)
	}
}

// next takes the turn of a company that may have a place now out of its queue; nil for none.
func (p *places) next(company int64) (t *turn) {
	q := p.waiting[company]
	switch {
	case p.held[company] >= companyPlaces:
	case len(q.fast) > 0 && (len(q.others) == 0 || p.free == 0 || q.fast[0].came < q.others[0].came):
		t, q.fast = q.fast[0], q.fast[1:]
	case len(q.others) > 0 && p.free > 0:
		t, q.others = q.others[0], q.others[1:]
	}
	return t
}

// withdraw takes a turn back; false where it has its place already.
func (p *places) withdraw(company int64, t *turn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-t.ready:
		return false
	default:
	}
	is := func(other *turn) bool { return other == t }
	q := p.waiting[company]
	q.fast, q.others = slices.DeleteFunc(q.fast, is), slices.DeleteFunc(q.others, is)
	if len(q.fast)+len(q.others) == 0 {
		delete(p.waiting, company)
		p.turns = slices.DeleteFunc(p.turns, func(other int64) bool { return other == company })
	}
	return true
}

func (p *places) give(company int64, t *turn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t.kept {
		p.fast++
	} else {
		p.free++
	}
	if p.held[company]--; p.held[company] == 0 {
		delete(p.held, company)
	}
	p.hand()
}
