package jobs

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	maxDeliveries = 256 // concurrent attempts of all webhooks
	companyPlaces = 4   // of maxDeliveries, maximum for one company
	fastPlaces    = 64  // of maxDeliveries, reserved for endpoints that respond fast
	// maximum duration of the last response of a fast endpoint
	fastAnswer = time.Second
)

// places limits the concurrent attempts of webhooks. A company has a few at a time, and companies
// take turns, so that slow endpoints do not delay those of other companies. Fast endpoints have
// reserved places, in case very many companies have slow ones.
type places struct {
	mu      sync.Mutex
	free    int               // for all endpoints
	fast    int               // free places for fast endpoints
	held    map[int64]int     // by company
	waiting map[int64]*queues // by company
	turns   []int64           // waiting companies in the order of their turns
	number  uint64            // number of turns so far
}

// queues has the waiting attempts of a company in order: those to fast endpoints, and others.
type queues struct{ fast, others []*turn }

// turn is an attempt that waits for a place.
type turn struct {
	isFast   bool
	number   uint64        // its number
	ready    chan struct{} // closed when it gets a place
	reserved bool          // the place is reserved for fast endpoints
}

func newPlaces() *places {
	return &places{free: maxDeliveries - fastPlaces, fast: fastPlaces, held: make(map[int64]int),
		waiting: make(map[int64]*queues)}
}

// acquire waits for a place, and returns a function that releases it. ok is false if ctx is done.
func (p *places) acquire(ctx context.Context, company int64, isFast bool) (release func(), ok bool) {
	t := &turn{isFast: isFast, ready: make(chan struct{})}
	p.mu.Lock()
	p.number++
	t.number = p.number
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
	p.assign()
	p.mu.Unlock()
	select {
	case <-t.ready:
	case <-ctx.Done():
		if p.withdraw(company, t) {
			return nil, false
		}
	}
	release = func() { p.release(company, t) }
	if ctx.Err() != nil {
		release()
		return nil, false
	}
	return release, true
}

// assign assigns free places in turn. The caller MUST hold the lock.
func (p *places) assign() {
	for i := 0; i < len(p.turns) && p.free+p.fast > 0; {
		company := p.turns[i]
		t := p.next(company)
		if t == nil {
			i++
			continue
		}
		if t.reserved = t.isFast && p.fast > 0; t.reserved {
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

// next removes the next attempt of a company from its queue if the company may have a place now. It
// returns nil otherwise.
func (p *places) next(company int64) (t *turn) {
	q := p.waiting[company]
	switch {
	case p.held[company] >= companyPlaces:
	case len(q.fast) > 0 && (len(q.others) == 0 || p.free == 0 || q.fast[0].number < q.others[0].number):
		t, q.fast = q.fast[0], q.fast[1:]
	case len(q.others) > 0 && p.free > 0:
		t, q.others = q.others[0], q.others[1:]
	}
	return t
}

// withdraw removes a waiting attempt. It returns false if the attempt has a place already.
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

func (p *places) release(company int64, t *turn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t.reserved {
		p.fast++
	} else {
		p.free++
	}
	if p.held[company]--; p.held[company] == 0 {
		delete(p.held, company)
	}
	p.assign()
}
