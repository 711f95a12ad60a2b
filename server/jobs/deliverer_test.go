package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"attestd/chain"
	"attestd/internal/sleep"
	"attestd/internal/testenv"
	"attestd/server/limit"
	"attestd/server/webhook"
	"attestd/store"
	"attestd/store/db"
	"attestd/store/feed"
	"attestd/store/storetest"
)

// attempts is a network to endpoints, and records what is sent.
type attempts struct {
	mu      sync.Mutex
	made    []attempted
	outcome func(url string, m webhook.Message) webhook.Outcome
	hangs   bool // endpoints accept no more than the connection
}

type attempted struct {
	at   time.Time
	url  string
	id   string
	keys int
}

func (a *attempts) Send(ctx context.Context, url string, m webhook.Message, by ...webhook.Keys) webhook.Outcome {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.made = append(a.made, attempted{time.Now(), url, m.ID, len(by)})
	if a.hangs {
		a.mu.Unlock()
		<-ctx.Done()
		a.mu.Lock()
		return webhook.Outcome{Failure: "hangs"}
	}
	return a.outcome(url, m)
}

// take returns what was sent since the last call.
func (a *attempts) take() []attempted {
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	made := a.made
	a.made = nil
	return made
}

func (a *attempts) answer(o webhook.Outcome) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.outcome = func(string, webhook.Message) webhook.Outcome { return o }
}

// delivering is a store in a bubble whose records are delivered.
type delivering struct {
	*attempts
	t     *testing.T
	path  string
	store *store.Store
	feed  *feed.Feed
	by    store.Caller
	*Deliverer
	killed *atomic.Bool // from now on nothing that it does is saved
	halt   func()       // stops deliveries
}

func deliver(t *testing.T, f func(t *testing.T, d *delivering)) {
	t.Helper()
	t.Parallel()
	schema, err := os.ReadFile("../../schema.sql")
	check(t, err)
	storetest.NotOnPostgres(t, "the clock of this test stands still while a server is asked")
	path := storetest.New(t)
	synctest.Test(t, func(t *testing.T) {
		s, err := store.Open(t.Context(), path, string(schema), store.Options{})
		check(t, err)
		d := &delivering{attempts: &attempts{}, t: t, path: path, store: s, feed: feed.New(s)}
		d.answer(webhook.Outcome{Status: 204})
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx, store.RunOptions{Grown: d.feed.Grown}) }()
		company, _, err := s.Companies.Create(ctx, "acme", nil, time.Now())
		check(t, err)
		d.by = store.Caller{Company: company, Role: store.Admin, At: time.Now()}
		d.start()
		f(t, d)
		d.halt()
		cancel()
		check(t, <-ended)
		check(t, s.Close())
	})
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// start delivers, as a start of the service does.
func (d *delivering) start() {
	worker := NewDeliverer(d.store, d.feed, d.attempts, limit.Webhooks(100), slog.New(slog.DiscardHandler))
	d.Deliverer, d.killed = worker, new(atomic.Bool)
	killed := d.killed
	worker.saver = newProgress(func(ctx context.Context, duty *db.Held, moved map[string]store.Progress) error {
		if killed.Load() {
			return errors.New("killed")
		}
		return d.store.Webhooks.SaveProgress(ctx, duty, moved)
	}, worker.log)
	go func() {
		if err := worker.Run(context.Background()); err != nil {
			d.t.Errorf("run: %v", err)
		}
	}()
	d.halt = sync.OnceFunc(worker.Close)
}

// webhook makes one.
func (d *delivering) webhook(url string) string {
	d.t.Helper()
	h, err := d.store.Webhooks.Create(d.t.Context(), d.by, store.Webhook{URL: url}, StoredSecret(webhook.NewKeys()), 100)
	check(d.t, err)
	d.Apply(d.by, h.ID)
	return h.ID
}

func (d *delivering) append(n int) {
	d.t.Helper()
	for range n {
		payload := []byte(`{"actionType":"x","agentId":"bot","companyId":"acme","payload":1}`)
		_, err := d.store.Append(d.t.Context(), chain.Draft{Chain: d.by.Company.Chain, Payload: payload, Canonical: payload})
		check(d.t, err)
	}
}

func (d *delivering) state(id string) store.Webhook {
	d.t.Helper()
	h, err := d.store.Webhooks.Get(d.t.Context(), d.by, id)
	check(d.t, err)
	return h
}

// An endpoint that accepts nothing is tried ten times over four days. Then the service switches it
// off, with a control record of its own. A restart in between changes no time and no ID. Other
// endpoints get everything at once.
func TestRetrySchedule(t *testing.T) {
	testenv.Needs(t, testenv.Slow, testenv.NotRaced)
	deliver(t, func(t *testing.T, d *delivering) {
		d.outcome = func(url string, _ webhook.Message) webhook.Outcome {
			if strings.Contains(url, "bad") {
				return webhook.Outcome{Status: 500}
			}
			return webhook.Outcome{Status: 200}
		}
		bad := d.webhook("https://bad.example/")
		d.webhook("https://good.example/")
		d.append(2)
		began := time.Now()
		synctest.Wait()
		time.Sleep(3 * time.Hour) // four attempts at the bad one
		d.halt()
		d.start()
		time.Sleep(4 * 24 * time.Hour)
		var gaps []time.Duration
		good, last, ids := 0, began, map[string]bool{}
		for _, a := range d.take() {
			if strings.Contains(a.url, "good") {
				if good++; a.at.Sub(began) > time.Second {
					t.Errorf("the good endpoint waits %v", a.at.Sub(began))
				}
				continue
			}
			gaps, last = append(gaps, a.at.Sub(last)), a.at
			ids[a.id] = true
		}
		want := []time.Duration{0, 5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour}
		if good != 2 || len(ids) != 1 || len(gaps) != len(want) {
			t.Fatalf("%d messages to the good endpoint; to the bad one %d, of %d IDs", good, len(gaps), len(ids))
		}
		for i, gap := range gaps {
			if gap < want[i].Truncate(time.Millisecond) || gap > want[i]+want[i]/10+10*time.Millisecond {
				t.Errorf("attempt %d after %v, want %v and up to a tenth more", i, gap, want[i])
			}
		}
		if h := d.state(bad); h.DisabledReason != store.WebhookFailing || h.Next != 0 {
			t.Errorf("at last: %+v", h)
		}
		var texts []string
		check(t, d.store.Records(t.Context(), d.by.Company.Control.Chain, 0, 100, func(r *chain.Record) error {
			if strings.Contains(string(r.Payload), "webhook.disabled") {
				texts = append(texts, string(r.Payload))
			}
			return nil
		}))
		if len(texts) != 1 || !strings.Contains(texts[0], `"by":null`) || !strings.Contains(texts[0], `"reason":"failing"`) || !strings.Contains(texts[0], bad) {
			t.Errorf("control records: %q", texts)
		}

		// Switched on again it goes on with the record at which it failed.
		d.answer(webhook.Outcome{Status: 200})
		_, _, err := d.store.Webhooks.Enable(t.Context(), d.by, bad)
		check(t, err)
		d.Apply(d.by, bad)
		if sent := d.take(); len(sent) != 2 || !ids[sent[0].id] {
			t.Errorf("switched on again: %+v", sent)
		}
	})
}

// An endpoint that asks for a pause gets one, of at most a day. A missing answer is a failure like
// others.
func TestRetryAfterIsHonoured(t *testing.T) {
	testenv.Needs(t, testenv.Slow, testenv.NotRaced)
	deliver(t, func(t *testing.T, d *delivering) {
		d.webhook("https://hooks.example/")
		for i, c := range []struct {
			outcome webhook.Outcome
			waits   time.Duration
		}{
			{webhook.Outcome{Status: 503, RetryAfter: time.Minute}, time.Minute},
			{webhook.Outcome{Status: 429, RetryAfter: 48 * time.Hour}, 24 * time.Hour},
			{webhook.Outcome{Failure: "no answer"}, 5 * time.Second},
			{webhook.Outcome{Status: 302}, 5 * time.Second},
		} {
			d.answer(c.outcome)
			d.append(1)
			synctest.Wait()
			d.answer(webhook.Outcome{Status: 204})
			time.Sleep(25 * time.Hour)
			sent := d.take()
			if len(sent) != 2 || sent[0].id != sent[1].id {
				t.Fatalf("case %d: %+v", i, sent)
			}
			if waited := sent[1].at.Sub(sent[0].at); waited < c.waits.Truncate(time.Millisecond) || waited > c.waits+c.waits/10 {
				t.Errorf("case %d: it waits %v", i, waited)
			}
		}
	})
}

// However often deliveries end without a word, as by a kill, nothing is missed, records come in
// order, and what comes twice has the ID that it had.
func TestWebhooksMissNothingOverCrashes(t *testing.T) {
	testenv.Concurrent(t)
	deliver(t, func(t *testing.T, d *delivering) {
		d.webhook("https://hooks.example/")
		const crashes, each = 5, 20
		ids := map[int]string{}
		next, again := 0, 0
		for range crashes {
			d.append(each)
			time.Sleep(1700 * time.Millisecond) // so that some of it was saved, and some was not
			d.append(each)
			synctest.Wait()
			d.killed.Store(true)
			d.halt()
			d.start()
			for _, a := range d.take() {
				var index int
				parts := strings.Split(a.id, "_")
				_, err := fmt.Sscan(parts[2], &index)
				check(t, err)
				if index > next || ids[index] != "" && ids[index] != a.id {
					t.Fatalf("after record %d and %q comes %s", next-1, ids[index], a.id)
				}
				if ids[index] != "" {
					again++
				}
				next, ids[index] = max(next, index+1), a.id
			}
		}
		if next != crashes*2*each || again == 0 || again > crashes*each {
			t.Errorf("%d records came, %d of them twice", next, again)
		}
	})
}

// While many records come, all webhooks together are sent so much and no more; afterwards they
// catch up at once.
func TestPace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var p Pace
		sent := func(d time.Duration) (n int) {
			var group sync.WaitGroup
			var mu sync.Mutex
			end := time.Now().Add(d)
			for range 10 {
				group.Go(func() {
					for time.Now().Before(end) {
						check(t, p.wait(t.Context()))
						time.Sleep(time.Millisecond) // the endpoint's answer
						mu.Lock()
						n++
						mu.Unlock()
					}
				})
			}
			group.Wait()
			return n
		}
		if n := sent(time.Second); n < 9000 {
			t.Errorf("%d a second while nothing comes", n)
		}
		// records in 10 ms, and deliveries in a second
		for batch, most := range map[int]int{64: 128, 6: 50} {
			ctx, stop := context.WithCancel(t.Context())
			go func() {
				for sleep.For(ctx, 10*time.Millisecond) == nil {
					p.Appended(batch, time.Now())
				}
			}()
			time.Sleep(time.Second)
			if n := sent(time.Second); n > most+20 || n < most-20 {
				t.Errorf("%d a second while %d records come, want %d", n, 100*batch, most)
			}
			stop()
			time.Sleep(busyFor)
		}
		if n := sent(time.Second); n < 9000 {
			t.Errorf("%d a second afterwards", n)
		}
	})
}

// A change waits for no endpoint that hangs: changes are made one after the other, those of all
// companies.
func TestChangeDoesNotWaitForHangingEndpoint(t *testing.T) {
	deliver(t, func(t *testing.T, d *delivering) {
		d.hangs = true
		id := d.webhook("https://hooks.example/")
		d.append(1)
		if sent := d.take(); len(sent) != 1 {
			t.Fatalf("%+v", sent)
		}
		_, err := d.store.Webhooks.Disable(t.Context(), d.by, id, store.WebhookRequested)
		check(t, err)
		before := time.Now()
		if d.Apply(d.by, id); time.Since(before) > 0 {
			t.Errorf("it took %v", time.Since(before))
		}
		if sent := d.take(); len(sent) != 0 || d.state(id).Failed != 0 {
			t.Errorf("%+v, %+v", sent, d.state(id))
		}
	})
}

// A former secret signs for 24 hours, and not a message longer.
func TestFormerSecret(t *testing.T) {
	testenv.Needs(t, testenv.Slow, testenv.NotRaced)
	deliver(t, func(t *testing.T, d *delivering) {
		id := d.webhook("https://hooks.example/")
		_, err := d.store.Webhooks.RotateSecret(t.Context(), d.by, id, StoredSecret(webhook.NewKeys()), time.Now().Add(FormerSecret))
		check(t, err)
		d.Apply(d.by, id)
		for _, want := range []int{2, 2, 1} {
			d.append(1)
			if sent := d.take(); len(sent) != 1 || sent[0].keys != want {
				t.Errorf("%+v, want one signed by %d pairs", sent, want)
			}
			time.Sleep(FormerSecret - time.Minute)
		}
	})
}

// Where it cannot be recorded that a webhook is switched off it is not: the next look tries again.
func TestWebhookDisablingRequiresControlRecord(t *testing.T) {
	testenv.Concurrent(t)
	deliver(t, func(t *testing.T, d *delivering) {
		id := d.webhook("https://hooks.example/")
		d.halt()
		d.append(1)
		d.store.StopWrites(errors.New("as after a rollback"))
		d.answer(webhook.Outcome{Status: 410})
		d.start()
		time.Sleep(3*scanEvery + time.Second)
		if sent := d.take(); len(sent) != 4 || d.state(id).DisabledAt != "" {
			t.Errorf("%d attempts; %+v", len(sent), d.state(id))
		}
	})
}

// A webhook whose position is beyond the end of the chain, as only a changed file makes it,
// continues with what is appended from then on.
func TestWebhookBeyondTheChain(t *testing.T) {
	testenv.Concurrent(t)
	deliver(t, func(t *testing.T, d *delivering) {
		id := d.webhook("https://hooks.example/")
		d.append(2)
		synctest.Wait()
		d.halt()
		d.take()
		check(t, d.store.Webhooks.SaveProgress(t.Context(), nil, map[string]store.Progress{id: {Next: 50}}))
		d.start()
		time.Sleep(5 * time.Second)
		d.append(1)
		time.Sleep(5 * time.Second)
		if sent := d.take(); len(sent) != 1 || !strings.Contains(sent[0].id, "_2_") {
			t.Errorf("%+v", sent)
		}
	})
}
