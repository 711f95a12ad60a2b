package store_test

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"attestd/chain"
	"attestd/internal/must"
	"attestd/store"
)

// load is many callers that append to one chain on several servers and read it, with the history of
// their answers.
type load struct {
	servers []*store.Store
	company *store.Company
	chain   int64
	stopped chan struct{}
	callers sync.WaitGroup

	mu           sync.Mutex
	begun        time.Time
	history      []porcupine.Operation // the answered calls
	appends      map[string]call       // by payload
	acknowledged int
	latest       time.Duration // when the last append was acknowledged
	silence      time.Duration // the longest time without an acknowledgement
}

// call is an append whose outcome is its index, unknown, or that nothing was written.
type call struct {
	caller      int
	at          time.Duration
	record      *chain.Record
	unknown     bool
	unavailable error
}

// lengthOf is the input of a read; every other input is the payload of an append. The output of an
// append is the index of its record, that of a read is the length of the chain.
const lengthOf = "length"

func newLoad(c *store.Company, servers ...*store.Store) *load {
	return &load{servers: servers, company: c, chain: c.Chain, stopped: make(chan struct{}), begun: time.Now(), appends: make(map[string]call)}
}

// run starts callers, each of which uses one server: most append, the others read.
func (l *load) run(t testing.TB, callers int) {
	for i := range callers {
		s := l.servers[i%len(l.servers)]
		l.callers.Go(func() {
			for n := 0; !l.isStopped(); n++ {
				if i/len(l.servers)%4 == 3 {
					l.read(t, s, i)
					// The time that porcupine needs grows with the square of the number of calls.
					time.Sleep(10 * time.Millisecond)
				} else {
					l.append(t, s, i, string(saying(l.company, fmt.Sprintf(`{"caller":%d,"n":%d}`, i, n)).Payload))
				}
			}
		})
	}
}

func (l *load) isStopped() bool {
	select {
	case <-l.stopped:
		return true
	default:
		return false
	}
}

func (l *load) stop() {
	close(l.stopped)
	l.callers.Wait()
}

// append appends a payload, and repeats that while the answer is that nothing was written.
func (l *load) append(t testing.TB, s *store.Store, caller int, payload string) {
	d := chain.Draft{Chain: l.chain, Payload: []byte(payload), Canonical: []byte(payload)}
	for {
		c := call{caller: caller, at: time.Since(l.begun)}
		r, err := s.Append(ctx, d)
		switch {
		case err == nil:
			c.record = &r
		case errors.Is(err, store.ErrUnknown):
			c.unknown = true
		case errors.Is(err, store.ErrUnavailable):
			c.unavailable = err
		default:
			t.Errorf("append: %v", err)
		}
		l.note(payload, c)
		if c.unavailable == nil || l.isStopped() {
			return
		}
	}
}

func (l *load) note(payload string, c call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.appends[payload] = c
	if c.record == nil {
		return
	}
	end := time.Since(l.begun)
	l.history = append(l.history, porcupine.Operation{ClientId: c.caller, Input: payload, Output: c.record.Index, Call: int64(c.at), Return: int64(end)})
	l.acknowledged++
	l.silence, l.latest = max(l.silence, end-l.latest), end
}

func (l *load) read(t testing.TB, s *store.Store, caller int) {
	begun := time.Since(l.begun)
	head, next, err := s.Tip(ctx, l.chain)
	if err != nil {
		if !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("read: %v", err)
		}
		return
	}
	if next != head.Length {
		t.Errorf("a head of %d records, and the next one is %d", head.Length, next)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.history = append(l.history, porcupine.Operation{ClientId: caller, Input: lengthOf, Output: head.Length, Call: int64(begun), Return: int64(time.Since(l.begun))})
}

// counts returns the numbers of acknowledged appends and of appends with an unknown outcome.
func (l *load) counts() (acknowledged, unknown int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.appends {
		if c.unknown {
			unknown++
		}
	}
	return l.acknowledged, unknown
}

// await waits until n more appends are acknowledged and returns how long that took.
func (l *load) await(t testing.TB, more int) time.Duration {
	t.Helper()
	begun := time.Now()
	from, _ := l.counts()
	for now := from; now < from+more; now, _ = l.counts() {
		if time.Since(begun) > time.Minute {
			t.Fatalf("%d appends in a minute", now-from)
		}
		time.Sleep(time.Millisecond)
	}
	return time.Since(begun)
}

// oneList is porcupine's model of a chain: its length, which only appends change.
var oneList = porcupine.Model{
	Init: func() any { return int64(0) },
	Step: func(state, input, output any) (bool, any) {
		if state != output {
			return false, state
		}
		if input == lengthOf {
			return true, state
		}
		return true, state.(int64) + 1
	},
}

// check reports whether the chain agrees with the answers. Acknowledged records are at their index
// exactly once, records that were not written are absent, those with an unknown outcome occur at
// most once, and there are no others. Some order of all calls explains every answer as that of a
// single list. The chain verifies.
func (l *load) check(t testing.TB, s *store.Store) {
	t.Helper()
	places := make(map[string]int64)
	for _, r := range read(t, s, l.chain, 0, 1<<40) {
		payload := string(r.Payload)
		if at, twice := places[payload]; twice {
			t.Errorf("%s is there at %d and at %d", payload, at, r.Index)
		}
		if r.Index != int64(len(places)) {
			t.Errorf("record %d at %d", r.Index, len(places))
		}
		places[payload] = r.Index
		c, known := l.appends[payload]
		switch {
		case !known:
			t.Errorf("nobody has asked for %s", payload)
		case c.unavailable != nil:
			t.Errorf("%s is there, and the answer was %v", payload, c.unavailable)
		case c.unknown:
			l.history = append(l.history, porcupine.Operation{ClientId: c.caller, Input: payload, Output: r.Index, Call: int64(c.at), Return: math.MaxInt64})
		case c.record.Hash != r.Hash || c.record.Index != r.Index:
			t.Errorf("%s is %x at %d, and the answer was %x at %d", payload, r.Hash, r.Index, c.record.Hash, c.record.Index)
		}
	}
	for payload, c := range l.appends {
		if _, there := places[payload]; c.record != nil && !there {
			t.Errorf("%s was acknowledged at %d and is lost", payload, c.record.Index)
		}
	}
	if result := porcupine.CheckOperationsTimeout(oneList, l.history, time.Minute); result != porcupine.Ok {
		t.Errorf("linearizable: %s", result)
	}
	must.OK(t, s.VerifyAll(ctx, "", 2, nil, nil))
	acknowledged, unknown := l.counts()
	t.Logf("%d appends acknowledged, %d unknown, %d records, %d calls; the longest silence was %v", acknowledged, unknown, len(places), len(l.history), l.silence)
}
