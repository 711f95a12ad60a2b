package jobs

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"attestd/internal/sleep"
	"attestd/internal/testenv"
)

// besiege occupies places for attempts of companies from..to at as many endpoints each, which
// answer after 14 s, again and again until ctx is done.
func besiege(ctx context.Context, p *places, from, to int64, endpoints int) {
	for company := from; company < to; company++ {
		for range endpoints {
			go func() {
				for {
					give, ok := p.acquire(ctx, company, false)
					if !ok {
						return
					}
					_ = sleep.For(ctx, 14*time.Second)
					give()
				}
			}()
		}
	}
}

// However many slow endpoints some companies have, a delivery of another company waits for none of
// them; and where very many companies have such, those that answer fast have places still, and the
// others wait for one round at most.
func TestSlowWebhooksDelayNoOthers(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	for _, test := range []struct {
		name              string
		companies         int64
		endpoints         int
		mostFast, mostNew time.Duration
	}{
		{"40 companies with 16 endpoints each", 40, 16, 0, 0},
		// 500 companies take turns at 192 places
		{"500 companies with 16 endpoints each", 500, 16, 0, 42 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				p := newPlaces()
				besiege(ctx, p, 1, test.companies, test.endpoints)
				synctest.Wait()
				for range 20 {
					for _, is := range []struct {
						fast bool
						most time.Duration
					}{{true, test.mostFast}, {false, test.mostNew}} {
						began := time.Now()
						give, ok := p.acquire(ctx, 1000, is.fast)
						if waited := time.Since(began); !ok || waited > is.most {
							t.Errorf("an endpoint that is fast (%v) waits %v, want %v at most", is.fast, waited, is.most)
						}
						give()
					}
					time.Sleep(3 * time.Second)
				}
				cancel()
				synctest.Wait()
				if p.free != maxDeliveries-fastPlaces || p.fast != fastPlaces || len(p.held)+len(p.waiting)+len(p.turns) != 0 {
					t.Errorf("left: %d and %d places, %d holders, %d that wait", p.free, p.fast, len(p.held), len(p.waiting))
				}
			})
		})
	}
}

// A company has four places at a time, and its own endpoints take turns at them, fast or not.
func TestWebhookConcurrencyPerCompany(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPlaces()
		var order []int
		var gives []func()
		for i := range 7 {
			go func() {
				give, ok := p.acquire(t.Context(), 1, i%2 == 0)
				if ok {
					order, gives = append(order, i), append(gives, give)
				}
			}()
			synctest.Wait()
		}
		if len(order) != companyPlaces {
			t.Fatalf("%d places", len(order))
		}
		gone, cancel := context.WithCancel(t.Context())
		go func() {
			if _, ok := p.acquire(gone, 1, true); ok {
				t.Error("a place for one that has gone")
			}
		}()
		synctest.Wait()
		cancel()
		synctest.Wait()
		for i := 0; i < 7; i++ {
			gives[i]()
			synctest.Wait()
		}
		for i, n := range order {
			if n != i {
				t.Fatalf("order %v", order)
			}
		}
	})
}
