package spool_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"attestd/internal/must"
	"attestd/internal/notary"
	"attestd/sdk/attestd"
	"attestd/sdk/attestd/spool"
)

// service takes batches as the real one does: all or nothing, an item whose key is known once.
type service struct {
	mu      sync.Mutex
	status  int // what it answers; 0 is no answer, 201 to take
	code    string
	most    int             // items of a batch; a larger one is refused entirely
	refuses map[string]bool // action types
	silent  bool            // a refusal names no item
	loses   bool            // the answer, after the batch was taken
	// of a gateway, which passes a request on where the status is 0
	page     func(body string) (status int, text string)
	requests int
	order    []string       // payloads as they were recorded
	known    map[string]int // by key: how often it was sent
}

func (s *service) RoundTrip(r *http.Request) (*http.Response, error) {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	answer := func(status int, body string) (*http.Response, error) {
		return &http.Response{StatusCode: status, Header: http.Header{"X-Request-Id": {"r"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
	}
	if s.page != nil {
		if status, page := s.page(string(text)); status != 0 {
			return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"text/html"}}, Body: io.NopCloser(strings.NewReader(page)), Request: r}, nil
		}
	}
	if s.status == 0 {
		return nil, errors.New("connection refused")
	}
	if s.status != 201 {
		return answer(s.status, `{"error":"no","code":"`+s.code+`"}`)
	}
	type item struct {
		ActionType, IdempotencyKey string
		Payload                    json.RawMessage
	}
	var body struct{ Records []item }
	if !strings.HasSuffix(r.URL.Path, "/batch") {
		body.Records = []item{{IdempotencyKey: r.Header.Get("Idempotency-Key")}}
		err = json.Unmarshal(text, &body.Records[0])
	} else {
		err = json.Unmarshal(text, &body)
	}
	if err != nil {
		return nil, err
	}
	if len(body.Records) > s.most {
		return answer(400, `{"error":"a batch larger than what may be appended in a minute"}`)
	}
	seen := map[string]bool{}
	for i, item := range body.Records {
		pointer := "/records/" + strconv.Itoa(i) + "/payload"
		if s.silent {
			pointer = ""
		}
		if seen[item.IdempotencyKey] || s.refuses[item.ActionType] {
			return answer(422, fmt.Sprintf(`{"error":"refused","code":"WHY","pointer":%q}`, pointer))
		}
		seen[item.IdempotencyKey] = true
	}
	records := notary.Records(text, "acme")
	for _, item := range body.Records {
		if s.known[item.IdempotencyKey]++; s.known[item.IdempotencyKey] == 1 {
			s.order = append(s.order, string(item.Payload))
		}
	}
	if s.loses {
		return nil, errors.New("connection reset")
	}
	if !strings.HasSuffix(r.URL.Path, "/batch") {
		return answer(201, records[0])
	}
	return answer(201, `{"records":[`+strings.Join(records, ",")+`]}`)
}

func newService() *service {
	return &service{status: 201, most: attestd.MaxBatch, known: map[string]int{}, refuses: map[string]bool{}}
}

func (s *service) open(t *testing.T, dir string) *spool.Spool {
	t.Helper()
	c, err := attestd.New(attestd.Config{URL: "http://attestd.test", HTTP: &http.Client{Transport: s}, Retry: &attestd.Retry{}})
	must.OK(t, err)
	made, err := spool.Open(dir, c)
	must.OK(t, err)
	return made
}

func attestation(n int) attestd.Attestation {
	return attestd.Attestation{AgentID: "bot", ActionType: "a" + strconv.Itoa(n), Payload: n}
}

func add(t *testing.T, s *spool.Spool, from, to int) {
	t.Helper()
	for n := from; n < to; n++ {
		must.OK(t, s.Add(t.Context(), attestation(n)))
	}
}

func numbers(from, to int) string {
	var all []string
	for n := from; n < to; n++ {
		all = append(all, strconv.Itoa(n))
	}
	return strings.Join(all, " ")
}

// What was added while the service is away is sent when it is back, in order and once, also when an
// answer was lost or another process opens the folder.
func TestFlushSendsAllOnce(t *testing.T) {
	dir, there := filepath.Join(t.TempDir(), "a", "spool"), newService()
	add(t, there.open(t, dir), 0, 1500)
	s := there.open(t, dir)
	for _, away := range []struct {
		status int
		code   string
	}{{0, ""}, {503, "NOT_DONE"}, {429, ""}, {408, ""}, {401, ""}, {403, "FORBIDDEN_ROLE"}, {404, ""}, {302, ""}} {
		there.status, there.code = away.status, away.code
		if err := s.Flush(t.Context()); err == nil || errors.As(err, new(*spool.RefusedError)) || s.Pending() != 1500 {
			t.Fatalf("%+v: %d wait, %v", away, s.Pending(), err)
		}
	}
	there.status, there.loses = 201, true
	if err := s.Flush(t.Context()); err == nil || s.Pending() != 1500 {
		t.Fatalf("%d wait, %v", s.Pending(), err)
	}
	there.loses = false
	add(t, s, 1500, 1600)
	must.OK(t, s.Flush(t.Context()))
	if got := strings.Join(there.order, " "); s.Pending() != 0 || got != numbers(0, 1600) {
		t.Errorf("%d wait, recorded: %.100s", s.Pending(), got)
	}
	must.OK(t, s.Flush(t.Context()))
	if left, err := filepath.Glob(filepath.Join(dir, "*queue*")); err != nil || len(left) > 0 {
		t.Error(left, err)
	}
}

// Records that the service refuses are stored separately with the reason. The other records are
// sent, whether the error names the item or not.
func TestRefusedRecordsAreSeparated(t *testing.T) {
	for _, silent := range []bool{false, true} {
		there := newService()
		there.silent, there.refuses = silent, map[string]bool{"a3": true, "a17": true, "a19": true}
		s := there.open(t, t.TempDir())
		add(t, s, 0, 20)
		var apart *spool.RefusedError
		if err := s.Flush(t.Context()); !errors.As(err, &apart) || len(apart.Refused) != 3 {
			t.Fatal(err)
		}
		refused, err := s.Refused()
		must.OK(t, err)
		var item struct{ ActionType, IdempotencyKey string }
		must.OK(t, json.Unmarshal(refused[1].Attestation, &item))
		if len(refused) != 3 || refused[1].Status != 422 || refused[1].Code != "WHY" || item.ActionType != "a17" || item.IdempotencyKey == "" {
			t.Errorf("%+v", refused)
		}
		if len(there.order) != 17 || s.Pending() != 0 {
			t.Errorf("%d recorded, %d wait", len(there.order), s.Pending())
		}
		must.OK(t, s.Flush(t.Context()))
	}
}

// A batch that is larger than the service takes is sent in smaller ones.
func TestLargeBatchIsSplit(t *testing.T) {
	there := newService()
	there.most = 100
	s := there.open(t, t.TempDir())
	add(t, s, 0, 950)
	must.OK(t, s.Flush(t.Context()))
	if got := strings.Join(there.order, " "); got != numbers(0, 950) || there.requests > 25 {
		t.Errorf("%d requests, recorded: %.100s", there.requests, got)
	}
}

// Adding a key twice makes one record and no error.
func TestDuplicateKeyIsOneRecord(t *testing.T) {
	there := newService()
	s := there.open(t, t.TempDir())
	a := attestation(1)
	a.IdempotencyKey = "k"
	must.OK(t, s.Add(t.Context(), a))
	must.OK(t, s.Add(t.Context(), attestation(2)))
	must.OK(t, s.Add(t.Context(), a))
	must.OK(t, s.Flush(t.Context()))
	if got := strings.Join(there.order, " "); got != "1 2" || there.known["k"] != 2 {
		t.Error(got, there.known)
	}
}

// A last line that is cut at any byte, as a killed process leaves it, takes nothing with it of what
// was there before or comes after.
func TestTornLastLine(t *testing.T) {
	dir := t.TempDir()
	first := newService().open(t, dir)
	must.OK(t, first.Add(t.Context(), attestd.Attestation{AgentID: "bot", ActionType: "é", Payload: json.RawMessage("{\n\"a\": \"\\n\"\n}")}))
	path := filepath.Join(dir, "queue")
	one, err := os.ReadFile(path)
	must.OK(t, err)
	for cut := range len(one) {
		there := newService()
		s := there.open(t, dir)
		must.OK(t, os.WriteFile(path, append(bytes.Clone(one), one[:cut]...), 0o600))
		if cut%2 == 0 {
			add(t, s, 1, 2)
		}
		must.OK(t, s.Flush(t.Context()))
		if want := 1 + (cut+1)%2; len(there.order) != want || there.order[0] != `{ "a": "\n" }` {
			t.Errorf("cut at %d: recorded %q", cut, there.order)
		}
	}
}

// A complete line that differs from what was written is preserved and reported; those around it are
// sent.
func TestDamagedLineIsPreserved(t *testing.T) {
	dir, there := t.TempDir(), newService()
	s := there.open(t, dir)
	add(t, s, 0, 3)
	path := filepath.Join(dir, "queue")
	text, err := os.ReadFile(path)
	must.OK(t, err)
	lines := bytes.SplitAfter(text, []byte("\n"))
	lines[1][20] ^= 1
	must.OK(t, os.WriteFile(path, bytes.Join(lines, nil), 0o600))
	var apart *spool.RefusedError
	if err := s.Flush(t.Context()); !errors.As(err, &apart) || apart.Damaged != 1 || strings.Join(there.order, " ") != "0 2" {
		t.Fatal(err, there.order)
	}
	if refused, err := os.ReadFile(filepath.Join(dir, "damaged")); err != nil || !bytes.Equal(refused, lines[1]) {
		t.Errorf("%q %v", refused, err)
	}
}

// A full spool returns an error, and accepts records again when it was emptied.
func TestFullSpoolRefusesRecords(t *testing.T) {
	there := newService()
	s := there.open(t, t.TempDir())
	s.Limit = 1000
	n := 0
	for ; ; n++ {
		if err := s.Add(t.Context(), attestation(n)); err != nil {
			if !errors.Is(err, spool.ErrFull) {
				t.Fatal(err)
			}
			break
		}
	}
	must.OK(t, s.Flush(t.Context()))
	if len(there.order) != n || n < 5 {
		t.Errorf("%d were added, %d recorded", n, len(there.order))
	}
	add(t, s, n, n+1)
}

// Several goroutines and Spools add to one folder while others flush it. Each record is sent once.
func TestSpoolSharedByProcesses(t *testing.T) {
	dir, there := t.TempDir(), newService()
	var adders, flushers sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	for range 2 {
		s := there.open(t, dir)
		flushers.Go(func() {
			for ctx.Err() == nil {
				if err := s.Flush(ctx); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			}
		})
	}
	for who := range 3 {
		s := there.open(t, dir)
		for turn := range 8 {
			adders.Go(func() {
				for n := range 10 {
					if err := s.Add(ctx, attestation(who*1000+turn*100+n)); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	adders.Wait()
	stop()
	flushers.Wait()
	must.OK(t, there.open(t, dir).Flush(t.Context()))
	if len(there.order) != 240 || len(there.known) != 240 {
		t.Errorf("%d recorded under %d keys", len(there.order), len(there.known))
	}
}

// Attest sends at once where it can, queues under the same key where no answer is to be had, and
// returns what is refused for good.
func TestAttestQueues(t *testing.T) {
	there := newService()
	s := there.open(t, t.TempDir())
	if _, queued, err := s.Attest(t.Context(), attestation(0)); queued || err != nil {
		t.Fatal(queued, err)
	}
	there.loses = true
	if _, queued, err := s.Attest(t.Context(), attestation(1)); !queued || err != nil {
		t.Fatal(queued, err)
	}
	there.loses = false
	done, cancel := context.WithCancel(t.Context())
	cancel()
	there.status = 0
	if _, queued, err := s.Attest(done, attestation(2)); !queued || err != nil {
		t.Fatal(queued, err)
	}
	there.status = 400
	if _, queued, err := s.Attest(t.Context(), attestation(3)); queued || !errors.Is(err, &attestd.Error{Status: 400}) {
		t.Fatal(queued, err)
	}
	there.status = 201
	must.OK(t, s.Flush(t.Context()))
	if got := strings.Join(there.order, " "); got != "0 1 2" {
		t.Error(got)
	}
}

// Add returns an error when it cannot store the record. Open refuses a folder that others can
// write.
func TestErrors(t *testing.T) {
	dir := t.TempDir()
	s := newService().open(t, dir)
	must.OK(t, os.Mkdir(filepath.Join(dir, "queue"), 0o700))
	if err := s.Add(t.Context(), attestation(0)); err == nil {
		t.Error("a folder was written to")
	}
	if err := s.Add(t.Context(), attestd.Attestation{AgentID: "bot", ActionType: "a", Payload: json.RawMessage("{")}); err == nil {
		t.Error("what can never be sent was added")
	}
	open := t.TempDir()
	must.OK(t, os.Chmod(open, 0o770))
	if _, err := spool.Open(open, nil); err == nil {
		t.Error("a folder that the group may write to was opened")
	}
}
