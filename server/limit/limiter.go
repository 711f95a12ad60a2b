package limit

import (
	"math"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

const (
	window = 60 * time.Second

	// Bounds on all counters together. Idle counters are removed after one window, so these bounds
	// matter only if that many accounts call within a minute.
	maxCounters = 20_000
	maxSlots    = 4 << 20 // logged calls, of 8 bytes each
)

// Call is a request to a Limiter, with its accounts.
type Call struct {
	Tier       Tier
	Items      int      // number of items in a batch; 0 means 1
	Credential [32]byte // hash of the presented valid credential
	Company    int64    // company of the credential, by chain ID; 0 for none
	// the client's, by Network; for routes without a credential, and for callers without one
	Address netip.Addr
}

// Limiter stores, for each tier and account, the times of the calls admitted in the last 60
// seconds. It has a single lock: a call holds it for a few tenths of a microsecond, so sharding
// would gain nothing.
type Limiter struct {
	rates   atomic.Pointer[rates]
	refused [tiers]atomic.Int64

	mu sync.Mutex
	// time of the first call; times are durations since then, which changes of the wall clock do
	// not affect
	epoch time.Time
	// calls are never logged earlier than the previous one, so that logs are ordered
	latest   time.Duration
	counters map[account]*counter
	// ring of all counters by their last call: next is the latest, prev the longest idle
	recent counter
	slots  int // sum of len(counter.log)
}

// account identifies a counter of a tier. One of the three other fields is set.
type account struct {
	tier       Tier
	credential [32]byte
	company    int64
	address    netip.Addr
}

// rates are Limits by tier.
type rates struct {
	limits  [tiers]int
	company [tiers]int // for all credentials of a company; 0 for no bound
}

// NewLimiter returns a limiter without counters.
func NewLimiter(l Limits) *Limiter {
	lim := &Limiter{counters: make(map[account]*counter)}
	lim.SetLimits(l)
	lim.recent.next, lim.recent.prev = &lim.recent, &lim.recent
	return lim
}

// SetLimits replaces the limits. What was counted in the last 60 seconds counts on, against the new
// ones.
func (l *Limiter) SetLimits(to Limits) {
	r := &rates{limits: [tiers]int{Standard: to.Standard, Sensitive: to.Sensitive, Attest: to.Attest, Log: to.Log}}
	for t, limit := range r.limits {
		r.company[t] = min(limit*to.Company, maxLimit)
	}
	l.rates.Store(r)
}

// budget is a counter that must have room for a call, with its limit per window.
type budget struct {
	*counter
	limit int
}

// Take counts a call and reports whether it is admitted. It counts for the credential, or without
// one for the address; the headers of the response show this counter. A call with a credential also
// counts for the company, and one with an address also for that. It is admitted if all counters
// have room for all its items; otherwise none counts it, so that refused calls never extend a
// window.
//
// If there are too many counters, the one with the oldest last call (admitted or not) is removed,
// and its account starts with an empty window. Causing that gains nothing: it takes 20,000 other
// accounts, each with its own window. A bounded.Map would remove arbitrary counters, also those of
// clients in use.
func (l *Limiter) Take(call Call, now time.Time) Quota {
	rates := l.rates.Load()
	limit := rates.limits[call.Tier]
	if limit == 0 {
		return Quota{OK: true}
	}
	items := max(1, call.Items)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.epoch.IsZero() {
		l.epoch = now
	}
	l.latest = max(l.latest, now.Sub(l.epoch)) // callers read the clock before they get the lock
	at := l.latest

	q := Quota{limit: limit, OK: true}
	var room [3]budget
	budgets := room[:0]
	if call.Company != 0 {
		budgets = append(budgets, budget{l.counter(account{tier: call.Tier, credential: call.Credential}, at), limit})
		if most := rates.company[call.Tier]; most > 0 {
			budgets = append(budgets, budget{l.counter(account{tier: call.Tier, company: call.Company}, at), most})
			q.company = most
		}
	}
	if call.Company == 0 || call.Address.IsValid() {
		budgets = append(budgets, budget{l.counter(account{tier: call.Tier, address: call.Address}, at), limit})
	}
	defer func() { l.tidy(at, budgets) }()

	until := at
	for _, b := range budgets {
		if free := b.freeAt(items, b.limit, at); free > at {
			q.OK, until = false, max(until, free)
		}
	}
	if q.OK {
		for _, b := range budgets {
			for range items {
				l.slots += b.push(at, b.limit)
			}
		}
		q.remaining, until = limit-budgets[0].used, budgets[0].oldest()+window
	}
	if q.company > 0 {
		q.left = max(0, q.company-budgets[1].used) // the limit may have been lowered
	}
	q.reset = now.Add(until - at)
	return q
}

// Refused counts a call that was refused by this limiter, or by one that servers share.
func (l *Limiter) Refused(t Tier) { l.refused[t].Add(1) }

// Refusals returns how many calls were refused since the start, by the name of their tier.
func (l *Limiter) Refusals() map[string]int64 {
	return map[string]int64{"standard": l.refused[Standard].Load(), "sensitive": l.refused[Sensitive].Load(),
		"attest": l.refused[Attest].Load(), "log": l.refused[Log].Load()}
}

// Room returns how many items a call with a credential may have now. Concurrent calls may use some
// of it. Room counts nothing.
func (l *Limiter) Room(call Call, now time.Time) int {
	room, rates := math.MaxInt, l.rates.Load()
	l.mu.Lock()
	defer l.mu.Unlock()
	for of, most := range map[account]int{
		{tier: call.Tier, credential: call.Credential}: rates.limits[call.Tier],
		{tier: call.Tier, company: call.Company}:       rates.company[call.Tier],
	} {
		if most == 0 {
			continue
		}
		if c := l.counters[of]; c != nil {
			c.expire(now.Sub(l.epoch) - window)
			most -= c.used
		}
		room = min(room, max(0, most))
	}
	return room
}

// Most returns the maximum number of items of a call of a tier; 0 for no bound. A call with more is
// always refused.
func (l *Limiter) Most(t Tier) int { return l.rates.Load().limits[t] }

// counter returns the counter of an account, creates it if necessary, moves it to the front, and
// removes expired entries.
func (l *Limiter) counter(of account, at time.Duration) *counter {
	c := l.counters[of]
	if c == nil {
		c = &counter{of: of}
		l.counters[of] = c
	} else {
		c.unlink()
	}
	c.next, c.prev = l.recent.next, &l.recent
	c.next.prev, c.prev.next = c, c
	c.last = at
	c.expire(at - window)
	return c
}

// tidy removes some idle counters, and counters beyond the bounds, but never those just used, which
// are at the front.
func (l *Limiter) tidy(at time.Duration, used []budget) {
	for dropped := 0; ; dropped++ {
		c := l.recent.prev
		idle := at-c.last >= window && dropped < 4
		if c == used[0].counter || !idle && len(l.counters) <= maxCounters && l.slots <= maxSlots {
			return
		}
		c.unlink()
		delete(l.counters, c.of)
		l.slots -= len(c.log)
	}
}
