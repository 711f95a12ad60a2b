package limit

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func TestParseLimits(t *testing.T) {
	t.Parallel()
	good := map[string]Limits{
		"off":                                   {},
		"sensitive=10,attest=100,standard=1000": {Sensitive: 10, Attest: 100, Standard: 1000},
		"attest=7":                              {Sensitive: 10, Attest: 7, Standard: 1000},
		"standard=1, sensitive=1000000":         {Sensitive: 1_000_000, Attest: 100, Standard: 1},
	}
	for in, want := range good {
		got, err := Parse(in)
		if err != nil || got != want {
			t.Errorf("Parse(%q) = %+v, %v; want %+v", in, got, err, want)
		}
	}
	bad := map[string]string{ // to what the error must speak of
		"":                      "tier=number or off",
		"on":                    "tier=number or off",
		"attest=1,off":          "tier=number or off",
		"attest=1,":             "tier=number or off",
		"atest=1":               "sensitive, attest and standard",
		"attest=0":              "from 1 to 1000000",
		"attest=-1":             "from 1 to 1000000",
		"attest=1000001":        "from 1 to 1000000",
		"attest=ten":            `not "ten"`,
		"attest=1,attest=2":     "twice",
		"attest=99999999999999": "from 1 to 1000000",
	}
	for in, want := range bad {
		if _, err := Parse(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%q): error %v, want one that says %q", in, err, want)
		}
	}
}

// model is the limiter of the specification in its slowest and most obvious form.
type model map[counterKey][]time.Time

func (m model) Take(limit int, k counterKey, now time.Time) Quota {
	var live []time.Time
	for _, at := range m[k] {
		if now.Sub(at) < time.Minute {
			live = append(live, at)
		}
	}
	ok := len(live) < limit
	if ok {
		live = append(live, now)
	}
	m[k] = live
	return Quota{limit: limit, remaining: limit - len(live), reset: live[0].Add(time.Minute), OK: ok}
}

func TestLimiterAgreesWithModel(t *testing.T) {
	t.Parallel()
	limits := []int{Standard: 9, Sensitive: 1, Attest: 4}
	for seed := range uint64(50) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		l := New(Limits{Standard: 9, Sensitive: 1, Attest: 4})
		m := model{}
		now := noon
		for step := range 2000 {
			if rnd.IntN(100) == 0 {
				now = now.Add(time.Minute) // an entry made now expires exactly then
			} else {
				now = now.Add(time.Duration(rnd.ExpFloat64() * float64(3*time.Second)))
			}
			k := counterKey{Tier(rnd.IntN(3)), string(rune('a' + rnd.IntN(3)))}
			got, want := l.Take(k.tier, k.key, now), m.Take(limits[k.tier], k, now)
			if got != want {
				t.Fatalf("seed %d step %d %v: got %+v, want %+v", seed, step, k, got, want)
			}
		}
	}
}

func TestLimiterExactWhenConcurrent(t *testing.T) {
	t.Parallel()
	const limit, callers, calls = 100, 16, 50
	l := New(Limits{Attest: limit})
	var mu sync.Mutex
	seen := make(map[int]int) // remaining → times it was told to an admitted call
	refused := 0
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range calls {
				q := l.Take(Attest, "key", noon)
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
			t.Errorf("remaining %d told %d times, want once", n, seen[n])
		}
	}
}

// A caller reads the clock before it waits for the lock, so that times may come in the wrong order.
func TestLimiterTakesLateTimes(t *testing.T) {
	t.Parallel()
	l := New(Limits{Attest: 2})
	l.Take(Attest, "key", noon.Add(time.Second))
	if q := l.Take(Attest, "key", noon); !q.OK || q.remaining != 0 {
		t.Fatalf("second call: %+v", q)
	}
	if q := l.Take(Attest, "key", noon.Add(time.Minute)); q.OK {
		t.Error("admitted before the window of the first call had passed")
	}
	if q := l.Take(Attest, "key", noon.Add(time.Minute+time.Second)); !q.OK {
		t.Error("refused after the window had passed")
	}
}

func TestLimiterOff(t *testing.T) {
	t.Parallel()
	for _, l := range []*Limiter{New(Limits{}), New(Limits{Sensitive: 1})} {
		h := http.Header{}
		for range 5000 {
			q := l.Take(Standard, "key", noon)
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
	l := New(Limits{Sensitive: 2})
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
		{time.Minute, "0", "1767355261", ""},                              // the first has expired; the next will at 60.5, rounded up
		{time.Minute + 499*time.Millisecond, "0", "1767355261", "1"},      // never 0
		{time.Minute + 500*time.Millisecond, "0", "1767355320", ""},       // the next to expire is that of 12:01:00
		{3 * time.Minute, "1", "1767355440", ""},                          // the window is empty again
		{3*time.Minute + 100*time.Millisecond, "0", "1767355440", ""},     // the oldest counts, not the latest
		{3*time.Minute + 100*time.Millisecond, "0", "1767355440", "60"},   // 59.9
		{4*time.Minute + 100*time.Millisecond, "1", "1767355501", ""},     // both have expired
		{4*time.Minute + 100*time.Millisecond, "0", "1767355501", ""},     //
		{10*time.Minute + 100*time.Millisecond, "1", "1767355861", ""},    //
		{10*time.Minute + 1100*time.Millisecond, "0", "1767355861", ""},   //
		{10*time.Minute + 1100*time.Millisecond, "0", "1767355861", "59"}, // 59.0
	} {
		now := noon.Add(step.at)
		q := l.Take(Sensitive, "ip", now)
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
	l := New(Limits{Standard: 1000})
	for i := range 1000 {
		l.Take(Standard, fmt.Sprint("idle ", i), noon)
	}
	later := noon.Add(time.Minute)
	for range 500 { // a few go with each call
		l.Take(Standard, "busy", later)
	}
	if len(l.counters) != 1 || l.slots != len(l.recent.next.log) {
		t.Errorf("%d counters with %d slots remain, want the busy one alone", len(l.counters), l.slots)
	}
}

func TestLimiterMemoryIsBounded(t *testing.T) {
	t.Parallel()
	t.Run("many keys", func(t *testing.T) {
		t.Parallel()
		l := New(Limits{Standard: 3})
		l.Take(Standard, "faithful", noon)
		for i := range 3 * maxCounters {
			l.Take(Standard, fmt.Sprint(i), noon)
			if i%(maxCounters/2) == 0 {
				l.Take(Standard, "faithful", noon)
			}
			if len(l.counters) > maxCounters {
				t.Fatalf("%d counters", len(l.counters))
			}
		}
		if q := l.Take(Standard, "faithful", noon); q.OK {
			t.Error("a key in use was forgotten")
		}
		if q := l.Take(Standard, "0", noon); q.remaining != 2 {
			t.Errorf("the key used least recently has %d calls left, want a new window", q.remaining)
		}
	})
	t.Run("long logs", func(t *testing.T) {
		t.Parallel()
		l := New(Limits{Standard: maxLimit})
		for i := range maxSlots/maxLimit + 2 {
			for range maxLimit/2 + 1 { // the last doubling takes the ring to its full size
				l.Take(Standard, fmt.Sprint(i), noon)
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
func TestTakeDoesNotAllocate(t *testing.T) {
	l := New(Limits{Standard: 10})
	for range 20 {
		l.Take(Standard, "key", noon)
	}
	now := noon
	if n := testing.AllocsPerRun(1000, func() {
		now = now.Add(3 * time.Second)
		l.Take(Standard, "key", now)
	}); n != 0 {
		t.Errorf("%v allocations a call", n)
	}
}

func BenchmarkTake(b *testing.B) {
	keys := make([]string, 1000)
	for i := range keys {
		keys[i] = fmt.Sprintf("svc_%043d", i)
	}
	l := New(Limits{Standard: 1000})
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		now := time.Now()
		for i := 0; pb.Next(); i++ {
			now = now.Add(time.Millisecond)
			l.Take(Standard, keys[i%len(keys)], now)
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
