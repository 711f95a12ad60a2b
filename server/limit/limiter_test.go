package limit

import (
	"math/rand/v2"
	"net/http"
	"net/netip"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// from is a call from the n-th of many addresses.
func from(t Tier, n int) Call {
	return Call{Tier: t, Address: netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)})}
}

// by is a call with the n-th of many credentials of a company.
func by(company int64, t Tier, n int) Call {
	return Call{Tier: t, Company: company, Credential: [32]byte{byte(n), byte(n >> 8), byte(company)}}
}

// model is the limiter in its slowest and most obvious form.
type model struct {
	limits  []int // by tier
	company int   // factor
	log     map[account][]time.Time
}

func (m model) Take(call Call, now time.Time) Quota {
	limit, items := m.limits[call.Tier], max(1, call.Items)
	most := map[account]int{}
	first := account{tier: call.Tier, address: call.Address}
	if call.Company != 0 {
		first = account{tier: call.Tier, credential: call.Credential}
		most[account{tier: call.Tier, company: call.Company}] = limit * m.company
	}
	if call.Company == 0 || call.Address.IsValid() {
		most[account{tier: call.Tier, address: call.Address}] = limit
	}
	most[first] = limit
	company := account{tier: call.Tier, company: call.Company}
	ok, reset := true, now
	for a, most := range most {
		m.log[a] = slices.DeleteFunc(m.log[a], func(at time.Time) bool { return now.Sub(at) >= time.Minute })
		if over := len(m.log[a]) + items - most; over > 0 {
			ok = false
			free := now.Add(time.Minute)
			if over <= len(m.log[a]) {
				free = m.log[a][over-1].Add(time.Minute)
			}
			if free.After(reset) {
				reset = free
			}
		}
	}
	if !ok {
		return Quota{limit: limit, reset: reset, company: most[company], left: most[company] - len(m.log[company])}
	}
	for a := range most {
		for range items {
			m.log[a] = append(m.log[a], now)
		}
	}
	return Quota{limit: limit, remaining: limit - len(m.log[first]), reset: m.log[first][0].Add(time.Minute),
		company: most[company], left: most[company] - len(m.log[company]), OK: true}
}

func TestLimiterAgreesWithModel(t *testing.T) {
	t.Parallel()
	refused := 0
	for seed := range uint64(50) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		l := NewLimiter(Limits{Standard: 9, Sensitive: 1, Attest: 4, Company: 2})
		m := model{[]int{Standard: 9, Sensitive: 1, Attest: 4}, 2, map[account][]time.Time{}}
		now := noon
		for step := range 2000 {
			if rnd.IntN(100) == 0 {
				now = now.Add(time.Minute) // an entry made now expires exactly then
			} else {
				now = now.Add(time.Duration(rnd.ExpFloat64() * float64(2*time.Second)))
			}
			call := from(Tier(rnd.IntN(3)), rnd.IntN(3))
			if company := int64(rnd.IntN(3)); company > 0 {
				address := call.Address
				if call = by(company, call.Tier, rnd.IntN(4)); rnd.IntN(2) == 0 {
					call.Address = address // of a public route
				}
			}
			if rnd.IntN(10) == 0 {
				call.Items = rnd.IntN(6) // sometimes more than there ever is room for
			}
			got, want := l.Take(call, now), m.Take(call, now)
			if got != want {
				t.Fatalf("seed %d step %d %+v: got %+v, want %+v", seed, step, call, got, want)
			}
			if !got.OK {
				refused++
			}
		}
	}
	if refused < 1000 {
		t.Errorf("only %d calls were refused", refused)
	}
}

// Limits that change count what was counted before, as if they had always been so.
func TestLimitsChange(t *testing.T) {
	t.Parallel()
	refused := 0
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		m := model{[]int{Standard: 9, Sensitive: 1, Attest: 4}, 2, map[account][]time.Time{}}
		l := NewLimiter(Limits{Standard: 9, Sensitive: 1, Attest: 4, Company: 2})
		now := noon
		for step := range 2000 {
			now = now.Add(time.Duration(rnd.ExpFloat64() * float64(time.Second)))
			if rnd.IntN(20) == 0 {
				to := Limits{Standard: 1 + rnd.IntN(20), Sensitive: 1 + rnd.IntN(5), Attest: 1 + rnd.IntN(40), Company: 1 + rnd.IntN(4)}
				l.SetLimits(to)
				m.limits, m.company = []int{Standard: to.Standard, Sensitive: to.Sensitive, Attest: to.Attest}, to.Company
			}
			call := from(Tier(rnd.IntN(3)), rnd.IntN(3))
			if rnd.IntN(2) == 0 {
				call = by(1, call.Tier, rnd.IntN(3))
			}
			call.Items = rnd.IntN(4)
			got, want := l.Take(call, now), m.Take(call, now)
			want.left = max(0, want.left)
			if got != want {
				t.Fatalf("seed %d step %d %+v: got %+v, want %+v", seed, step, call, got, want)
			}
			if !got.OK {
				refused++
			}
			if room := l.Room(call, now); room < 0 {
				t.Fatalf("seed %d step %d: room %d", seed, step, room)
			}
		}
	}
	if refused < 1000 {
		t.Errorf("only %d calls were refused", refused)
	}
}

// A fresh key for each call is of no use: the company has one budget over all of them, and cannot
// exceed it, however long it tries.
func TestCompanyBudget(t *testing.T) {
	t.Parallel()
	l := NewLimiter(Limits{Attest: 100, Company: 10})
	admitted := 0
	for n := range 5000 {
		now := noon.Add(time.Duration(n) * time.Millisecond)
		q := l.Take(by(1, Attest, n), now)
		if q.OK {
			admitted++
			continue
		}
		h := http.Header{}
		if q.Header(h, now); h.Get("X-Ratelimit-Limit") != "100" || h.Get("X-Ratelimit-Remaining") != "0" || h.Get("Retry-After") == "" {
			t.Fatalf("refused with %v", h)
		}
	}
	if admitted != 1000 {
		t.Errorf("%d calls of one company were admitted, want ten times 100", admitted)
	}
	if q := l.Take(by(2, Attest, 0), noon); !q.OK || q.remaining != 99 {
		t.Errorf("another company got %+v", q)
	}
	if q := l.Take(by(1, Attest, 5001), noon.Add(time.Minute)); !q.OK {
		t.Error("refused after the window has passed")
	}
}

// On a public route the address counts, whatever credential comes with the call; and a call that
// one of two budgets refuses is counted by neither.
func TestAddressBudget(t *testing.T) {
	t.Parallel()
	l := NewLimiter(Limits{Standard: 5, Company: 10})
	home := from(Standard, 1).Address
	for n := range 5 {
		call := by(1, Standard, n)
		call.Address = home
		if q := l.Take(call, noon); !q.OK || q.remaining != 4 {
			t.Fatalf("call %d: %+v", n, q)
		}
	}
	for n := range 5 {
		call := by(1, Standard, n)
		call.Address = home
		if q := l.Take(call, noon.Add(time.Second)); q.OK || q.remaining != 0 || !q.reset.Equal(noon.Add(time.Minute)) {
			t.Fatalf("over the address's budget: %+v", q)
		}
		if q := l.Take(by(1, Standard, n), noon.Add(time.Second)); !q.OK || q.remaining != 3 {
			t.Errorf("elsewhere the credential has %+v, want what it had and one less", q)
		}
	}
	if q := l.Take(Call{Tier: Standard, Address: home}, noon.Add(time.Second)); q.OK {
		t.Error("the same address without a credential was admitted")
	}
}

// A batch is as much as its items: it is counted in full or refused in full.
func TestBatchCountsItsItems(t *testing.T) {
	t.Parallel()
	l := NewLimiter(Limits{Attest: 10, Company: 10})
	batch := func(items int) Quota {
		call := by(1, Attest, 1)
		call.Items = items
		return l.Take(call, noon)
	}
	for _, step := range []struct {
		items, remaining int
		ok               bool
	}{{11, 0, false}, {6, 4, true}, {5, 0, false}, {4, 0, true}, {1, 0, false}} {
		if q := batch(step.items); q.OK != step.ok || q.remaining != step.remaining {
			t.Errorf("%d items: %+v, want %+v", step.items, q, step)
		}
	}
}

func TestLimiterExactWhenConcurrent(t *testing.T) {
	t.Parallel()
	const limit, callers, calls = 100, 16, 50
	l := NewLimiter(Limits{Attest: limit})
	var mu sync.Mutex
	seen := make(map[int]int) // remaining → times an admitted call was shown it
	refused := 0
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range calls {
				q := l.Take(from(Attest, 1), noon)
				mu.Lock()
				if q.OK {
					seen[q.remaining]++
				} else {
					refused++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if refused != callers*calls-limit {
		t.Errorf("%d of %d calls refused, want all but %d", refused, callers*calls, limit)
	}
	for n := range limit {
		if seen[n] != 1 {
			t.Errorf("remaining %d shown %d times, want once", n, seen[n])
		}
	}
}

// A caller reads the clock before it waits for the lock, so that times may come in the wrong order.
func TestLimiterTakesLateTimes(t *testing.T) {
	t.Parallel()
	l := NewLimiter(Limits{Attest: 2})
	l.Take(from(Attest, 1), noon.Add(time.Second))
	if q := l.Take(from(Attest, 1), noon); !q.OK || q.remaining != 0 {
		t.Fatalf("second call: %+v", q)
	}
	if q := l.Take(from(Attest, 1), noon.Add(time.Minute)); q.OK {
		t.Error("admitted before the window of the first call had passed")
	}
	if q := l.Take(from(Attest, 1), noon.Add(time.Minute+time.Second)); !q.OK {
		t.Error("refused after the window had passed")
	}
}

func TestLimiterOff(t *testing.T) {
	t.Parallel()
	for _, l := range []*Limiter{NewLimiter(Limits{}), NewLimiter(Limits{Sensitive: 1})} {
		h := http.Header{}
		for range 5000 {
			q := l.Take(from(Standard, 1), noon)
			if q.Header(h, noon); !q.OK {
				t.Fatal("refused without a limit")
			}
		}
		if len(h) != 0 || len(l.counters) != 0 {
			t.Errorf("headers %v, %d counters; want none", h, len(l.counters))
		}
	}
}

func TestRateHeaders(t *testing.T) {
	t.Parallel()
	const unix = "1767355260" // noon and a minute
	l := NewLimiter(Limits{Sensitive: 2})
	for _, step := range []struct {
		at                time.Duration
		remaining, resets string
		retry             string // "" when admitted
	}{
		{0, "1", unix, ""},
		{500 * time.Millisecond, "0", unix, ""},
		{time.Second, "0", unix, "59"},
		{1200 * time.Millisecond, "0", unix, "59"}, // 58.8 rounded up
		{time.Minute - 1, "0", unix, "1"},
		// the first has expired; the next will at 60.5, rounded up
		{time.Minute, "0", "1767355261", ""},
		{time.Minute + 499*time.Millisecond, "0", "1767355261", "1"}, // never 0
		// the next to expire is that of 12:01:00
		{time.Minute + 500*time.Millisecond, "0", "1767355320", ""},
		// the window is empty again
		{3 * time.Minute, "1", "1767355440", ""},
		// the oldest counts, not the latest
		{3*time.Minute + 100*time.Millisecond, "0", "1767355440", ""},
		{3*time.Minute + 100*time.Millisecond, "0", "1767355440", "60"},   // 59.9
		{4*time.Minute + 100*time.Millisecond, "1", "1767355501", ""},     // both have expired
		{4*time.Minute + 100*time.Millisecond, "0", "1767355501", ""},     //
		{10*time.Minute + 100*time.Millisecond, "1", "1767355861", ""},    //
		{10*time.Minute + 1100*time.Millisecond, "0", "1767355861", ""},   //
		{10*time.Minute + 1100*time.Millisecond, "0", "1767355861", "59"}, // 59.0
	} {
		now := noon.Add(step.at)
		q := l.Take(from(Sensitive, 1), now)
		got := http.Header{}
		q.Header(got, now)
		want := http.Header{}
		want.Set("X-RateLimit-Limit", "2")
		want.Set("X-RateLimit-Remaining", step.remaining)
		want.Set("X-RateLimit-Reset", step.resets)
		if step.retry != "" {
			want.Set("Retry-After", step.retry)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("after %v: %v, want %v", step.at, got, want)
		}
	}
}

func TestLimiterForgetsIdleCounters(t *testing.T) {
	t.Parallel()
	l := NewLimiter(Limits{Standard: 1000})
	for i := range 1000 {
		l.Take(from(Standard, 2+i), noon)
	}
	later := noon.Add(time.Minute)
	for range 500 { // a few go with each call
		l.Take(from(Standard, 1), later)
	}
	if len(l.counters) != 1 || l.slots != len(l.recent.next.log) {
		t.Errorf("%d counters with %d slots remain, want the busy one alone", len(l.counters), l.slots)
	}
}

func TestLimiterMemoryIsBounded(t *testing.T) {
	t.Parallel()
	t.Run("many keys", func(t *testing.T) {
		t.Parallel()
		l := NewLimiter(Limits{Standard: 3})
		l.Take(from(Standard, 1), noon)
		for i := range 3 * maxCounters {
			l.Take(from(Standard, 2+i), noon)
			if i%(maxCounters/2) == 0 {
				l.Take(from(Standard, 1), noon)
			}
			if len(l.counters) > maxCounters {
				t.Fatalf("%d counters", len(l.counters))
			}
		}
		if q := l.Take(from(Standard, 1), noon); q.OK {
			t.Error("a key in use was forgotten")
		}
		if q := l.Take(from(Standard, 2), noon); q.remaining != 2 {
			t.Errorf("the key used least recently has %d calls left, want a new window", q.remaining)
		}
	})
	t.Run("long logs", func(t *testing.T) {
		t.Parallel()
		l := NewLimiter(Limits{Standard: maxLimit})
		for i := range maxSlots/maxLimit + 2 {
			for range maxLimit/2 + 1 { // the last doubling gives the ring its full size
				l.Take(from(Standard, 2+i), noon)
			}
			if l.slots > maxSlots {
				t.Fatalf("%d slots", l.slots)
			}
		}
		if len(l.counters) < maxSlots/maxLimit {
			t.Errorf("only %d counters remain", len(l.counters))
		}
	})
}

// What goes on every response must not allocate more than the values of the headers.
func TestLimiterDoesNotAllocate(t *testing.T) {
	l := NewLimiter(Limits{Standard: 10})
	for range 20 {
		l.Take(from(Standard, 1), noon)
	}
	now := noon
	if n := testing.AllocsPerRun(1000, func() {
		now = now.Add(3 * time.Second)
		l.Take(from(Standard, 1), now)
	}); n != 0 {
		t.Errorf("%v allocations a call", n)
	}
}

func BenchmarkTake(b *testing.B) {
	l := NewLimiter(Limits{Standard: 1000, Company: 10})
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		now := time.Now()
		for i := 0; pb.Next(); i++ {
			now = now.Add(time.Millisecond)
			l.Take(by(int64(i%100), Standard, i%1000), now)
		}
	})
}

func BenchmarkRateHeaders(b *testing.B) {
	q := Quota{limit: 1000, remaining: 987, reset: noon, OK: true}
	h := http.Header{}
	b.ReportAllocs()
	for b.Loop() {
		q.Header(h, noon)
	}
}
