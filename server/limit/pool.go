package limit

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
)

// ErrFull says that a Pool has nothing left for a caller; ErrShare, which is one of these, that it
// is the caller's own share that is used up.
var (
	ErrFull  = errors.New("limit: all is taken")
	ErrShare = fmt.Errorf("%w that one caller may hold", ErrFull)
)

// Size says how much of something there is. A Most of zero is without a bound.
type Size struct {
	Most     int64 // that all may hold together
	Share    int64 // of it, that one address may hold, and one company
	Reserved int64 // of Most, for known callers only
}

// Holder is on whose account something is held.
type Holder struct {
	Address netip.Addr // by Network; the zero Addr has no share of its own
	Company int64      // number of the company's chain; 0 is none
	Known   bool       // may take what is kept
}

// A Pool is something of which there is so much and no more, and parts of which callers hold for a
// while: connections, places, bytes. What is taken is given back in the name of the same holder.
type Pool struct {
	size Size

	mu   sync.Mutex
	held int64
	// what each address and each company holds; an entry goes when that is nothing
	shares  map[share]int64
	refused int64 // calls of Take
}

// share names an address or a company: one of the two is set.
type share struct {
	address netip.Addr
	company int64
}

// NewPool returns a pool of which nobody holds anything.
func NewPool(size Size) *Pool { return &Pool{size: size, shares: make(map[share]int64)} }

// Take gives n to h, or returns ErrFull or ErrShare and gives nothing. It never waits.
func (p *Pool) Take(n int64, h Holder) error {
	err := p.take(n, h)
	if err != nil {
		p.mu.Lock()
		p.refused++
		p.mu.Unlock()
	}
	return err
}

// take is Take, and does not count as refused what it refuses.
func (p *Pool) take(n int64, h Holder) error {
	var space [2]share
	shares := h.shares(space[:0])
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.size.Most > 0 {
		most := p.size.Most
		if !h.Known {
			most -= p.size.Reserved
		}
		if p.held+n > most {
			return ErrFull
		}
		for _, s := range shares {
			if p.shares[s]+n > p.size.Share {
				return ErrShare
			}
		}
	}
	p.held += n
	for _, s := range shares {
		p.shares[s] += n
	}
	return nil
}

// Give takes back n of what h holds.
func (p *Pool) Give(n int64, h Holder) {
	var space [2]share
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held -= n
	for _, s := range h.shares(space[:0]) {
		if p.shares[s] -= n; p.shares[s] == 0 {
			delete(p.shares, s)
		}
	}
}

// Holds says how much a company holds now.
func (p *Pool) Holds(company int64) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.shares[share{company: company}]
}

// Use says how much is held now, and how often Take has refused.
func (p *Pool) Use() (held, refused int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held, p.refused
}

func (h Holder) shares(into []share) []share {
	if h.Address.IsValid() {
		into = append(into, share{address: h.Address})
	}
	if h.Company != 0 {
		into = append(into, share{company: h.Company})
	}
	return into
}
