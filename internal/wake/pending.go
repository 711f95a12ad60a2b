package wake

import (
	"cmp"
	"maps"
	"slices"
	"sync"
)

// Pending holds what there is to do, each item once, and a Signal that is set when there is any.
// Any goroutine may add to it; one receives from the Signal and drains.
type Pending[K cmp.Ordered] struct {
	Signal

	mu    sync.Mutex
	items map[K]bool
}

// NewPending returns a Pending with nothing to do.
func NewPending[K cmp.Ordered]() *Pending[K] {
	return &Pending[K]{Signal: NewSignal(), items: make(map[K]bool)}
}

// Add adds items and sets the signal, even without any. It does not wait for the receiver.
func (p *Pending[K]) Add(items ...K) {
	p.mu.Lock()
	for _, item := range items {
		p.items[item] = true
	}
	p.mu.Unlock()
	p.Set()
}

// Drain removes all items and returns them in ascending order.
func (p *Pending[K]) Drain() []K {
	p.mu.Lock()
	defer p.mu.Unlock()
	items := slices.Sorted(maps.Keys(p.items))
	clear(p.items)
	return items
}

// Len is the number of items.
func (p *Pending[K]) Len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.items)
}
