package server_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/server"
)

// maxSeries bounds what a scrape has after any load: each route has a histogram, and a counter for
// each status that it answers.
const maxSeries = 4500

// withMetrics has the server serve metrics on loopback, and returns their address.
func withMetrics(t testing.TB) (url string, change func(*server.Config)) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	return "http://" + ln.Addr().String() + "/metrics", func(c *server.Config) { c.MetricsListener = ln }
}

// scrape returns the series of a scrape, by name and labels.
func scrape(t testing.TB, url string) map[string]string {
	t.Helper()
	res, err := http.Get(url)
	must.OK(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	must.OK(t, err)
	if res.StatusCode != 200 {
		t.Fatalf("a scrape: %d %s", res.StatusCode, text)
	}
	series := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if at := strings.LastIndexByte(line, ' '); line[0] != '#' {
			series[line[:at]] = strings.TrimSpace(line[at+1:])
		}
	}
	return series
}

// The metrics have no name of a company, an agent or anything else of a caller, and no more series
// however many of them there are.
func TestMetricsHaveNoIdentities(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	url, change := withMetrics(t)
	s := start(t, change)
	load := func(round int) (texts []string) {
		for i := range 5 {
			name := fmt.Sprintf("hostile-%d-%d", round, i)
			acme := s.company(t, name)
			acme.agent(t, "bot-"+name)
			free := `\"} 1\nattestd_hostile{x=\"` + name
			acme.do(t, "POST /v1/attest", `{"agentId":"`+free+`","actionType":"`+free+`","payload":"`+name+`"}`, "User-Agent: "+name,
				"X-Request-ID: "+name, "traceparent: "+name, "Origin: https://"+name+".example").status(403)
			acme.do(t, "POST /v1/attest", `{"agentId":"`+free+`","actionType":"`+free+`","payload":"`+name+`"}`).status(201)
			acme.do(t, "GET /v1/agents/bot-"+name, "").status(200)
			acme.do(t, "DELETE /v1/agents/bot-"+name, "").status(405)
			acme.do(t, "GET /v1/"+name, "").status(404)
			acme.do(t, "GET /o/"+name+"/jwks", "").status(200)
			req := acme.request(t, strings.ToUpper(strings.ReplaceAll(name, "-", ""))+" /v1/attest", "")
			res, err := s.client.Do(req)
			must.OK(t, err)
			must.OK(t, res.Body.Close())
			texts = append(texts, name, strings.ToUpper(strings.ReplaceAll(name, "-", "")))
		}
		return texts
	}
	first := load(1)
	before := scrape(t, url)
	names := append(first, load(2)...)
	after := scrape(t, url)
	if len(after) != len(before) || len(after) > maxSeries {
		t.Errorf("%d series, and %d with more companies and agents; at most %d", len(before), len(after), maxSeries)
	}
	for series := range after {
		for _, name := range names {
			if strings.Contains(series, name) {
				t.Errorf("a series names a caller: %s", series)
			}
		}
	}
	if n := after[`attestd_http_requests_total{method="POST",route="/v1/attest",status="201"}`]; n != "10" {
		t.Errorf("%s requests are counted, want 10", n)
	}
	if n := after[`attestd_http_request_duration_seconds_count{method="GET",route="/v1/agents/{agentId}"}`]; n != "10" {
		t.Errorf("%s durations are counted, want 10", n)
	}
}

// Every route that is ever called and every status together stay below the bound.
func TestSeriesAreBounded(t *testing.T) {
	t.Parallel()
	routes, statuses := server.RouteCount(), 12 // a route answers some of them
	if most := routes*(statuses+16) + 400; most > maxSeries {
		t.Errorf("%d routes may have %d series", routes, most)
	}
}

// The listener of metrics answers one address, and refuses what a browser sends for others.
func TestMetricsListenerHasNothingElse(t *testing.T) {
	t.Parallel()
	url, change := withMetrics(t)
	start(t, change)
	base := strings.TrimSuffix(url, "/metrics")
	for path, want := range map[string]int{"/metrics": 200, "/": 404, "/v1/health": 404, "/debug/pprof/": 404, "/readyz": 404} {
		res, err := http.Get(base + path)
		must.OK(t, err)
		must.OK(t, res.Body.Close())
		if res.StatusCode != want {
			t.Errorf("GET %s: %d, want %d", path, res.StatusCode, want)
		}
	}
	res, err := http.Post(url, "text/plain", strings.NewReader("x"))
	must.OK(t, err)
	must.OK(t, res.Body.Close())
	if res.StatusCode != 405 {
		t.Errorf("POST: %d", res.StatusCode)
	}
}

// Appends are measured: records, transactions, sizes of batches and times.
func TestAppendsAreMeasured(t *testing.T) {
	t.Parallel()
	url, change := withMetrics(t)
	s := start(t, change)
	acme := s.company(t, "acme")
	before := scrape(t, url)
	acme.attestMany(t, 7)
	after := scrape(t, url)
	for series, want := range map[string]float64{"attestd_records_total": 7, "attestd_commit_records_sum": 7} {
		if is := number(t, after[series]) - number(t, before[series]); is != want {
			t.Errorf("%s grew by %v, want %v", series, is, want)
		}
	}
	for _, series := range []string{"attestd_commit_duration_seconds_sum", "attestd_commit_sync_duration_seconds_sum",
		`attestd_transactions_total{outcome="durable"}`, `attestd_file_bytes{file="log"}`} {
		if testenv.OnPostgreSQL() && strings.HasPrefix(series, "attestd_file") {
			continue
		}
		if number(t, after[series]) <= 0 {
			t.Errorf("%s is %s", series, after[series])
		}
	}
	if s := number(t, after["attestd_verification_ended_timestamp_seconds"]); s > 0 && time.Since(time.Unix(int64(s), 0)) > time.Hour {
		t.Errorf("verified at %v", s)
	}
}

func number(t testing.TB, text string) (n float64) {
	t.Helper()
	if _, err := fmt.Sscan(text, &n); err != nil {
		t.Fatalf("%q is no number", text)
	}
	return n
}

// families returns the names of metrics in a scrape, without the parts of histograms.
func families(series map[string]string) map[string]bool {
	names := map[string]bool{}
	for s := range series {
		name, _, _ := strings.Cut(s, "{")
		names[regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")] = true
	}
	return names
}
