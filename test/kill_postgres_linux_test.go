package test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store/postgres/pgtest"
)

// One of two servers on one database is killed, or halted, in the middle of its batches. Its chain
// is free for the other one at once, or after some seconds. When a halted one wakes it does no
// harm: it answers what is true, writes nothing on heads that have moved, and goes on serving.
func TestKilledAndHaltedServersOfPostgreSQL(t *testing.T) {
	testenv.Needs(t, testenv.Slow, testenv.Plain)
	t.Parallel()
	rounds := 2
	if testenv.Night() {
		rounds = 20
	}
	db := pgtest.NewCluster(t).URL()
	other := serve(t, db, "--rate-limits", "off")
	c := other.register(t, "acme")
	l := &pgLedger{t: t, answers: map[string]pgAnswer{}}
	var slowest time.Duration
	for round := range rounds {
		for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP} {
			s := serve(t, db, "--rate-limits", "off")
			stop := l.run(fmt.Sprint(signal, round), c.at(s), c)
			l.await(s.URL, 50)
			l.await(other.URL, 50)
			must.OK(t, s.cmd.Process.Signal(signal))
			// 20 of 8 callers: some were begun after the signal
			slowest = max(slowest, l.await(other.URL, 20))
			if signal == syscall.SIGSTOP {
				// shorter and longer than its transactions last
				until := time.Now().Add(time.Duration(round%3) * 2500 * time.Millisecond)
				for time.Now().Before(until) {
					l.await(other.URL, 20)
				}
				must.OK(t, s.cmd.Process.Signal(syscall.SIGCONT))
				l.await(s.URL, 50)
			}
			stop()
			if signal == syscall.SIGSTOP {
				must.OK(t, s.interrupt())
			}
		}
	}
	l.check(c)
	if _, err := attestd(t, "verify", "--db", db); err != nil {
		t.Error(err)
	}
	t.Logf("the longest wait for the other server was %v", slowest)
	if slowest > 15*time.Second {
		t.Error("chains are not free in time")
	}
}

// pgLedger is what callers were answered.
type pgLedger struct {
	t       *testing.T
	mu      sync.Mutex
	answers map[string]pgAnswer // by payload
	served  map[string]int      // records acknowledged by each server since run
}

type pgAnswer struct {
	index   int64
	status  int // 0: none came
	unknown bool
}

// run has eight callers at each server append until they are stopped.
func (l *pgLedger) run(name string, servers ...*client) (stop func()) {
	l.mu.Lock()
	l.served = map[string]int{}
	l.mu.Unlock()
	ended := make(chan struct{})
	var callers sync.WaitGroup
	for i := range 8 * len(servers) {
		c := servers[i%len(servers)]
		callers.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-ended:
					return
				default:
					l.attest(c, fmt.Sprintf("%s-%d-%d.", name, i, n))
				}
			}
		})
	}
	return func() { close(ended); callers.Wait() }
}

func (l *pgLedger) attest(c *client, payload string) {
	status, answer, err := c.send("POST", "/v1/attest", fmt.Sprintf(`{"agentId":"bot","actionType":"build","payload":{"n":%q,"fill":%q}}`, payload, strings.Repeat("x", 2_000)))
	a := pgAnswer{status: status}
	if err != nil {
		a.status = 0
		time.Sleep(10 * time.Millisecond) // of a server that is gone
	}
	var result struct {
		Index int64
		Code  string
	}
	_ = json.Unmarshal(answer, &result)
	a.index, a.unknown = result.Index, result.Code == "OUTCOME_UNKNOWN"
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answers[payload] = a
	if status == http.StatusOK || status == http.StatusCreated {
		l.served[c.url]++
	} else if err == nil && status != http.StatusServiceUnavailable {
		l.t.Errorf("%d: %.300s", status, answer)
	}
}

// await waits until a server has acknowledged so many more.
func (l *pgLedger) await(url string, more int) time.Duration {
	l.t.Helper()
	count := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.served[url]
	}
	begun, from := time.Now(), count()
	for count() < from+more {
		if time.Since(begun) > patience {
			l.t.Fatalf("%d records in %v", count()-from, patience)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return time.Since(begun)
}

// check reports whether the chain agrees with the answers: acknowledged records are at their index,
// none is there twice, and refused ones are absent. A record whose outcome is unknown, or that had
// no answer, occurs at most once.
func (l *pgLedger) check(c *client) {
	l.t.Helper()
	var chain struct {
		Records []struct {
			Payload struct{ Payload struct{ N string } }
		}
	}
	c.call(l.t, 200, "GET", "/v1/chain", "", &chain)
	places := map[string]int64{}
	for index := range chain.Records {
		payload := chain.Records[index].Payload.Payload.N
		if at, twice := places[payload]; twice || payload == "" {
			l.t.Fatalf("%q is there at %d and at %d", payload, at, index)
		}
		places[payload] = int64(index)
	}
	counts := map[string]int{}
	for payload, a := range l.answers {
		at, there := places[payload]
		switch {
		case a.status == 0 || a.unknown:
			counts["of unknown outcome"]++
		case a.status == http.StatusServiceUnavailable:
			if counts["refused"]++; there {
				l.t.Errorf("%s was refused and is there at %d", payload, at)
			}
		default:
			if counts["acknowledged"]++; !there || at != a.index {
				l.t.Errorf("%s was acknowledged at %d and is at %d (there: %v)", payload, a.index, at, there)
			}
		}
	}
	l.t.Logf("%d records: %v", len(places), counts)
}
