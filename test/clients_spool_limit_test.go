package test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"attestd/internal/must"
	"attestd/internal/testenv"
)

// limited is a service that records nothing but what came, under a limit like the real one's with a
// shorter window.
type limited struct {
	limit, window int // of the window, in seconds
	refuse        int // the n of an item that it will never take
	known         int // the n of an item whose first key it knows from another request

	mu       sync.Mutex
	admitted []time.Time
	recorded map[string]int // by what it is, how often
	order    []int
	refusals map[int]int // by status
	live     int         // calls that were answered 201
	knownAs  string
}

type limitedItem struct {
	AgentID        string
	ActionType     string
	IdempotencyKey string
	Payload        limitedPayload
}

// limitedPayload is a payload as it came.
type limitedPayload struct {
	N    int
	text json.RawMessage
}

func (p *limitedPayload) UnmarshalJSON(text []byte) error {
	var read struct{ N int }
	err := json.Unmarshal(text, &read)
	p.N, p.text = read.N, bytes.Clone(text)
	return err
}

// record is the one of an item: a client compares it with what it has sent.
func (i *limitedItem) record() any {
	return map[string]any{"index": 0, "hash": "h", "signature": "s", "payload": map[string]any{
		"agentId": i.AgentID, "companyId": "acme", "actionType": i.ActionType, "payload": i.Payload.text,
	}}
}

func (l *limited) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body struct {
		limitedItem
		Records []limitedItem
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		panic(err)
	}
	items := body.Records
	if r.URL.Path == "/v1/attest" {
		items = []limitedItem{body.limitedItem}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	status, answer := l.take(w, items, r.URL.Path == "/v1/attest")
	if status != http.StatusCreated {
		l.refusals[status]++
	}
	w.Header().Set("X-Request-ID", "limited")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer) // to a client that may be gone
}

func (l *limited) take(w http.ResponseWriter, items []limitedItem, single bool) (int, any) {
	now := time.Now()
	for len(l.admitted) > 0 && now.Sub(l.admitted[0]) >= time.Duration(l.window)*time.Second {
		l.admitted = l.admitted[1:]
	}
	type refusal struct {
		Error   string `json:"error"`
		Code    string `json:"code,omitempty"`
		Pointer string `json:"pointer,omitempty"`
	}
	if len(items) > l.limit {
		return http.StatusBadRequest, refusal{Error: "more than a window takes"}
	}
	full := len(l.admitted)+len(items) > l.limit
	if !full {
		for range items {
			l.admitted = append(l.admitted, now)
		}
	}
	reset := now
	if len(l.admitted) > 0 {
		reset = l.admitted[0].Add(time.Duration(l.window) * time.Second)
	}
	w.Header().Set("X-RateLimit-Limit", strconv.Itoa(l.limit))
	w.Header().Set("X-RateLimit-Remaining", strconv.Itoa(l.limit-len(l.admitted)))
	w.Header().Set("X-RateLimit-Reset", strconv.Itoa(int(math.Ceil(float64(reset.UnixMilli())/1000))))
	if full {
		w.Header().Set("X-RateLimit-Remaining", "0")
		w.Header().Set("Retry-After", strconv.Itoa(max(1, int(time.Until(reset).Seconds()))))
		return http.StatusTooManyRequests, refusal{Error: "Too Many Requests"}
	}
	for i, item := range items {
		at := fmt.Sprintf("/records/%d", i)
		switch {
		case item.ActionType == "paid" && item.Payload.N == l.refuse:
			return http.StatusBadRequest, refusal{"no", "", at + "/payload"}
		case item.ActionType == "paid" && item.Payload.N == l.known && (l.knownAs == "" || l.knownAs == item.IdempotencyKey):
			l.knownAs = item.IdempotencyKey
			return http.StatusUnprocessableEntity, refusal{"another request", "IDEMPOTENCY_KEY_REUSED", at + "/idempotencyKey"}
		}
	}
	if single {
		l.live++
		return http.StatusCreated, items[0].record()
	}
	var records []any
	for _, item := range items {
		l.recorded[fmt.Sprint(item.Payload.N)]++
		l.order = append(l.order, item.Payload.N)
		records = append(records, item.record())
	}
	return http.StatusCreated, map[string]any{"records": records}
}

// A client's spool is sent at the rate that the limit allows, in order and each item once, and
// leaves room for new records. An item that the service will never accept is set apart once; an
// item whose key belongs to another request is sent under a new key.
func TestClientSpoolsDrainUnderARateLimit(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	othersRun(t)
	for _, script := range waiting {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			const count, refused, known = 100, 40, 60
			service := &limited{limit: 40, window: 1, refuse: refused, known: known, recorded: map[string]int{}, refusals: map[int]int{}}
			server := httptest.NewServer(service)
			t.Cleanup(server.Close)
			folder := t.TempDir()
			var answer waited
			printed(t, clientScript(t, script, server.URL, "key", folder, "add", fmt.Sprint(count)), &answer)
			printed(t, clientScript(t, script, server.URL, "key", folder, "drain"), &answer)
			if answer.Pending != 0 || len(answer.Failed) > 0 || len(answer.Refused) != 1 {
				t.Errorf("%+v", answer)
			}
			for n := range count {
				want := 1
				if n == refused {
					want = 0
				}
				if got := service.recorded[fmt.Sprint(n)]; got != want {
					t.Errorf("%d was recorded %d times, want %d", n, got, want)
				}
			}
			for i := range service.order[1:] {
				if service.order[i] > service.order[i+1] {
					t.Errorf("%d was recorded before %d", service.order[i], service.order[i+1])
				}
			}
			stored, err := filepath.Glob(folder + "/refused/*.item")
			must.OK(t, err)
			if _, err := os.Stat(filepath.Join(folder, "refused", filepath.Base(stored[0])+".reason")); len(stored) != 1 || err != nil {
				t.Errorf("set apart are %v, %v", stored, err)
			}
			// An attestation that is refused meanwhile ends the script.
			t.Logf("%d live records; refusals by status: %v", service.live, service.refusals)
			if service.refusals[http.StatusUnprocessableEntity] != 1 || service.refusals[http.StatusBadRequest] != 1 || service.refusals[http.StatusTooManyRequests] > 15 || service.live < 3 {
				t.Errorf("%d live records; refusals by status: %v", service.live, service.refusals)
			}
		})
	}
}
