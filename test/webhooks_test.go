package test

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store/storetest"
)

// inbox is an endpoint of webhooks, and all that it was sent.
type inbox struct {
	*httptest.Server

	mu       sync.Mutex
	messages []inMessage
	down     bool // it takes nothing
}

type inMessage struct {
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`

	index int64
}

func newInbox(t *testing.T) *inbox {
	t.Helper()
	b := &inbox{}
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		m := inMessage{Headers: map[string]string{}, Body: string(body)}
		for _, name := range []string{"webhook-id", "webhook-timestamp", "webhook-signature"} {
			m.Headers[name] = r.Header.Get(name)
		}
		var answer struct{ Data struct{ Index int64 } }
		if err == nil {
			err = json.Unmarshal(body, &answer)
		}
		m.index = answer.Data.Index
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.down || err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		b.messages = append(b.messages, m)
	}))
	t.Cleanup(b.Close)
	return b
}

// complete waits until the endpoint has had the records of [0, n), and demands that they came in
// order, but for those that came again, each of which has the ID that it had.
func (b *inbox) complete(t *testing.T, n int64) (again int) {
	t.Helper()
	next, ids := int64(0), map[int64]string{}
	for deadline, seen := time.Now().Add(patience), 0; next < n; {
		b.mu.Lock()
		messages := slices.Clone(b.messages[seen:])
		b.mu.Unlock()
		seen += len(messages)
		for _, m := range messages {
			id := m.Headers["webhook-id"]
			switch {
			case m.index > next:
				t.Fatalf("record %d comes before record %d", m.index, next)
			case m.index == next:
				next++
			case ids[m.index] != id:
				t.Fatalf("record %d came as %s, and comes as %s", m.index, ids[m.index], id)
			default:
				again++
			}
			ids[m.index] = id
		}
		if len(messages) == 0 {
			if time.Now().After(deadline) {
				t.Fatalf("after %d records of %d nothing comes", next, n)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	return again
}

// madeWebhook is what a webhook's messages are checked with.
type madeWebhook struct {
	WebhookID string `json:"webhookId,omitempty"`
	Secret    string `json:"secret"`
	PublicKey string `json:"publicKey"`
}

func (c *client) webhook(t *testing.T, url string) (made madeWebhook) {
	t.Helper()
	c.call(t, 201, "POST", "/v1/webhooks", fmt.Sprintf(`{"url":%q}`, url), &made)
	return made
}

// Over kills at any moment every endpoint has every record, in order; one that was down in the
// meantime too.
func TestKilledServerDeliversAllWebhooks(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	testenv.Concurrent(t)
	t.Parallel()
	rounds := testenv.Rounds(3, 8)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	chance := rand.New(rand.NewPCG(seed, 0))
	db := storetest.New(t)
	s := serve(t, db, "--rate-limits", "off", "--webhooks-allow-private")
	c := s.register(t, "acme")
	steady, broken := newInbox(t), newInbox(t)
	c.webhook(t, steady.URL)
	hook := c.webhook(t, broken.URL)
	for round := range rounds {
		broken.mu.Lock()
		broken.down = round%3 == 1
		broken.mu.Unlock()
		var writers sync.WaitGroup
		for range 4 {
			writers.Go(func() {
				for {
					if _, _, err := c.send("POST", "/v1/attest", `{"agentId":"bot","actionType":"x","payload":0}`); err != nil {
						return // the server is gone
					}
				}
			})
		}
		// the moment of the kill
		time.Sleep(time.Duration(chance.Int64N(int64(1500 * time.Millisecond))))
		must.OK(t, s.kill())
		writers.Wait()
		s = serve(t, db, "--rate-limits", "off", "--webhooks-allow-private")
		c = c.at(s)
	}
	broken.mu.Lock()
	broken.down = false
	broken.mu.Unlock()
	// so that the test does not wait for the next attempt
	for _, step := range []string{"disable", "enable"} {
		c.call(t, 200, "POST", "/v1/webhooks/"+hook.WebhookID+"/"+step, "", nil)
	}
	n := actionsOf(t, c)
	t.Logf("%d records, of which %d and %d came again", n, steady.complete(t, n), broken.complete(t, n))
	must.OK(t, s.interrupt())
	verifyAcme(t, db)
}

// actionsOf is how many records the company of a caller has.
func actionsOf(t *testing.T, c *client) int64 {
	t.Helper()
	var logs struct {
		Logs []struct {
			Log  string
			Size int64
		}
	}
	c.call(t, 200, "GET", "/v1/logs", "", &logs)
	return logs.Logs[0].Size
}

// The official library for JavaScript takes our messages: those of one pair of keys, and those of
// two while a secret has just been replaced.
func TestStandardWebhooksLibrary(t *testing.T) {
	testenv.Needs(t, testenv.Slow, testenv.Plain)
	t.Parallel()
	node := testenv.Path(t, "node")
	if _, err := os.Stat("testdata/webhooks/node_modules/standardwebhooks"); err != nil {
		testenv.Missing(t, "there is no standardwebhooks: npm ci --prefix test/testdata/webhooks")
	}
	s := serve(t, storetest.New(t), "--rate-limits", "off", "--webhooks-allow-private")
	c := s.register(t, "acme")
	b, elsewhere := newInbox(t), newInbox(t)
	first, other := c.webhook(t, b.URL), c.webhook(t, elsewhere.URL)
	attest := func(n int) {
		for range n {
			c.call(t, 201, "POST", "/v1/attest", `{"agentId":"b\u00f6t \"1\"","actionType":"x","payload":0}`, nil)
		}
	}
	attest(3)
	b.complete(t, 3)
	var second madeWebhook
	c.call(t, 200, "POST", "/v1/webhooks/"+first.WebhookID+"/rotate-secret", "", &second)
	attest(2)
	b.complete(t, 5)

	type toCheck struct {
		inMessage
		Keys  []madeWebhook `json:"keys"`
		Other madeWebhook   `json:"other"`
	}
	var list []toCheck
	for i, m := range b.messages {
		c := toCheck{m, []madeWebhook{first}, other}
		if i >= 3 {
			c.Keys = append(c.Keys, second)
		}
		list = append(list, c)
	}
	text, err := json.Marshal(list)
	must.OK(t, err)
	file := filepath.Join(t.TempDir(), "messages.json")
	must.OK(t, os.WriteFile(file, text, 0o600))
	cmd := exec.CommandContext(t.Context(), node, "testdata/webhooks/verify.mjs", file)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil || strings.TrimSpace(string(out)) != fmt.Sprint(len(list)) {
		t.Errorf("the library has checked %s messages: %v", out, err)
	}
}
