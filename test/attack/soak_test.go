package attack

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"attestd/internal/harness"
)

const (
	tenants   = 4
	attesters = 64
)

// customer is a company with what it was acknowledged.
type customer struct {
	id, key             string
	client, secret      string // OAuth
	acknowledged, taken atomic.Int64
}

// load is the state of a soak test.
type load struct {
	*run
	addr      string
	tenants   [tenants]*customer
	signers   map[int]*signer // by attester
	end       time.Time
	latencies [attesters][]time.Duration
	asked     atomic.Int64 // requests other than attests
	streamed  atomic.Int64 // messages
	behind    atomic.Int64 // stream clients that fell behind
}

var (
	soakTime = flag.Duration("soak-time", 0, "how `long` TestSoak is; 14m, or 12s in its short form, when 0")
	soakRate = flag.Int("soak-rate", 0, "`records` a second of TestSoak; 5000, or 2000 in its short form, when 0")
)

// TestSoak runs a server at a steady rate of records, with all other kinds of requests, and checks
// that its state at the end is as after a third of the time: memory, file descriptors, and chains
// that are valid and as long as acknowledged. The whole form takes some 4 GB in the temporary
// folder. In the short form a rate that the machine cannot reach is no failure.
func TestSoak(t *testing.T) {
	besieged(t, func(ctx context.Context, r *run) error {
		length, rate := cmp.Or(*soakTime, 14*time.Minute), cmp.Or(*soakRate, 5000)
		if short() {
			length, rate = cmp.Or(*soakTime, 12*time.Second), cmp.Or(*soakRate, 2000)
		}
		return soak(ctx, r, length, rate)
	})
}

func soak(ctx context.Context, r *run, length time.Duration, rate int) error {
	s, db, err := r.Lab.ServeNew(ctx, "--rate-limits", "off")
	if err != nil {
		return err
	}
	defer func() { _ = s.Stop() }()
	k := &load{run: r, addr: s.Addr}
	if err := k.register(); err != nil {
		return err
	}
	start := time.Now()
	k.end = start.Add(length)
	interrupted := ctx
	ctx, cancel := context.WithDeadline(ctx, k.end)
	defer cancel()
	var jobs sync.WaitGroup
	for who := range attesters {
		jobs.Go(func() { k.attest(ctx, who, rate) })
	}
	for _, job := range []func(context.Context){k.follow(k.tenants[0]), k.follow(k.tenants[1]), k.follow(nil), k.stall, k.pages, k.pages, k.proofs, k.verifies, k.tokens, k.passports} {
		jobs.Go(func() { job(ctx) })
	}
	memory := k.watch(ctx, s.PID(), start, length)
	jobs.Wait()
	elapsed := time.Since(start)
	if err := errors.Join(interrupted.Err(), s.Running()); err != nil {
		return err
	}
	memory.judge(r)
	k.summary(elapsed, rate)
	return k.finish(r.Lab, s, db)
}

// register registers the companies, each with an agent and an OAuth client.
func (k *load) register() error {
	c := &harness.Client{Addr: k.addr}
	defer c.Close()
	for i := range k.tenants {
		t := &customer{id: fmt.Sprintf("tenant-%d", i)}
		k.tenants[i] = t
		var err error
		if t.key, err = c.Register(t.id); err != nil {
			return err
		}
		var made struct{ ClientID, ClientSecret string }
		err = errors.Join(
			c.RegisterBot(t.key),
			c.Call(201, harness.Request{Method: "POST", Path: "/v1/oauth/clients", Key: t.key}, &made))
		if err != nil {
			return err
		}
		t.client, t.secret = made.ClientID, made.ClientSecret
	}
	k.signers = map[int]*signer{}
	for who := range attesters {
		if who/tenants%signEvery != 0 {
			continue
		}
		var err error
		if k.signers[who], err = newSigner(c, k.tenants[who%tenants], who); err != nil {
			return err
		}
	}
	return nil
}

// attest is one client that appends at its share of the rate. A latency is measured from when the
// request was due, so that a server that delays all clients does not look better for it.
func (k *load) attest(ctx context.Context, who, rate int) {
	c := &harness.Client{Addr: k.addr}
	defer c.Close()
	t := k.tenants[who%tenants]
	every := time.Second * attesters / time.Duration(rate)
	due := time.Now().Add(every * time.Duration(who) / attesters)
	request := harness.Request{Method: "POST", Path: "/v1/attest", Key: t.key,
		Body: fmt.Sprintf(`{"agentId":"bot-%d","actionType":"tool.call","payload":{"tool":"search","query":"weather in the city of a client","n":%d,"ok":true}}`, who, who)}
	signs, last := k.signers[who], false
	for !last {
		time.Sleep(time.Until(due)) // the client is paced
		if last = ctx.Err() != nil; last && signs == nil {
			return
		}
		if signs != nil {
			var err error
			if request, err = signs.request(last); err != nil {
				k.Errorf("a statement: %v", err)
				return
			}
		}
		// the machine is too slow, which shows in the achieved rate
		if late := time.Since(due); late > time.Second {
			due = due.Add(late)
		}
		var record struct{ Index int64 }
		if err := c.Call(201, request, &record); err != nil {
			k.Errorf("an append: %v", err)
			return
		}
		k.latencies[who] = append(k.latencies[who], time.Since(due))
		t.acknowledged.Add(1)
		for highest := t.taken.Load(); record.Index+1 > highest && !t.taken.CompareAndSwap(highest, record.Index+1); {
			highest = t.taken.Load()
		}
		due = due.Add(every)
	}
}

// summary reports the number of requests and the latencies.
func (k *load) summary(elapsed time.Duration, rate int) {
	all := slices.Concat(k.latencies[:]...)
	if len(all) == 0 {
		k.Errorf("not one append")
		return
	}
	slices.Sort(all)
	at := func(percent int) int { return int(all[(len(all)-1)*percent/100].Microseconds()) }
	reached := int(float64(len(all)) / elapsed.Seconds())
	k.Count(len(all), "records")
	k.Count(reached, "a second")
	k.Count(at(50), "µs p50")
	k.Count(at(99), "µs p99")
	k.Count(int(k.asked.Load()), "other requests")
	k.Count(int(k.streamed.Load()), "messages streamed")
	k.Count(int(k.behind.Load()), "stream clients that fell behind")
	if !short() && reached < rate*95/100 {
		k.Errorf("only %d records a second were reached, not %d", reached, rate)
	}
}

// finish compares the chains with what was acknowledged, in the server and then in its file.
func (k *load) finish(lab *harness.Lab, s *harness.Service, db string) error {
	ctx := context.Background() // the time of the load is over; each step has its own limit
	c := &harness.Client{Addr: k.addr, Wait: 10 * time.Minute}
	for _, t := range k.tenants {
		k.valid(c, t)
		if n := t.acknowledged.Load(); n != t.taken.Load() {
			k.Errorf("%s: %d records were acknowledged, the last index is %d", t.id, n, t.taken.Load()-1)
		}
	}
	if err := k.sessions(c); err != nil {
		return err
	}
	c.Close()
	time.Sleep(time.Second) // until the server has noticed that its clients are gone
	goroutines, err := s.Dump()
	if err != nil {
		return err
	}
	k.Count(goroutines, "goroutines left")
	if goroutines > maxGoroutines {
		k.Errorf("when all clients are gone, %d goroutines are left", goroutines)
	}
	verdicts, err := lab.Verify(ctx, db)
	if err != nil {
		return err
	}
	for _, t := range k.tenants {
		if v := verdicts[t.id]; v.Records != t.acknowledged.Load() {
			k.Errorf("%s: %d records were acknowledged, the file says %+v", t.id, t.acknowledged.Load(), v)
		}
	}
	return nil
}

// valid verifies a tenant's chain.
func (k *load) valid(c *harness.Client, t *customer) {
	a, err := c.Do(harness.Request{Method: "GET", Path: "/v1/verify", Key: t.key})
	var verdict struct {
		Valid      bool
		MerkleRoot string
	}
	if err == nil {
		err = json.Unmarshal(a.Body, &verdict)
	}
	if err != nil || !verdict.Valid {
		k.Errorf("verify %s: %d %.300s %v", t.id, a.Status, a.Body, err)
	}
}
