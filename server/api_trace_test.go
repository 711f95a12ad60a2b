package server_test

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/server"
	"attestd/server/trace"
)

// collector receives spans.
type collector struct {
	*httptest.Server
	mu    sync.Mutex
	raw   []byte
	spans []*tracepb.Span
	auth  []string
}

func newCollector(t testing.TB) *collector {
	t.Helper()
	c := &collector{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		unpacked, err := gzip.NewReader(r.Body)
		if err != nil {
			t.Error(err)
			return
		}
		body, err := io.ReadAll(unpacked)
		var data tracepb.TracesData
		if err != nil || proto.Unmarshal(body, &data) != nil {
			t.Errorf("no spans were sent: %v", err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.raw = append(c.raw, body...)
		c.auth = append(c.auth, r.Header.Get("Authorization"))
		for _, resource := range data.ResourceSpans {
			for _, scope := range resource.ScopeSpans {
				c.spans = append(c.spans, scope.Spans...)
			}
		}
	}))
	t.Cleanup(c.Close)
	return c
}

// traced has the server send spans to a collector.
func traced(t testing.TB, url string) func(*server.Config) {
	t.Helper()
	tracer, err := trace.Start(t.Context(), trace.Config{Service: "attestd", Version: "1", Log: slog.New(slog.DiscardHandler),
		Collector: trace.Collector{URL: url + "/v1/traces", Headers: map[string]string{"Authorization": "Bearer of-the-collector"},
			Timeout: 10 * time.Second, Gzip: true}})
	must.OK(t, err)
	return func(c *server.Config) { c.Traces = tracer }
}

// A request and its transaction are spans of the trace that its traceparent names. No span has
// anything of a company, an agent or a caller, and a tracestate is dropped.
func TestSpansHaveNoIdentities(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	to := newCollector(t)
	s := start(t, traced(t, to.URL))
	acme := s.company(t, "acme-of-secrets")
	acme.agent(t, "bot-of-secrets")
	const traceID, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	s.log.remember("of-the-collector")
	headers := []string{"traceparent: 00-" + traceID + "-" + parent + "-01", "tracestate: x=of-secrets", "User-Agent: of-secrets",
		"baggage: who=of-secrets", "X-Request-ID: of-secrets"}
	acme.do(t, "POST /v1/attest", `{"agentId":"of-secrets","actionType":"of-secrets","payload":"of-secrets"}`, headers...).status(201)
	acme.do(t, "GET /v1/agents/bot-of-secrets?x=of-secrets", "", headers...).status(200)
	acme.do(t, "GET /v1/of-secrets", "", headers...).status(404)
	acme.do(t, "POST /v1/attest", `{}`, "traceparent: of-secrets").status(400)
	s.stop()
	to.mu.Lock()
	defer to.mu.Unlock()
	if bytes.Contains(to.raw, []byte("of-secrets")) || bytes.Contains(to.raw, []byte(acme.credential)) || bytes.Contains(to.raw, []byte("127.0.0.1")) {
		t.Errorf("a span has something of a caller: %q", to.raw)
	}
	byName := map[string]*tracepb.Span{}
	for _, span := range to.spans {
		if hex.EncodeToString(span.TraceId) == traceID {
			byName[span.Name] = span
		}
	}
	attest, commit := byName["POST /v1/attest"], byName["commit"]
	if len(byName) != 4 || attest == nil || commit == nil || byName["GET /v1/agents/{agentId}"] == nil || byName["other other"] == nil {
		t.Fatalf("the spans of the trace are %v", byName)
	}
	if hex.EncodeToString(attest.ParentSpanId) != parent || !bytes.Equal(commit.ParentSpanId, attest.SpanId) {
		t.Errorf("the parents are %x and %x", attest.ParentSpanId, commit.ParentSpanId)
	}
	if commit.StartTimeUnixNano < attest.StartTimeUnixNano || commit.EndTimeUnixNano > attest.EndTimeUnixNano {
		t.Errorf("the transaction is not within its request: %v, %v", commit, attest)
	}
	for _, header := range to.auth {
		if header != "Bearer of-the-collector" {
			t.Errorf("sent the credential %q", header)
		}
	}
}

// A collector that never answers delays no request, and a stop by no more than its share.
func TestHangingCollectorDelaysNoRequest(t *testing.T) {
	testenv.Needs(t, testenv.NotQuick, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	release := make(chan struct{})
	hangs := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer hangs.Close()
	defer close(release)
	s := start(t, traced(t, hangs.URL))
	acme := s.company(t, "acme")
	for range 30 {
		acme.attestMany(t, 100) // more spans than the queue has room for
	}
	began := time.Now()
	s.stop()
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("the stop took %v", took)
	}
}
