package limit

import (
	"math"
	"net/netip"
	"sync"
	"time"
)

const (
	window = 60 * time.Second

	// What the counters may hold together. Idle ones go by themselves after one window, so that
	// these bounds only matter when so many keys call within a minute.
	maxCounters = 20_000
	maxSlots    = 4 << 20 // logged calls, of 8 bytes
)

// Call is what a request asks of a Limiter, and on whose account.
type Call struct {
	Tier       Tier
	Items      int      // that it stands for, when it is a batch; 0 is 1
	Credential [32]byte // hash of the valid credential that it presents
	Company    int64    // whose credential that is, by its chain's number; 0: there is none
	// of the client, by Network: of a route that needs no credential, and of whoever has none
	Address netip.Addr
}

// Limiter keeps, for each tier and account, the times of the calls admitted in the last 60 seconds.
// One lock covers everything: a call holds it for a few tenths of a microsecond, so that shards
// would buy nothing.
type Limiter struct {
	limits  [tiers]int // by tier
	company [tiers]int // of a company over all its credentials, by tier; 0: without a bound

	mu sync.Mutex
	// of the first call; times are kept as distances from it, which no change of the wall clock
	// moves
	epoch time.Time
	// no call counts as earlier than the one before it, so that logs stay in order
	latest   time.Duration
	counters map[account]*counter
	// ring of all counters by their last call: next is the latest, prev the one idle for longest
	recent counter
	slots  int // sum of len(counter.log)
}

// account is whose calls of a tier a counter counts: one of the three is set.
type account struct {
	tier       Tier
	credential [32]byte
	company    int64
	address    netip.Addr
}

// NewLimiter returns a limiter without any counter.
func NewLimiter(l Limits) *Limiter {
	lim := &Limiter{counters: make(map[account]*counter)}
	lim.limits = [tiers]int{Standard: l.Standard, Sensitive: l.Sensitive, Attest: l.Attest, Log: l.Log}
	for t, limit := range lim.limits {
		lim.company[t] = min(limit*l.Company, maxLimit)
	}
	lim.recent.next, lim.recent.prev = &lim.recent, &lim.recent
	return lim
}

// budget is a counter that must have room for a call, and how much it admits in a window.
type budget struct {
	*counter
	limit int
}

// Take counts a call and says whether it may go on. It counts against its credential, or, without
// one, against its address; that is the counter which the answer's headers show. Beside it a call
// with a credential counts against the company's budget, and one that names an address against
// that. It goes on when all of them have room for all its items, and else is counted by none, so
// that refused calls never extend a window.
//
// When there are too many counters, the one whose last call (admitted or not) lies furthest back is
// forgotten, and its account starts with an empty window. Nothing can be gained by causing that: it
// takes 20,000 other accounts, each with a window of its own.
func (l *Limiter) Take(call Call, now time.Time) Quota {
	limit := l.limits[call.Tier]
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
		if most := l.company[call.Tier]; most > 0 {
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
		q.left = q.company - budgets[1].used
	}
	q.reset = now.Add(until - at)
	return q
}

// Room is how many items a call with a credential may have now; others that come at the same time
// may take of it. It counts nothing.
func (l *Limiter) Room(call Call, now time.Time) int {
	room := math.MaxInt
	l.mu.Lock()
	defer l.mu.Unlock()
	for of, most := range map[account]int{
		{tier: call.Tier, credential: call.Credential}: l.limits[call.Tier],
		{tier: call.Tier, company: call.Company}:       l.company[call.Tier],
	} {
		if most == 0 {
			continue
		}
		if c := l.counters[of]; c != nil {
			c.expire(now.Sub(l.epoch) - window)
			most -= c.used
		}
		room = min(room, most)
	}
	return room
}

// Most is how many items a call of a tier can have; 0 is no bound. One with more is refused
// whenever it comes.
func (l *Limiter) Most(t Tier) int { return l.limits[t] }

// counter finds or makes the counter of an account, puts it first, and forgets what has left its
// window.
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

// tidy drops idle counters, a few a call, and whatever is over the bounds, but never those just
// used, which stand first.
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
