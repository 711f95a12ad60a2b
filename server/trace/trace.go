// Package trace sends spans of requests and of transactions to a collector of OpenTelemetry, by
// OTLP over HTTP. It alone imports the SDK.
//
// A span of a request has its method, the pattern of its route and its status, and nothing else: no
// path, query, address, header, credential, company, agent or payload. A traceparent (W3C Trace
// Context) makes it a part of the caller's trace. A tracestate is not read, because it may be any
// text of an unknown client. A span of a transaction is a child of the first request in it, and has
// links to others.
//
// Nothing waits for the collector: a span that finds the queue full is dropped.
package trace

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	api "go.opentelemetry.io/otel/trace"

	"attestd/chain"
)

const (
	maxLinks     = 32              // of the span of a transaction
	stopTimeout  = 2 * time.Second // for the spans that are left when the server stops
	warnInterval = time.Minute     // between two warnings about the collector
)

// Config says where spans are sent.
type Config struct {
	Collector
	Service, Version string
	Log              *slog.Logger
}

// Tracer makes spans. A nil *Tracer makes none.
type Tracer struct {
	provider *sdk.TracerProvider
	tracer   api.Tracer
	client   *client
	warned   atomic.Int64 // when the last warning was, in Unix nanoseconds
}

// Start returns a Tracer, which sends from now on until Run ends. The SDK reads the variables of
// sampling (OTEL_TRACES_SAMPLER), batching (OTEL_BSP_…) and attributes (OTEL_RESOURCE_ATTRIBUTES).
func Start(ctx context.Context, c Config) (*Tracer, error) {
	of, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.version", c.Version)),
		resource.WithFromEnv(), resource.WithAttributes(attribute.String("service.name", c.Service)))
	if err != nil {
		return nil, err
	}
	to := newClient(c.Collector)
	exporter, err := otlptrace.New(ctx, to)
	if err != nil {
		return nil, err
	}
	t := &Tracer{client: to, provider: sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(of))}
	t.tracer = t.provider.Tracer("attestd", api.WithInstrumentationVersion(c.Version))
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { t.warn(c.Log, err) }))
	return t, nil
}

// warn reports that spans were lost, once in a while.
func (t *Tracer) warn(log *slog.Logger, err error) {
	now, last := time.Now().UnixNano(), t.warned.Load()
	if now-last >= int64(warnInterval) && t.warned.CompareAndSwap(last, now) {
		log.Warn("spans could not be sent to the collector", "error", err)
	}
}

// Run is a worker. At its end it sends what is left, for a short time.
func (t *Tracer) Run(ctx context.Context) error {
	<-ctx.Done()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	// what a hanging collector does not accept is lost, and the server still ends
	_ = t.provider.Shutdown(last)
	t.client.abandon()
	t.client.http.CloseIdleConnections()
	return ctx.Err()
}

// traceparent shows that header alone.
type traceparent struct{ http.Header }

func (h traceparent) Get(name string) string {
	if values := h.Values(name); name == "traceparent" && len(values) == 1 {
		return values[0]
	}
	return ""
}

func (h traceparent) Set(string, string) {}

func (h traceparent) Keys() []string { return []string{"traceparent"} }

// Request begins the span of a request. route is the pattern and method is that of the route.
func (t *Tracer) Request(ctx context.Context, header http.Header, method, route string) (context.Context, Span) {
	ctx = propagation.TraceContext{}.Extract(ctx, traceparent{header})
	ctx, span := t.tracer.Start(ctx, method+" "+route, api.WithSpanKind(api.SpanKindServer), api.WithAttributes(
		attribute.String("http.request.method", method), attribute.String("http.route", route)))
	return ctx, Span{span}
}

// Span is the span of a request. The zero Span is none.
type Span struct{ span api.Span }

// End ends the span with the status of the response.
func (s Span) End(status int) {
	if s.span == nil {
		return
	}
	s.span.SetAttributes(attribute.Int("http.response.status_code", status))
	if status >= http.StatusInternalServerError {
		s.span.SetAttributes(attribute.String("error.type", strconv.Itoa(status)))
		s.span.SetStatus(codes.Error, "")
	}
	s.span.End()
}

// Transacted makes the span of a transaction, if a request in it has one that is sent.
func (t *Tracer) Transacted(is chain.Transacted) {
	var parent context.Context
	var links []api.Link
	for _, ctx := range is.Callers {
		of := api.SpanContextFromContext(ctx)
		switch {
		case !of.IsSampled():
		case parent == nil:
			parent = ctx
		case len(links) < maxLinks:
			links = append(links, api.Link{SpanContext: of})
		}
	}
	if parent == nil {
		return
	}
	_, span := t.tracer.Start(parent, "commit", api.WithTimestamp(is.Began), api.WithLinks(links...), api.WithAttributes(
		attribute.Int("attestd.changes", is.Changes), attribute.Int("attestd.records", is.Records),
		attribute.Float64("attestd.sync.seconds", is.Synced.Seconds())))
	switch {
	case errors.Is(is.Err, chain.ErrUnknown):
		span.SetAttributes(attribute.String("error.type", "unknown"))
		span.SetStatus(codes.Error, "")
	case is.Err != nil:
		span.SetAttributes(attribute.String("error.type", "failed"))
		span.SetStatus(codes.Error, "")
	}
	span.End(api.WithTimestamp(is.Began.Add(is.Took)))
}
