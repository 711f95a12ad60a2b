package mcpproxy

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"attestd/internal/notary"
	"attestd/sdk/attestd"
	"attestd/sdk/attestd/spool"
)

// batches simulates a service that accepts batches while it is available.
type batches struct {
	mu     sync.Mutex
	away   bool
	refuse bool
	full   bool     // for keys that begin with old: the rate limit
	claims int      // so many keys are somebody else's
	taken  []string // keys
}

func (b *batches) set(away, refuse bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.away, b.refuse = away, refuse
}

func (b *batches) RoundTrip(r *http.Request) (*http.Response, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.away {
		return nil, errors.New("connection refused")
	}
	h := http.Header{"X-Request-Id": {"r"}}
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	records := notary.Records(text, "acme")
	status, answer := http.StatusCreated, records[0]
	if strings.HasSuffix(r.URL.Path, "/batch") {
		var body struct {
			Records []struct{ IdempotencyKey string }
		}
		if err := json.Unmarshal(text, &body); err != nil {
			return nil, err
		}
		for _, record := range body.Records {
			b.taken = append(b.taken, record.IdempotencyKey)
		}
		answer = `{"records":[` + strings.Join(records, ",") + `]}`
	} else {
		b.taken = append(b.taken, r.Header.Get("Idempotency-Key"))
	}
	if b.full && strings.HasPrefix(b.taken[len(b.taken)-1], "old") {
		b.taken = b.taken[:len(b.taken)-1]
		h.Set("X-RateLimit-Limit", "100")
		h.Set("X-RateLimit-Remaining", "60")
		h.Set("X-RateLimit-Reset", strconv.FormatInt(time.Now().Add(time.Hour).Unix(), 10))
		status, answer = http.StatusTooManyRequests, `{"error":"Too Many Requests"}`
	}
	if b.claims > 0 {
		b.claims--
		status, answer = http.StatusUnprocessableEntity, `{"error":"no","code":"`+attestd.KeyReused+`"}`
	}
	if b.refuse {
		status, answer = http.StatusForbidden, `{"error":"no","code":"AGENT_DISABLED","pointer":"/records/0"}`
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(answer)), Request: r}, nil
}

// spooled returns a Spooled on a new folder, and a function that returns its warnings.
func spooled(t *testing.T, b *batches) (s *Spooled, warnings func() string) {
	t.Helper()
	c, err := attestd.New(attestd.Config{URL: "http://attestd.test", Credential: attestd.Key("k"), HTTP: &http.Client{Transport: b}, Retry: &attestd.Retry{}})
	if err != nil {
		t.Fatal(err)
	}
	queue, err := spool.Open(t.TempDir(), c)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var output strings.Builder
	return NewSpooled(c, queue, func(text string) {
			mu.Lock()
			defer mu.Unlock()
			output.WriteString(text + "\n")
		}), func() string {
			mu.Lock()
			defer mu.Unlock()
			return output.String()
		}
}

func keyed(key string) attestd.Attestation {
	return attestd.Attestation{AgentID: "bot", ActionType: "x", Payload: json.RawMessage("1"), IdempotencyKey: key}
}

// Records are sent in batches. While the service is unavailable there is one warning, and the
// records are sent when it is back.
func TestSpooledSends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := new(batches)
		s, warnings := spooled(t, b)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); s.Send(ctx) }()
		keep := func(key string) {
			if err := s.Persist(ctx, keyed(key)); err != nil {
				t.Error(err)
			}
		}
		keep("a")
		time.Sleep(gatherFor)
		synctest.Wait()
		b.set(true, false)
		keep("b")
		time.Sleep(time.Minute)
		keep("c")
		if got := warnings(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "records stay in the spool") {
			t.Error(got)
		}
		b.set(false, false)
		time.Sleep(maxPause)
		synctest.Wait()
		if got := strings.Join(b.taken, ""); got != "abc" {
			t.Errorf("sent %q", got)
		}
		keep("d")
		cancel() // what is left is sent at the end
		<-done
		if got := strings.Join(b.taken, ""); got != "abcd" {
			t.Errorf("sent %q", got)
		}
	})
}

// A session sends the records that an earlier one left, at its start.
func TestSpooledSendsEarlierRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &batches{away: true}
		s, _ := spooled(t, b)
		if err := s.Persist(t.Context(), keyed("a")); err != nil {
			t.Fatal(err)
		}
		b.set(false, false)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); s.Send(ctx) }()
		synctest.Wait()
		if len(b.taken) != 1 {
			t.Errorf("%d are sent", len(b.taken))
		}
		cancel()
		<-done
	})
}

// A record that the service refuses permanently causes a warning, and the others are sent.
func TestSpooledRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &batches{refuse: true}
		s, warnings := spooled(t, b)
		if err := s.Persist(t.Context(), keyed("a")); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		s.Send(ctx)
		if !strings.Contains(warnings(), "the service refuses 1 attestations") {
			t.Error(warnings())
		}
		if all, err := s.spool.Refused(); len(all) != 1 || err != nil {
			t.Error(all, err)
		}
	})
}

// If the spool is full, the record is sent to the service directly. Persist fails only if that
// fails too.
func TestSpoolFull(t *testing.T) {
	b := new(batches)
	s, _ := spooled(t, b)
	s.spool.Limit = 1
	if err := s.Persist(t.Context(), keyed("a")); err != nil || len(b.taken) != 1 {
		t.Error(err, b.taken)
	}
	b.set(true, false)
	if err := s.Persist(t.Context(), keyed("b")); !errors.Is(err, spool.ErrFull) {
		t.Error(err)
	}
}

// New records are sent immediately, even while older ones wait for the rate limit.
func TestSpooledSendsLiveRecordsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &batches{full: true}
		s, warnings := spooled(t, b)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		if err := s.Persist(ctx, keyed("old")); err != nil {
			t.Fatal(err)
		}
		go func() { defer close(done); s.Send(ctx) }()
		time.Sleep(time.Second)
		synctest.Wait()
		if err := s.Persist(ctx, keyed("new")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * gatherFor)
		synctest.Wait()
		b.mu.Lock()
		if got := strings.Join(b.taken, " "); got != "new" {
			t.Errorf("sent %q", got)
		}
		b.full = false
		b.mu.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := strings.Join(b.taken, " "); got != "new old" || s.spool.Pending() != 0 {
			t.Errorf("sent %q, %d wait", got, s.spool.Pending())
		}
		if got := warnings(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "rate limit") {
			t.Error(got)
		}
		cancel()
		<-done
	})
}

// An idempotency key that another writer used first refuses no call and loses no record, and
// records reveal no keys.
func TestClaimedKeys(t *testing.T) {
	t.Parallel()
	b := &batches{claims: 1}
	s, _ := spooled(t, b)
	if _, err := s.Attest(t.Context(), keyed("claimed")); err != nil || len(b.taken) != 2 || b.taken[1] == "claimed" {
		t.Errorf("%v, sent under %q", err, b.taken)
	}
	session := start(t, Config{})
	session.ask(`{"id":1,"method":"tools/call","params":{"name":"x"}}`)
	session.reply(`{"id":1,"result":{}}`)
	session.end()
	for _, a := range session.record.records {
		if strings.Contains(a.IdempotencyKey, session.proxy.session) {
			t.Errorf("the key %s holds the session's ID, which is recorded", a.IdempotencyKey)
		}
	}
}
