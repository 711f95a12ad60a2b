package test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store/storetest"
)

// A server that is killed after the commit and before the answer leaves its callers in doubt. Each
// caller retries with its idempotency key, one of them 64 times at once: every action is in the
// chain once, and a caller that had an answer gets the same one.
func TestRetriesAfterAKill(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	t.Parallel()
	rounds := testenv.Rounds(3, 6)
	db := storetest.New(t)
	s := serve(t, db, "--rate-limits", "off")
	c := s.register(t, "acme")
	inDoubt, replayed := 0, 0
	for round := range rounds {
		action := func(who, n int) string {
			return fmt.Sprintf(`{"records":[{"agentId":"bot","actionType":"once","payload":"%d/%d/%d","idempotencyKey":"%[1]d/%d/%d"}]}`, round, who, n)
		}
		const clients = 32
		var last [clients]string // request whose answer was lost
		var mu sync.Mutex
		answers := map[string]string{} // by request
		var left atomic.Int64
		left.Store(100 + rand.Int64N(600))
		full := make(chan struct{})
		var wg sync.WaitGroup
		for who := range clients {
			wg.Go(func() {
				for n := 0; ; n++ {
					if left.Add(-1) == 0 {
						close(full)
					}
					status, answer, err := c.send("POST", "/v1/attest/batch", action(who, n))
					if err != nil {
						last[who] = action(who, n)
						return
					}
					if status != 201 {
						t.Errorf("%d: %s", status, answer)
						return
					}
					mu.Lock()
					answers[action(who, n)] = string(answer)
					mu.Unlock()
				}
			})
		}
		select {
		case <-full:
		case <-time.After(patience):
			t.Error("the clients have come to a halt")
		}
		must.OK(t, s.kill())
		wg.Wait()

		s = serve(t, db, "--rate-limits", "off")
		c = c.at(s)
		before := len(chainOf(t, c))
		for who, request := range last {
			if request == "" {
				continue
			}
			inDoubt++
			times := 2
			if who == 0 {
				times = 64
			}
			same := make([]string, times)
			for i := range same {
				wg.Go(func() { same[i] = string(c.call(t, 201, "POST", "/v1/attest/batch", request, nil)) })
			}
			wg.Wait()
			for _, answer := range same {
				if answer != same[0] {
					t.Fatalf("two answers to one request:\n%s\n%s", answer, same[0])
				}
			}
		}
		for request, answer := range answers {
			if again := string(c.call(t, 201, "POST", "/v1/attest/batch", request, nil)); again != answer {
				t.Fatalf("answered once as %s, and then as %s", answer, again)
			}
		}
		seen := map[string]int{}
		records := chainOf(t, c)
		replayed += clients - (len(records) - before)
		for _, payload := range records {
			seen[payload]++
		}
		for payload, times := range seen {
			if times != 1 {
				t.Errorf("%s is in the chain %d times", payload, times)
			}
		}
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
	}
	t.Logf("%d appends without an answer, %d of them were in the chain", inDoubt, replayed)
	must.OK(t, s.interrupt())
	verifyAcme(t, db)
}

// chainOf is the payloads of the chain.
func chainOf(t *testing.T, c *client) (payloads []string) {
	t.Helper()
	var all struct {
		Records []struct {
			Payload struct{ Payload json.RawMessage }
		}
	}
	c.call(t, 200, "GET", "/v1/chain", "", &all)
	for _, r := range all.Records {
		payloads = append(payloads, string(r.Payload.Payload))
	}
	return payloads
}
