package keysets

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	josev4 "github.com/go-jose/go-jose/v4"

	"attestd/crypto/idtoken"
	"attestd/crypto/jose"
)

// document is a key set with one key for each name.
func document(t testing.TB, kids ...string) []byte {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	var set josev4.JSONWebKeySet
	for _, kid := range kids {
		set.Keys = append(set.Keys, josev4.JSONWebKey{Key: k.Public(), KeyID: kid})
	}
	b, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// issuer answers as the test sets it at the moment.
type issuer struct {
	mu    sync.Mutex
	body  []byte
	fresh time.Duration
	err   error
	hang  bool // until the context ends
	asked atomic.Int64
	urls  []string
}

func (i *issuer) Get(ctx context.Context, url string) (Document, error) {
	i.asked.Add(1)
	i.mu.Lock()
	body, fresh, err, hang := i.body, i.fresh, i.err, i.hang
	i.urls = append(i.urls, url)
	i.mu.Unlock()
	if hang {
		<-ctx.Done()
		return Document{}, errors.New("no whole answer in 5s")
	}
	time.Sleep(100 * time.Millisecond)
	return Document{body, fresh}, err
}

func (i *issuer) set(change func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	change()
}

var source = Source{URL: "https://issuer.example/jwks"}

func anyKey(*idtoken.KeySet) bool { return true }
func noKey(*idtoken.KeySet) bool  { return false }

// get returns the set that was checked last, for what only a set with a key has signed.
func get(ctx context.Context, s *Sets, of int64, from Source, has func(*idtoken.KeySet) bool) (last *idtoken.KeySet, err error) {
	err = s.Check(ctx, of, from, func(set *idtoken.KeySet) error {
		if last = set; !has(set) {
			return jose.ErrSignature
		}
		return nil
	})
	if errors.Is(err, jose.ErrSignature) {
		err = nil
	}
	return last, err
}

// ask asks as company 1, and demands how long that takes at most.
func ask(t *testing.T, s *Sets, most time.Duration) (*idtoken.KeySet, error) {
	t.Helper()
	since := time.Now()
	set, err := get(t.Context(), s, 1, source, anyKey)
	if took := time.Since(since); took > most {
		t.Errorf("took %s", took)
	}
	return set, err
}

// Many requests at once and one after the other cost one fetch while the set is fresh.
func TestOneFetchWhileFresh(t *testing.T) {
	t.Parallel()
	for freshness, fresh := range map[time.Duration]time.Duration{
		-1: 10 * time.Minute, 0: time.Minute, time.Second: time.Minute, 20 * time.Minute: 20 * time.Minute, 24 * time.Hour: time.Hour,
	} {
		synctest.Test(t, func(t *testing.T) {
			from := &issuer{body: document(t, "k1"), fresh: freshness}
			s := New(from)
			defer s.Close()
			var wg sync.WaitGroup
			for range maxWaiting {
				wg.Go(func() {
					if _, err := ask(t, s, 100*time.Millisecond); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			for range 100 {
				time.Sleep(fresh/100 - 2*time.Millisecond)
				if _, err := ask(t, s, 0); err != nil {
					t.Error(err)
				}
			}
			if n := from.asked.Load(); n != 1 {
				t.Errorf("%s: asked %d times", freshness, n)
			}
			time.Sleep(time.Second)
			if _, err := ask(t, s, 0); err != nil { // with the old set
				t.Error(err)
			}
			synctest.Wait()
			if n := from.asked.Load(); n != 2 {
				t.Errorf("%s: asked %d times when stale", freshness, n)
			}
		})
	}
}

// A set that cannot be fetched again, for whatever reason, counts for an hour more, at no request's
// cost, and then nothing does until it can.
func TestStaleSetCountsForAnHour(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*issuer){
		"hangs":     func(i *issuer) { i.hang = true },
		"fails":     func(i *issuer) { i.err = errors.New("its address is not public") },
		"is a page": func(i *issuer) { i.body = []byte("<html>") },
		"is empty":  func(i *issuer) { i.body = []byte(`{"keys":[]}`) },
		"grows":     func(i *issuer) { i.body = append(i.body, strings.Repeat(" ", idtoken.MaxKeySet)...) },
	} {
		synctest.Test(t, func(t *testing.T) {
			from := &issuer{body: document(t, "k1"), fresh: 10 * time.Minute}
			s := New(from)
			defer s.Close()
			since := time.Now()
			if _, err := ask(t, s, time.Second); err != nil {
				t.Fatal(err)
			}
			good := from.body
			from.set(func() { spoil(from) })
			for time.Since(since) < 70*time.Minute {
				if _, err := ask(t, s, 0); err != nil {
					t.Fatalf("%s, after %s: %v", name, time.Since(since), err)
				}
				time.Sleep(7 * time.Second)
			}
			if n := from.asked.Load(); n < 60 || n > 121 {
				t.Errorf("%s: asked %d times in an hour", name, n)
			}
			time.Sleep(20 * time.Second)
			_, err := ask(t, s, maxWait)
			var unavailable *Unavailable
			if !errors.As(err, &unavailable) {
				t.Fatalf("%s: %v", name, err)
			}
			time.Sleep(timeout)
			if state := s.State(1, source); state.Failure == "" || !state.Fetched.IsZero() {
				t.Errorf("%s: %+v", name, state)
			}
			from.set(func() { from.hang, from.err, from.body = false, nil, good })
			time.Sleep(retryAfter)
			if _, err := ask(t, s, time.Second); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if state := s.State(1, source); state.Failure != "" || state.Keys != 1 {
				t.Errorf("%s: %+v", name, state)
			}
		})
	}
}

// What no key of the set has signed starts one fetch a minute, however many requests there are, and
// is checked with the newer set. What a key of it has signed does not wait for that.
func TestUnknownKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		from := &issuer{body: document(t, "k1"), fresh: time.Hour}
		s := New(from)
		defer s.Close()
		before, err := ask(t, s, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		from.set(func() { from.body = document(t, "k1", "k2") })
		two := func(set *idtoken.KeySet) bool { return set.Len() == 2 }
		if set, err := get(t.Context(), s, 1, source, two); err != nil || set != before {
			t.Errorf("at once: %v, %v", set, err)
		}
		time.Sleep(unknownAfter)
		if set, err := get(t.Context(), s, 1, source, two); err != nil || !two(set) {
			t.Errorf("after a minute: %v, %v", set, err)
		}
		asked := from.asked.Load()
		for range 1000 {
			if _, err := get(t.Context(), s, 1, source, noKey); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if n := from.asked.Load() - asked; n < 10 || n > 17 {
			t.Errorf("asked %d times in 1000 s", n)
		}
		from.set(func() { from.hang = true })
		time.Sleep(unknownAfter)
		go get(t.Context(), s, 1, source, noKey)
		synctest.Wait()
		if set, err := ask(t, s, 0); err != nil || set.Len() != 2 {
			t.Errorf("during a fetch that hangs: %v, %v", set, err)
		}
	})
}

// Strangers who send signatures of no key, all at once and for ever, cost their issuer one fetch a
// minute, and few of them wait.
func TestUnknownKeysCauseFewFetches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		from := &issuer{body: document(t, "k1"), fresh: time.Hour}
		s := New(from)
		defer s.Close()
		if _, err := ask(t, s, time.Second); err != nil {
			t.Fatal(err)
		}
		from.set(func() { from.hang = true })
		for minute := range int64(10) {
			time.Sleep(unknownAfter + timeout)
			var waited atomic.Int64
			var all sync.WaitGroup
			for range 500 {
				all.Go(func() {
					since := time.Now()
					if _, err := get(t.Context(), s, 1, source, noKey); err != nil {
						t.Error(err)
					}
					if time.Since(since) > 0 {
						waited.Add(1)
					}
				})
			}
			synctest.Wait()
			if _, err := ask(t, s, 0); err != nil {
				t.Errorf("another company's set: %v", err)
			}
			all.Wait()
			if n := from.asked.Load() - 1; n != minute+1 || waited.Load() != maxWaiting {
				t.Errorf("asked %d times in %d minutes, and %d waited", n, minute+1, waited.Load())
			}
		}
	})
}

// A set that was not used since it went stale is fetched before it counts again, so that a key that
// was withdrawn meanwhile does not. One that cannot be fetched counts as it did.
func TestLongStaleSetIsFetchedFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		from := &issuer{body: document(t, "k1"), fresh: 10 * time.Minute}
		s := New(from)
		defer s.Close()
		before, err := ask(t, s, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		from.set(func() { from.body = document(t, "k2") })
		time.Sleep(20 * time.Minute)
		after, err := ask(t, s, time.Second)
		if err != nil || after == before {
			t.Errorf("the first request has the old set: %v", err)
		}
		from.set(func() { from.hang = true })
		time.Sleep(30 * time.Minute)
		since := time.Now()
		if set, err := ask(t, s, maxWait); err != nil || set != after || time.Since(since) != maxWait {
			t.Errorf("after %v: %v", time.Since(since), err)
		}
		time.Sleep(timeout)
		if set, err := ask(t, s, 0); err != nil || set != after {
			t.Errorf("after the attempt has failed: %v", err)
		}
	})
}

// An issuer that hangs costs its company's requests two seconds, at most eight at once, and those
// of others nothing.
func TestHangingIssuerCostsNoOtherCompany(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		from := &issuer{hang: true}
		s := New(from)
		defer s.Close()
		var waited, refused atomic.Int64
		var wg sync.WaitGroup
		for n := range 100 {
			wg.Go(func() {
				since := time.Now()
				_, err := get(t.Context(), s, 1, Source{URL: "u" + strings.Repeat("x", n%10)}, anyKey)
				var unavailable *Unavailable
				if !errors.As(err, &unavailable) || !unavailable.Soon {
					t.Errorf("%v", err)
				}
				switch time.Since(since) {
				case maxWait:
					waited.Add(1)
				case 0:
					refused.Add(1)
				default:
					t.Errorf("took %s", time.Since(since))
				}
			})
		}
		synctest.Wait()
		if n := from.asked.Load(); n != maxFetches {
			t.Errorf("%d fetches at once", n)
		}
		from.set(func() { from.hang, from.body = false, document(t, "k1") })
		if _, err := get(t.Context(), s, 2, Source{URL: "xx"}, anyKey); err != nil {
			t.Error(err)
		}
		wg.Wait()
		if waited.Load() != maxWaiting || refused.Load() != 100-maxWaiting {
			t.Errorf("%d waited, %d were refused at once", waited.Load(), refused.Load())
		}
		time.Sleep(timeout) // and then the failure answers
		from.set(func() { from.hang = true })
		if _, err := get(t.Context(), s, 1, Source{URL: "u"}, anyKey); err == nil {
			t.Error("there is a set")
		}
	})
}

// A request that is given up ends its wait.
func TestCanceledRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := New(&issuer{hang: true})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := get(ctx, s, 1, source, anyKey); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		since := time.Now()
		s.Close()
		if time.Since(since) > 0 {
			t.Error("Close waits for what hangs")
		}
	})
}

// A company has a bounded number of sets, and all have; what goes is fetched again.
func TestBoundedSets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		from := &issuer{body: document(t, "k1"), fresh: time.Hour}
		s := New(from)
		defer s.Close()
		use := func(of int64, n int) {
			if _, err := get(t.Context(), s, of, Source{URL: "u" + strings.Repeat("x", n)}, anyKey); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
		use(2, 0)
		for n := range 2 * maxSets {
			use(1, n)
		}
		if len(s.companies[1].sets) != maxSets || s.sets != maxSets+1 {
			t.Errorf("%d sets of a company, %d of all", len(s.companies[1].sets), s.sets)
		}
		asked := from.asked.Load()
		use(1, 2*maxSets-1)
		use(2, 0)
		if from.asked.Load() != asked {
			t.Error("a set that was used lately is gone")
		}
		use(1, 0)
		if from.asked.Load() != asked+1 {
			t.Error("a set that was not used is still there")
		}
		s.mu.Lock()
		s.shrink()
		s.mu.Unlock()
		if len(s.companies[1].sets) != maxSets-1 {
			t.Error("the company with the most sets keeps them all")
		}
	})
}

// Discovery takes the key set that the issuer's own metadata name, and no other's.
func TestDiscovery(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		keys := document(t, "k1")
		for name, test := range map[string]struct{ issuer, metadata, want string }{
			"good":               {"https://i.example", `{"issuer":"https://i.example","jwks_uri":"https://keys.example/jwks","x":[{}]}`, ""},
			"with a slash":       {"https://i.example/", `{"issuer":"https://i.example/","jwks_uri":"https://keys.example/jwks"}`, ""},
			"of another":         {"https://i.example", `{"issuer":"https://i.example/","jwks_uri":"https://keys.example/jwks"}`, "another issuer"},
			"without keys":       {"https://i.example", `{"issuer":"https://i.example"}`, "no jwks_uri"},
			"keys are no string": {"https://i.example", `{"issuer":"https://i.example","jwks_uri":["https://keys.example/jwks"]}`, "no jwks_uri"},
			"duplicate":          {"https://i.example", `{"issuer":"https://i.example","issuer":"https://i.example","jwks_uri":"x"}`, "not a JSON object"},
			"a page":             {"https://i.example", `<html>`, "not a JSON object"},
		} {
			s := New(documents{"https://i.example/.well-known/openid-configuration": test.metadata, "https://keys.example/jwks": string(keys)})
			_, err := get(t.Context(), s, 1, Source{Issuer: test.issuer}, anyKey)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("%s: %v", name, err)
			}
			s.Close()
		}
	})
}

type documents map[string]string

func (d documents) Get(_ context.Context, url string) (Document, error) {
	body, is := d[url]
	if !is {
		return Document{}, errors.New("status 404")
	}
	return Document{Body: []byte(body), Fresh: time.Minute}, nil
}

// counted is an issuer that counts how many fetches run at once.
type counted struct {
	*issuer
	running, most atomic.Int64
}

func (c *counted) Get(ctx context.Context, url string) (Document, error) {
	defer c.running.Add(-1)
	for n := c.running.Add(1); ; {
		if most := c.most.Load(); n <= most || c.most.CompareAndSwap(most, n) {
			return c.issuer.Get(ctx, url)
		}
	}
}

func named(sets int) (wanted []Named) {
	for n := range sets {
		wanted = append(wanted, Named{int64(n % 10), Source{URL: fmt.Sprint("https://i.example/", n)}})
	}
	return wanted
}

// Each set is fetched once, a few at a time, and then a request finds it there.
func TestWarmSetsAreThere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		from := &counted{issuer: &issuer{body: document(t, "k1"), fresh: time.Hour}}
		s := New(from)
		defer s.Close()
		wanted := named(50)
		began := time.Now()
		s.Warm(t.Context(), append(wanted, wanted...))
		if asked, most, took := from.asked.Load(), from.most.Load(), time.Since(began); asked != 50 || most > warmers || took > warmWithin+2*time.Second {
			t.Errorf("%d fetches for 50 sets, %d at once, in %v", asked, most, took)
		}
		began = time.Now()
		for _, w := range wanted {
			if set, err := get(t.Context(), s, w.Company, w.Source, anyKey); err != nil || set.Len() != 1 {
				t.Fatalf("%+v: %v", w, err)
			}
		}
		if asked := from.asked.Load(); asked != 50 || !time.Now().Equal(began) {
			t.Errorf("%d more fetches for requests, which waited %v", asked-50, time.Since(began))
		}
	})
}

// An issuer that hangs holds up neither a request for another set, nor the end. One that fails is
// asked again by the first request, at once.
func TestWarmTakesNothingFromRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		from := &issuer{hang: true}
		s := New(from)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan time.Time, 1)
		go func() {
			s.Warm(ctx, named(100))
			ended <- time.Now()
		}()
		time.Sleep(warmWithin + timeout)
		from.set(func() { from.hang, from.body, from.fresh = false, document(t, "k1"), time.Hour })
		if set, err := ask(t, s, 100*time.Millisecond); err != nil || set.Len() != 1 {
			t.Errorf("another set, beside: %v", err)
		}
		from.set(func() { from.hang = true })
		time.Sleep(time.Second)
		began := time.Now()
		cancel()
		if at := <-ended; !at.Equal(began) {
			t.Errorf("ended %v after its context", at.Sub(began))
		}
		s.Close()
		s.Warm(t.Context(), named(100)) // which starts nothing after Close
		synctest.Wait()
	})
	synctest.Test(t, func(t *testing.T) {
		from := &issuer{err: errors.New("the answer has the status 503, not 200")}
		s := New(from)
		defer s.Close()
		s.Warm(t.Context(), []Named{{1, source}})
		if state := s.State(1, source); state.Failure == "" || from.asked.Load() != 1 {
			t.Errorf("%+v after %d fetches", state, from.asked.Load())
		}
		from.set(func() { from.err, from.body, from.fresh = nil, document(t, "k1"), time.Hour })
		if set, err := ask(t, s, 100*time.Millisecond); err != nil || set.Len() != 1 || from.asked.Load() != 2 {
			t.Errorf("the first request after a failure: %v, %d fetches", err, from.asked.Load())
		}
	})
}
