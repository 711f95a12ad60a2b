package spool_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"attestd/internal/must"
	"attestd/internal/notary"
	"attestd/internal/testenv"
	"attestd/sdk/attestd"
	"attestd/sdk/attestd/spool"
	"attestd/server/limit"
)

// limited is a service with the real limiter, whose limits are the default ones.
type limited struct {
	mu       sync.Mutex
	limiter  *limit.Limiter
	most     int
	sent     map[string]int // by key: how often a request that was carried out had it
	order    []string
	refused  int // requests
	claimed  map[string]bool
	requests int
}

func newLimited(t *testing.T) *limited {
	l, err := limit.Parse("attest=100")
	must.OK(t, err)
	made := &limited{limiter: limit.NewLimiter(l), sent: map[string]int{}, claimed: map[string]bool{}}
	made.most = made.limiter.Most(limit.Attest)
	return made
}

func (s *limited) RoundTrip(r *http.Request) (*http.Response, error) {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	h := http.Header{"X-Request-Id": {"r"}}
	answer := func(status int, body string) (*http.Response, error) {
		if status >= 400 {
			s.refused++
		}
		return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
	}
	var body struct {
		Records []struct{ ActionType, IdempotencyKey string }
	}
	batch := strings.HasSuffix(r.URL.Path, "/batch")
	if batch {
		err = json.Unmarshal(text, &body)
	} else {
		body.Records = append(body.Records, struct{ ActionType, IdempotencyKey string }{"live", r.Header.Get("Idempotency-Key")})
	}
	if err != nil {
		return nil, err
	}
	if len(body.Records) > s.most {
		return answer(400, `{"error":"a batch of more than may be attested in a minute"}`)
	}
	now := time.Now()
	q := s.limiter.Take(limit.Call{Tier: limit.Attest, Items: len(body.Records), Credential: [32]byte{1}, Company: 1}, now)
	q.Header(h, now)
	if !q.OK {
		return answer(429, `{"error":"Too Many Requests"}`)
	}
	for i, item := range body.Records {
		if s.claimed[item.IdempotencyKey] || item.ActionType == "bad" {
			code := map[bool]string{true: attestd.KeyReused, false: "WHY"}[s.claimed[item.IdempotencyKey]]
			return answer(422, fmt.Sprintf(`{"error":"no","code":%q,"pointer":"/records/%d"}`, code, i))
		}
	}
	records := notary.Records(text, "acme")
	for _, item := range body.Records {
		s.sent[item.IdempotencyKey]++
		s.order = append(s.order, item.ActionType)
	}
	if !batch {
		return answer(201, records[0])
	}
	return answer(201, `{"records":[`+strings.Join(records, ",")+`]}`)
}

// open opens the folder as another process would.
func (s *limited) open(t *testing.T, dir string) (*spool.Spool, *attestd.Client) {
	t.Helper()
	c, err := attestd.New(attestd.Config{URL: "http://attestd.test", HTTP: &http.Client{Transport: s}, Retry: &attestd.Retry{}})
	must.OK(t, err)
	made, err := spool.Open(dir, c)
	must.OK(t, err)
	return made, c
}

// 5,000 records that wait are all sent under the default limits, each once and in order, though
// each Flush is a process of its own; and somebody who attests meanwhile, half of what the limit
// allows, is never refused.
func TestBacklogDrainsUnderTheLimit(t *testing.T) {
	testenv.Needs(t, testenv.NotQuick)
	t.Parallel()
	const waiting = 5000
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		there := newLimited(t)
		s, _ := there.open(t, dir)
		var wait sync.WaitGroup
		for n := range 50 {
			wait.Go(func() {
				for i := range waiting / 50 {
					must.OK(t, s.Add(t.Context(), attestation(n*waiting/50+i)))
				}
			})
		}
		wait.Wait()
		began, live := time.Now(), 0
		for done := false; !done; {
			s, c := there.open(t, dir)
			switch err := s.Flush(t.Context()); {
			case err == nil:
				done = true
			case errors.As(err, new(*spool.LimitedError)):
				var limit *spool.LimitedError
				errors.As(err, &limit)
				// 46 a minute
				for end := time.Now().Add(limit.After); time.Now().Before(end); live++ {
					if _, err := c.Attest(t.Context(), attestd.Attestation{AgentID: "bot", ActionType: "live", Payload: live}); err != nil {
						t.Fatalf("a live record is refused after %v: %v", time.Since(began), err)
					}
					time.Sleep(1300 * time.Millisecond)
				}
			default:
				t.Fatal(err)
			}
			if time.Since(began) > 12*time.Hour {
				t.Fatalf("%d wait after 12 hours", s.Pending())
			}
		}
		once := 0
		for _, times := range there.sent {
			if times == 1 {
				once++
			}
		}
		if s.Pending() != 0 || len(there.sent) != waiting+live || once != len(there.sent) {
			t.Errorf("%d wait, %d keys of %d, %d of them once", s.Pending(), len(there.sent), waiting+live, once)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 2 { // the locks
			t.Errorf("left behind: %q", left)
		}
		t.Logf("%d records and %d live ones in %v, %d requests, %d refused", waiting, live, time.Since(began), there.requests, there.refused)
	})
}

// What is added while others wait for the limit goes first.
func TestLiveRecordsHavePriority(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		there := newLimited(t)
		s, _ := there.open(t, dir)
		add(t, s, 0, 250)
		if err := s.Flush(t.Context()); !errors.As(err, new(*spool.LimitedError)) || s.Pending() >= 250 {
			t.Fatal(err, s.Pending())
		}
		before := len(there.order)
		time.Sleep(time.Minute)
		s, _ = there.open(t, dir)
		add(t, s, 1000, 1005)
		if err := s.Flush(t.Context()); !errors.As(err, new(*spool.LimitedError)) {
			t.Fatal(err)
		}
		after := there.order[before:]
		if want := "a1000 a1001 a1002 a1003 a1004"; strings.Join(after[:5], " ") != want || !slices.Contains(after[5:], "a"+strconv.Itoa(before)) {
			t.Errorf("sent %q", after)
		}
	})
}

// A refusal is stored once, however often the other records are rate limited.
func TestRefusalsAreStoredOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		there := newLimited(t)
		s, _ := there.open(t, dir)
		for n := range 300 {
			a := attestation(n)
			if n%60 == 7 {
				a.ActionType = "bad"
			}
			must.OK(t, s.Add(t.Context(), a))
		}
		flip := filepath.Join(dir, "queue")
		text, err := os.ReadFile(flip)
		must.OK(t, err)
		text[30] ^= 1 // of the first line
		must.OK(t, os.WriteFile(flip, text, 0o600))
		for range 100 {
			err := s.Flush(t.Context())
			var limit *spool.LimitedError
			if !errors.As(err, &limit) {
				break
			}
			time.Sleep(limit.After)
			s, _ = there.open(t, dir)
		}
		refused, err := s.Refused()
		must.OK(t, err)
		damaged, err := os.ReadFile(filepath.Join(dir, "damaged"))
		must.OK(t, err)
		if len(refused) != 5 || strings.Count(string(damaged), "\n") != 1 || len(there.order) != 294 || s.Pending() != 0 {
			t.Errorf("%d refusals, %d recorded, %d wait, damaged: %q", len(refused), len(there.order), s.Pending(), damaged)
		}
	})
}

// A process that was killed at any point leaves a folder from which the next goes on: nothing is
// lost, and what an older progress says counts for the queue alone that it is about.
func TestProgressOfAnotherQueue(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		there := newLimited(t)
		s, _ := there.open(t, dir)
		add(t, s, 0, 150)
		if err := s.Flush(t.Context()); !errors.As(err, new(*spool.LimitedError)) {
			t.Fatal(err)
		}
		const name = "00000000000000000001.queue"
		progress, err := os.ReadFile(filepath.Join(dir, name+".sent"))
		must.OK(t, err)
		sent := len(there.order)
		// as if all was sent, and the process killed before it removed the progress
		must.OK(t, os.Remove(filepath.Join(dir, name)))
		add(t, s, 200, 250)
		must.OK(t, os.WriteFile(filepath.Join(dir, name+".sent"), progress, 0o600))
		time.Sleep(2 * time.Minute)
		must.OK(t, s.Flush(t.Context()))
		if got := len(there.order) - sent; got != 50 {
			t.Errorf("%d of 50 were sent", got)
		}
		// A progress that was damaged counts for nothing.
		time.Sleep(time.Minute)
		add(t, s, 300, 450)
		if err := s.Flush(t.Context()); !errors.As(err, new(*spool.LimitedError)) {
			t.Fatal(err)
		}
		progress, err = os.ReadFile(filepath.Join(dir, name+".sent"))
		must.OK(t, err)
		progress[len(progress)-2] ^= 1
		must.OK(t, os.WriteFile(filepath.Join(dir, name+".sent"), progress, 0o600))
		for n := 0; s.Pending() > 0 && n < 50; n++ {
			_ = s.Flush(t.Context())
			time.Sleep(time.Minute)
		}
		if keys := len(there.sent); keys != sent+200 {
			t.Errorf("%d recorded, want %d", keys, sent+200)
		}
	})
}

// A key that somebody has claimed before costs no record where the program has made it: it is sent
// under a fresh one, once.
func TestPreemptedKeysAreReplaced(t *testing.T) {
	t.Parallel()
	for _, fresh := range []bool{true, false} {
		dir := t.TempDir()
		there := newLimited(t)
		s, _ := there.open(t, dir)
		s.FreshKeys = fresh
		for n := range 5 {
			a := attestation(n)
			a.IdempotencyKey = "foretold " + strconv.Itoa(n)
			there.claimed[a.IdempotencyKey] = n%2 == 0
			must.OK(t, s.Add(t.Context(), a))
		}
		err := s.Flush(t.Context())
		refused, _ := s.Refused()
		if want := map[bool]int{true: 0, false: 3}[fresh]; len(refused) != want || (err != nil) == fresh || len(there.sent) != 5-want {
			t.Errorf("fresh keys %v: %v, %d refused, %d recorded", fresh, err, len(refused), len(there.sent))
		}
	}
}
