// Package metrics has what a server measures, in the text form of Prometheus. It alone imports the
// client library of Prometheus.
//
// Requests and transactions are measured where they happen: a counter and a histogram each, which
// take no lock. Everything else is a Value, which is read from memory at each scrape.
//
// Labels have few values, all of the program or of its operator's settings: patterns of routes,
// statuses, codes, names of limits, files, duties and witnesses. No label has anything of a
// company, an agent or a caller, so the number of series does not depend on who uses the service.
package metrics

import (
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"attestd/chain"
)

// Bounds of histograms. A request is quick as long as it waits for no disk; a verification of a
// long log takes minutes.
var (
	requestSeconds = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10, 60}
	commitSeconds  = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10}
	batchSizes     = []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}
)

const (
	maxScrapes    = 4 // at once
	scrapeTimeout = 15 * time.Second
)

// Metrics are those of one server. A nil *Metrics measures nothing.
type Metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec

	transactions             *prometheus.CounterVec
	records                  prometheus.Counter
	batch, committed, synced prometheus.Histogram
}

// New returns the metrics of a server of a version.
func New(version string) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "attestd_http_requests_total",
			Help: "Requests, by method and pattern of the route, and by status."}, []string{"method", "route", "status"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "attestd_http_request_duration_seconds",
			Help: "Time from the header of a request to the end of its response, without the stream.", Buckets: requestSeconds},
			[]string{"method", "route"}),
		transactions: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "attestd_transactions_total",
			Help: "Transactions of the writer, by outcome: durable, failed, or unknown."}, []string{"outcome"}),
		records: prometheus.NewCounter(prometheus.CounterOpts{Name: "attestd_records_total",
			Help: "Records appended to logs of companies, control records too."}),
		batch: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "attestd_commit_records",
			Help: "Records in one transaction, of those that have any.", Buckets: batchSizes}),
		committed: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "attestd_commit_duration_seconds",
			Help: "Time of a transaction with records, from its beginning to its answers.", Buckets: commitSeconds}),
		synced: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "attestd_commit_sync_duration_seconds",
			Help: "Part of attestd_commit_duration_seconds in which the transaction became durable.", Buckets: commitSeconds}),
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{Name: "attestd_build_info", Help: "1, with the version as a label.",
		ConstLabels: prometheus.Labels{"version": version}})
	build.Set(1)
	m.registry.MustRegister(m.requests, m.duration, m.transactions, m.records, m.batch, m.committed, m.synced, build,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	// so that a rate begins at zero
	for _, outcome := range []string{"durable", "failed", "unknown"} {
		m.transactions.WithLabelValues(outcome)
	}
	return m
}

// Transacted measures a transaction of the log.
func (m *Metrics) Transacted(t chain.Transacted) {
	switch {
	case errors.Is(t.Err, chain.ErrUnknown):
		m.transactions.WithLabelValues("unknown").Inc()
	case t.Err != nil:
		m.transactions.WithLabelValues("failed").Inc()
	default:
		m.transactions.WithLabelValues("durable").Inc()
	}
	if t.Err != nil || t.Records == 0 {
		return
	}
	m.records.Add(float64(t.Records))
	m.batch.Observe(float64(t.Records))
	m.committed.Observe(t.Took.Seconds())
	m.synced.Observe(t.Synced.Seconds())
}

// Route measures the requests of one route.
type Route struct {
	requests *prometheus.CounterVec
	duration func() prometheus.Observer // has no series before its first call
	statuses sync.Map                   // from a status to its prometheus.Counter
}

// Route returns what measures a route; method and pattern are those of the route and not of a
// request. It is nil, and measures nothing, for nil Metrics.
func (m *Metrics) Route(method, pattern string) *Route {
	if m == nil {
		return nil
	}
	labels := prometheus.Labels{"method": method, "route": pattern}
	return &Route{requests: m.requests.MustCurryWith(labels),
		duration: sync.OnceValue(func() prometheus.Observer { return m.duration.With(labels) })}
}

// Observe measures a request. A response that switches protocols has no duration.
func (r *Route) Observe(status int, took time.Duration) {
	if r == nil {
		return
	}
	counter, known := r.statuses.Load(status)
	if !known {
		counter, _ = r.statuses.LoadOrStore(status, r.requests.WithLabelValues(strconv.Itoa(status)))
	}
	counter.(prometheus.Counter).Inc()
	if status != http.StatusSwitchingProtocols {
		r.duration().Observe(took.Seconds())
	}
}

// Handler answers GET /metrics.
func (m *Metrics) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		MaxRequestsInFlight: maxScrapes, Timeout: scrapeTimeout, DisableCompression: false}))
	return mux
}
