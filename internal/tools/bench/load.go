package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// grace is the maximum time of a response beyond the end of a round. After it the run fails.
const grace = 20 * time.Second

// side is one server under load, with its requests and connections.
type side struct {
	child   *child
	status  int                // required status of each response
	request func(n int) []byte // returns the n-th request of a round; called concurrently
	clients []*client
}

// connect opens n keep-alive connections. The caller MUST close them with hangUp.
func connect(ctx context.Context, addr string, n int) (clients []*client, err error) {
	defer func() {
		if err != nil {
			hangUp(clients)
		}
	}()
	for range n {
		c, err := dial(ctx, addr)
		if err != nil {
			return clients, err
		}
		clients = append(clients, c)
	}
	return clients, nil
}

func hangUp(clients []*client) {
	for _, c := range clients {
		c.conn.Close()
	}
}

// limit sets a deadline for the clients' reads and writes, or ends them earlier when ctx is done.
// release undoes the latter.
func limit(ctx context.Context, clients []*client, at time.Time) (release func() bool) {
	for _, c := range clients {
		c.conn.SetDeadline(at)
	}
	return context.AfterFunc(ctx, func() {
		for _, c := range clients {
			// this wakes a client that waits for a response
			c.conn.SetDeadline(time.Unix(1, 0))
		}
	})
}

// round is the result of a load on one side.
type round struct {
	answers   int             // within the time
	elapsed   time.Duration   // of the round
	latencies []time.Duration // of these responses, unsorted
	cpu       time.Duration   // of the server for all responses, including late ones
	load      time.Duration   // of the generator, this process, for them
	all       int             // responses including late ones
	hasCPU    bool            // not available on every system
}

func (r round) perSecond() float64 { return float64(r.answers) / r.elapsed.Seconds() }

// load drives a side as a closed loop for d: each client sends its next request after the response
// to the last one. most, if not 0, is the maximum number of requests. A disk may stall for longer
// than a short round, and a slow machine may take longer for one response, so a round without a
// response is repeated with twice the time.
func (s *side) load(ctx context.Context, d time.Duration, most int) (round, error) {
	for range 5 {
		if r, err := s.once(ctx, d, most); err != nil || r.answers > 0 {
			return r, err
		}
		d *= 2
	}
	return round{}, fmt.Errorf("not one answer in %v", d/2)
}

func (s *side) once(ctx context.Context, d time.Duration, most int) (round, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	start := time.Now()
	end := start.Add(d)
	defer limit(ctx, s.clients, end.Add(grace))()
	before, hasCPU := cpuTime(s.child.pid())
	loadBefore, _ := cpuTime(os.Getpid())

	var wait sync.WaitGroup
	var late atomic.Int64
	took := make([][]time.Duration, len(s.clients))
	for i, c := range s.clients {
		wait.Go(func() {
			for n := i; most == 0 || n < most; n += len(s.clients) {
				asked := time.Now()
				if asked.After(end) {
					return
				}
				status, body, err := c.do(s.request(n))
				if err == nil && status != s.status {
					err = fmt.Errorf("answer %d instead of %d: %.200s", status, s.status, body)
				}
				if err != nil {
					cancel(err)
					return
				}
				answered := time.Now()
				if answered.After(end) {
					late.Add(1)
					return
				}
				took[i] = append(took[i], answered.Sub(asked))
			}
		})
	}
	wait.Wait()
	if err := context.Cause(ctx); err != nil {
		return round{}, err
	}
	after, _ := cpuTime(s.child.pid())
	loadAfter, _ := cpuTime(os.Getpid())
	r := round{elapsed: min(time.Since(start), d), latencies: slices.Concat(took...), hasCPU: hasCPU}
	r.cpu, r.load = after-before, loadAfter-loadBefore
	r.answers = len(r.latencies)
	r.all = r.answers + int(late.Load())
	return r, nil
}

// comparison is the result of alternating rounds for a subject and the bare server.
type comparison struct {
	ratio             float64   // median of ratios
	ratios            []float64 // of the rates of adjacent rounds
	perSecond         float64   // median
	p50, p99          time.Duration
	cpu, bareCPU      time.Duration // of the server per response
	load              time.Duration // of the generator per response of the subject
	hasCPU            bool
	barePerSecond     float64 // median
	requests, bareAll int
}

// inTurns connects both sides, compares them, and hangs up.
func inTurns(ctx context.Context, subject, reference *side, clients, rounds int, each time.Duration) (c comparison, err error) {
	for _, s := range []*side{subject, reference} {
		if s.clients, err = connect(ctx, s.child.addr, clients); err != nil {
			return comparison{}, err
		}
		defer hangUp(s.clients)
	}
	return compare(ctx, subject, reference, rounds, each)
}

// compare loads both sides in turns, rounds times each, after a short warm-up. The order
// alternates, so that a machine that becomes slower or faster favors neither.
func compare(ctx context.Context, subject, bare *side, rounds int, each time.Duration) (comparison, error) {
	for _, s := range []*side{bare, subject} {
		if _, err := s.load(ctx, each/4, 0); err != nil {
			return comparison{}, err
		}
	}
	var c comparison
	var rates, bareRates []float64
	var latencies []time.Duration
	for i := range rounds {
		var results [2]round // of subject and bare
		for turn := range 2 {
			who := (i + turn + 1) % 2
			var err error
			if results[who], err = []*side{subject, bare}[who].load(ctx, each, 0); err != nil {
				return comparison{}, err
			}
		}
		mine, theirs := results[0], results[1]
		c.ratios = append(c.ratios, mine.perSecond()/theirs.perSecond())
		rates = append(rates, mine.perSecond())
		bareRates = append(bareRates, theirs.perSecond())
		latencies = append(latencies, mine.latencies...)
		c.cpu, c.load, c.requests = c.cpu+mine.cpu, c.load+mine.load, c.requests+mine.all
		c.bareCPU, c.bareAll = c.bareCPU+theirs.cpu, c.bareAll+theirs.all
		c.hasCPU = mine.hasCPU && theirs.hasCPU
	}
	slices.Sort(latencies)
	c.ratio, c.perSecond, c.barePerSecond = median(c.ratios), median(rates), median(bareRates)
	c.p50, c.p99 = percentile(latencies, 50), percentile(latencies, 99)
	c.cpu /= time.Duration(c.requests)
	c.load /= time.Duration(c.requests)
	c.bareCPU /= time.Duration(c.bareAll)
	return c, nil
}
