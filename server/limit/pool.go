package limit

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
)

// ErrFull means that a Pool has nothing left for a caller. ErrShare, which wraps it, means that the
// caller's own share is used up.
var (
	ErrFull  = errors.New("limit: all is taken")
	ErrShare = fmt.Errorf("%w that one caller may hold", ErrFull)
)

// Size is the capacity of a Pool. A Most of zero means no bound.
type Size struct {
	Most     int64 // in total
	Share    int64 // of Most, for one address, and for one company
	Reserved int64 // of Most, only for known callers
}

// Holder identifies the accounts for which something is held.
type Holder struct {
	Address netip.Addr // from Network; the zero Addr has no share
	Company int64      // chain ID of the company; 0 for none
	Known   bool       // may use what is reserved
}

// Pool is a limited quantity, parts of which callers hold for a while: connections, places, bytes.
// What is taken MUST be released for the same holder.
type Pool struct {
	size Size

	mu   sync.Mutex
	held int64
	// amount held by each address and company; entries of zero are removed
	shares  map[share]int64
	refused int64 // number of refusals by Acquire
}

// share identifies an address or a company: one of the two is set.
type share struct {
	address netip.Addr
	company int64
}

// NewPool returns a pool of which nothing is held.
func NewPool(size Size) *Pool { return &Pool{size: size, shares: make(map[share]int64)} }

// Acquire gives n to h, or returns ErrFull or ErrShare and gives nothing. It never blocks.
func (p *Pool) Acquire(n int64, h Holder) error {
	err := p.acquire(n, h)
	if err != nil {
		p.mu.Lock()
		p.refused++
		p.mu.Unlock()
	}
	return err
}

// acquire is Acquire without counting refusals.
func (p *Pool) acquire(n int64, h Holder) error {
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

// Release returns n of what h holds.
func (p *Pool) Release(n int64, h Holder) {
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

// Holds returns the amount that a company holds.
func (p *Pool) Holds(company int64) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.shares[share{company: company}]
}

// Most returns the capacity; 0 for no bound.
func (p *Pool) Most() int64 { return p.size.Most }

// Use returns the amount held, and the number of refusals by Acquire.
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
