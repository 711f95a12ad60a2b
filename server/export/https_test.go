package export_test

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/server/export"
)

// siem is an HTTPS receiver: what it answers to the n-th request.
type siem struct {
	*httptest.Server
	mu       sync.Mutex
	requests int
	lines    []string
	tokens   []string
	answer   func(n int, path string, body []byte) (status int, header, answer string, take bool)
}

func newSIEM(t *testing.T) *siem {
	t.Helper()
	s := new(siem)
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.tokens = append(s.tokens, r.Header.Get("Authorization"))
		status, header, answer, take := s.answer(s.requests, r.URL.Path, body)
		s.requests++
		if take {
			s.lines = append(s.lines, strings.TrimSuffix(string(body), "\n"))
		}
		if name, value, ok := strings.Cut(header, ": "); ok {
			w.Header().Set(name, value)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *siem) destination(t *testing.T, path, form string) *export.HTTPS {
	t.Helper()
	config := s.Client().Transport.(*http.Transport).TLSClientConfig
	d, err := export.NewHTTPS(s.URL+path, form, "s3cret", &tls.Config{RootCAs: config.RootCAs})
	must.OK(t, err)
	return d
}

// exportOnce exports until it succeeds, and returns the errors before.
func exportOnce(t *testing.T, m *memory, at *positions, d export.Destination, most int) (errs []error) {
	t.Helper()
	for {
		m.told = map[export.Log]int{}
		err := export.New(export.Config{Source: m, Cursors: at, Destination: d, CheckpointAtEnd: true, Log: quiet()}).Run(t.Context())
		if err == nil {
			return errs
		}
		if errs = append(errs, err); len(errs) > most {
			t.Fatal(errs)
		}
		if strings.Contains(err.Error(), "s3cret") {
			t.Errorf("the token is in an error: %v", err)
		}
	}
}

// Lines are posted with the token to this address alone: no redirect is followed. Only a 2xx is an
// acknowledgement.
func TestExportToHTTPS(t *testing.T) {
	t.Parallel()
	elsewhere := newSIEM(t)
	elsewhere.answer = func(int, string, []byte) (int, string, string, bool) { return 200, "", "", true }
	s := newSIEM(t)
	s.answer = func(n int, _ string, _ []byte) (int, string, string, bool) {
		switch n {
		case 0:
			return 307, "Location: " + elsewhere.URL, "", false
		case 1:
			return 503, "Retry-After: 7", "busy", false
		case 2:
			return 200, "", strings.Repeat("x", 5<<20), true
		}
		return 202, "", "", true
	}
	m, at := newMemory("acme"), newPositions()
	m.add("acme", 0, 20)
	m.add("acme", 1, 1)
	errs := exportOnce(t, m, at, s.destination(t, "/in", export.FormLines), 3)
	var later *export.RetryAfter
	if len(errs) != 3 || !errors.As(errs[1], &later) || later.Delay != 7*time.Second {
		t.Errorf("%v", errs)
	}
	if elsewhere.requests != 0 || s.tokens[0] != "Bearer s3cret" {
		t.Errorf("%d requests elsewhere, %q", elsewhere.requests, s.tokens)
	}
	isComplete(t, checked(t, "acme", 0, strings.Join(s.lines, "\n")+"\n"), 20, 1)

	d, err := export.NewHTTPS(s.URL, export.FormLines, "s3cret", &tls.Config{})
	must.OK(t, err)
	if err := d.Deliver(t.Context(), new(export.Batch)); err == nil {
		t.Error("an unknown certificate is accepted")
	}
	for _, address := range []string{"http://siem.example.com/", "https://user:password@siem.example.com/", "siem.example.com", "ftp://siem.example.com/"} {
		if _, err := export.NewHTTPS(address, export.FormLines, "", &tls.Config{}); err == nil {
			t.Errorf("%s is accepted", address)
		}
	}
}

// events returns what the HTTP Event Collector has received, as lines.
func events(t *testing.T, bodies []string) string {
	t.Helper()
	var text strings.Builder
	for _, body := range bodies {
		decoder := json.NewDecoder(strings.NewReader(body))
		for decoder.More() {
			var e struct {
				Time       float64
				Sourcetype string
				Event      json.RawMessage
			}
			must.OK(t, decoder.Decode(&e))
			if e.Time < 1.7e9 || !strings.HasPrefix(e.Sourcetype, "attestd:") {
				t.Errorf("%+v", e)
			}
			text.Write(append(e.Event, '\n'))
		}
	}
	return text.String()
}

// Splunk's HTTP Event Collector acknowledges with code 0, and where indexer acknowledgement is on
// only after its index has the events.
func TestExportToSplunk(t *testing.T) {
	t.Parallel()
	s := newSIEM(t)
	asked := 0
	s.answer = func(n int, path string, body []byte) (int, string, string, bool) {
		switch {
		case path == "/services/collector/ack":
			if asked++; string(body) != `{"acks":[7]}` {
				t.Errorf("%s", body)
			}
			return 200, "", fmt.Sprintf(`{"acks":{"7":%t}}`, asked > 1), false
		case n == 0:
			return 503, "", `{"text":"Server is busy","code":9}`, false
		case n == 1:
			return 200, "", `{"text":"Invalid data format","code":6,"invalid-event-number":0}`, false
		}
		return 200, "", `{"text":"Success","code":0,"ackId":7}`, true
	}
	m, at := newMemory("acme"), newPositions()
	m.add("acme", 0, 20)
	if errs := exportOnce(t, m, at, s.destination(t, "/services/collector/event", export.FormSplunk), 2); len(errs) != 2 {
		t.Errorf("%v", errs)
	}
	if asked < 2 || s.tokens[0] != "Splunk s3cret" {
		t.Errorf("asked %d times, %q", asked, s.tokens)
	}
	isComplete(t, checked(t, "acme", 0, events(t, s.lines)), 20, 0)
}

// Each item of a _bulk counts: one that is refused stops the export, and is never left out. What is
// there already is no error.
func TestExportToElastic(t *testing.T) {
	t.Parallel()
	s := newSIEM(t)
	index := map[string]string{}
	var order []string
	refuse := []int{429, 400, 0}
	s.answer = func(n int, path string, body []byte) (int, string, string, bool) {
		if path != "/logs-attestd/_bulk" {
			t.Error(path)
		}
		if n == 0 { // not an answer for each
			return 200, "", `{"errors":false,"items":[]}`, false
		}
		lines := strings.Split(strings.TrimSuffix(string(body), "\n"), "\n")
		var items []string
		for i := 0; i+1 < len(lines); i += 2 {
			var action struct {
				Create struct {
					ID string `json:"_id"`
				}
			}
			must.OK(t, json.Unmarshal([]byte(lines[i]), &action))
			status, id := 201, action.Create.ID
			switch _, has := index[id]; {
			case has:
				status = 409
			case n <= len(refuse) && refuse[n-1] != 0 && strings.HasSuffix(id, "/12"):
				status = refuse[n-1]
			default:
				index[id] = lines[i+1]
				order = append(order, id)
			}
			item := fmt.Sprintf(`{"create":{"status":%d}}`, status)
			if status > 299 {
				item = fmt.Sprintf(`{"create":{"status":%d,"error":{"type":"some_exception","reason":"why"}}}`, status)
			}
			items = append(items, item)
		}
		return 200, "", `{"errors":true,"items":[` + strings.Join(items, ",") + `]}`, false
	}
	m, at := newMemory("acme"), newPositions()
	m.add("acme", 0, 20)
	errs := exportOnce(t, m, at, s.destination(t, "/logs-attestd", export.FormElastic), 3)
	if len(errs) != 3 || !strings.Contains(errs[1].Error(), "acme/actions/12 with 429: some_exception") || !strings.Contains(errs[2].Error(), "400") {
		t.Errorf("%v", errs)
	}
	if s.tokens[0] != "ApiKey s3cret" {
		t.Errorf("%q", s.tokens)
	}
	var records int
	for _, id := range order {
		if strings.Count(id, "/") == 2 && strings.HasPrefix(id, "acme/actions/") {
			records++
		}
	}
	if records != 20 {
		t.Errorf("%d records: %q", records, order)
	}
	isComplete(t, checked(t, "acme", 0, sorted(t, index)), 20, 0)
}

// sorted returns the documents of an index, sorted by log, index, type and previous.
func sorted(t *testing.T, index map[string]string) string {
	t.Helper()
	docs := slices.Collect(maps.Values(index))
	slices.SortFunc(docs, func(a, b string) int {
		var x, y struct {
			Log, Type       string
			Index, Previous int
		}
		must.OK(t, errors.Join(json.Unmarshal([]byte(a), &x), json.Unmarshal([]byte(b), &y)))
		return cmp.Or(cmp.Compare(x.Log, y.Log), cmp.Compare(x.Index, y.Index), cmp.Compare(x.Type, y.Type), cmp.Compare(x.Previous, y.Previous))
	})
	return strings.Join(docs, "\n") + "\n"
}

// What Elasticsearch and Splunk have is checked in the order of indexes, not in the one in which it
// came: it holds though acknowledgements were lost, exporters were killed and keys were rotated.
func TestElasticDocumentsHoldAfterLostAcknowledgements(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	for seed := range uint64(3) {
		random := rand.New(rand.NewPCG(seed, 3))
		index := map[string]string{}
		every := map[string]string{} // as at a receiver that ignores IDs; duplicates are left out
		s := newSIEM(t)
		s.answer = func(n int, _ string, body []byte) (int, string, string, bool) {
			lines := strings.Split(strings.TrimSuffix(string(body), "\n"), "\n")
			fate := random.IntN(3) // refused in the middle, accepted without an answer, or accepted
			var items []string
			for i := 0; i+1 < len(lines); i += 2 {
				status := 201
				if _, has := index[lines[i]]; has {
					status = 409
				} else if fate == 0 && i > len(lines)/2 {
					status = 429
				} else {
					index[lines[i]] = lines[i+1]
				}
				if status != 429 {
					every[lines[i+1]] = lines[i+1]
				}
				items = append(items, fmt.Sprintf(`{"create":{"status":%d}}`, status))
			}
			if fate == 1 {
				return 502, "", "", false
			}
			return 200, "", `{"items":[` + strings.Join(items, ",") + `]}`, false
		}
		m, at := newMemory("acme"), newPositions()
		n := 0
		round := func(most int) {
			more := random.IntN(25)
			n += more
			m.add("acme", 0, more)
			m.add("acme", 1, 1)
			before := maps.Clone(at.at)
			exportOnce(t, m, at, s.destination(t, "/logs", export.FormElastic), most)
			if random.IntN(3) == 0 {
				at.at = before // the exporter was killed before it saved them
			}
		}
		for i := range 6 {
			if i == 3 {
				m.rotate()
			}
			round(100)
		}
		m.rotate()
		m.add("acme", 1, 1) // which the control log has of the rotation
		exportOnce(t, m, at, s.destination(t, "/logs", export.FormElastic), 100)
		for _, key := range []byte{0, 1, 2} {
			isComplete(t, checked(t, "acme", key, sorted(t, index)), int64(n), 7)
			isComplete(t, checked(t, "acme", key, sorted(t, every)), int64(n), 7)
		}
	}
}

// documents is a destination that writes no line whose ID it has, as Elasticsearch does.
type documents struct {
	receiver
	index map[string]string
}

func (d *documents) Deliver(_ context.Context, b *export.Batch) error {
	for _, l := range b.Lines {
		if _, has := d.index[l.ID]; !has {
			d.index[l.ID] = string(l.Text)
		}
	}
	return nil
}

// A checkpoint that another key signs again has its own ID: a reader who trusts that key has no
// other checkpoint of a log that does not grow.
func TestCheckpointOfTheNextKeyIsNoDuplicate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, to := newMemory("acme"), &documents{index: map[string]string{}}
		m.add("acme", 0, 5)
		m.add("acme", 1, 1)
		_, stop := run(t, export.Config{Source: m, Cursors: newPositions(), Destination: to, Follow: true})
		for n := range byte(3) {
			if n > 0 {
				m.rotate()
				m.add("acme", 1, 1) // of the rotation
			}
			time.Sleep(2 * export.CheckpointEvery)
		}
		_ = stop()
		for _, key := range []byte{0, 1, 2} {
			isComplete(t, checked(t, "acme", key, sorted(t, to.index)), 5, 3)
		}
	})
}

// A receiver that repeats the token in its answer does not bring it into errors, which are logged.
func TestTokenInAnAnswerIsNotRepeated(t *testing.T) {
	t.Parallel()
	for form, answer := range map[string]string{
		export.FormLines:   strings.Repeat("x", 190) + `cannot POST /in-s3cret-path?key=s3cret-query&pretty=true, nor with Bearer s3cret`,
		export.FormSplunk:  `{"text":"Invalid token s3cret","code":4}`,
		export.FormElastic: `{"items":[{"create":{"status":403,"error":{"type":"security_exception","reason":"ApiKey s3cret and s3cret-query are unknown"}}}]}`,
	} {
		for _, status := range []int{200, 403} {
			s := newSIEM(t)
			s.answer = func(int, string, []byte) (int, string, string, bool) { return status, "Retry-After: 7", answer, false }
			d := s.destination(t, "/in-s3cret-path?key=s3cret-query", form)
			err := d.Deliver(t.Context(), &export.Batch{Lines: []export.Line{{Text: []byte("{}"), Type: "record", At: "2026-11-21T09:00:00.000Z"}}})
			if form == export.FormLines && status == 200 {
				continue
			}
			if err == nil || strings.Contains(err.Error(), "s3c") {
				t.Errorf("%s, %d: %v", form, status, err)
			}
			if after := (*export.RetryAfter)(nil); status == 403 && !errors.As(err, &after) {
				t.Errorf("%s: %v", form, err)
			}
		}
	}
}

// A receiver that answers before it was sent the batch has not read it, whatever it answers.
func TestAnswerBeforeTheBatchWasSentAcknowledgesNothing(t *testing.T) {
	t.Parallel()
	b := &export.Batch{}
	for range 4 {
		b.Lines = append(b.Lines, export.Line{Text: []byte(`{"x":"` + strings.Repeat("x", 4<<20) + `"}`), Type: "record", At: "2026-11-21T09:00:00.000Z"})
	}
	for _, is2 := range []bool{false, true} {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(200) }))
		s.EnableHTTP2 = is2
		s.StartTLS()
		t.Cleanup(s.Close)
		pool := s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
		d, err := export.NewHTTPS(s.URL, export.FormLines, "", &tls.Config{RootCAs: pool})
		must.OK(t, err)
		if err := d.Deliver(t.Context(), b); err == nil {
			t.Errorf("HTTP/2 %t: an answer to a part of the batch acknowledges it", is2)
		}
	}
}
