package server

import (
	"context"
	"net"
	"sync"
	"time"

	"attestd/chain"
	"attestd/server/httpapi"
	"attestd/server/jobs"
	"attestd/server/limit"
	"attestd/store"
)

// Run serves on ln until ctx is done or a part of the server fails, and returns when everything
// that it started has ended. It returns nil after a stop by ctx. It closes ln but not the store,
// which is no longer used.
func (s *Server) Run(ctx context.Context, ln net.Listener) error {
	s.api.Listening = httpapi.AddressOf(ln.Addr())
	s.status.listener = limit.Listen(ln, s.Budgets.Connections, s.TrustedProxies, s.Log)
	s.integrity.Open(ctx)
	s.calls.Count(ctx)
	l := lifecycle{
		handler: s.Handler(),
		streams: s.endStreams,
		log:     s.Log,
		begin:   s.recordStart,
		delay:   s.DrainDelay,
		leave:   func() { s.status.stopping.Store(true) },
		workers: []worker{
			s.write,
			s.readyCheck.Run,
			s.clock.Run,
			func(ctx context.Context) error { return s.monitor.Run(ctx, s.hub.Broadcast) },
			s.deliverer.Run,
			s.changes.Run,
			s.Store.Summarize,
			s.tables.Run,
			s.integrity.Run,
			s.retention.Run,
			s.calls.Run,
			func(ctx context.Context) error { return jobs.WatchCheckpoints(ctx, s.Store, s.Log) },
			func(ctx context.Context) error { return jobs.WipeTokenKeys(ctx, s.Store, s.Log) },
			s.warmKeySets,
		},
	}
	if s.Local != nil {
		l.workers = append(l.workers, s.Local.Run)
	}
	for _, p := range s.witnessPublishers {
		l.workers = append(l.workers, p.Run)
	}
	if s.exporter != nil {
		l.workers = append(l.workers, s.exporter.Run)
	}
	if s.metrics != nil {
		s.metrics.Add(s.status.values()...)
		l.workers = append(l.workers, s.serveMetrics, s.companies.Run)
	}
	if s.Backups != nil {
		l.workers = append(l.workers, s.Backups.Run)
	}
	if s.TLS != nil {
		s.TLS.addTo(&l, s.status.listener, s.recordStart)
	}
	if s.Traces != nil {
		l.workers = append(l.workers, s.Traces.Run)
	}
	return l.run(ctx, s.status.listener)
}

// write runs the goroutine that writes the database. It stops after the last request.
func (s *Server) write(ctx context.Context) error {
	publish := func(batch []chain.Extension, external bool) {
		s.calls.Published(batch)
		s.monitor.Publish(batch, external)
	}
	remote := func(number, from, to int64) {
		s.calls.Elsewhere(number)
		s.monitor.Grown(number, from, to)
	}
	return s.Store.Run(ctx, store.RunOptions{Transacted: s.transacted(), Publish: publish, Grown: s.grown,
		Appended: func(records int) { s.deliverer.Pace.Appended(records, time.Now()) }, Others: remote,
		Changed: s.changes.Add, WentBack: s.hub.WentBack, AcceptClock: s.AcceptClock, Quotas: s.live.Load().Quotas,
		KeyLifetime: s.Retention.RetryKeys, Steady: jobs.SteadyClock(), Log: s.Log})
}

// grown notifies the witness publishers, the exporter, the feed and who waits for approvals that a
// log has grown.
func (s *Server) grown(number int64) {
	s.feed.Grown(number)
	if company, is := store.ControlOf(number); is {
		s.approvals.Wake(company)
	}
	if s.exporter != nil {
		s.exporter.Grown(number)
	}
	for _, p := range s.witnessPublishers {
		p.Enqueue(number)
	}
}

// transacted returns what observes the transactions of the log, or nil.
func (s *Server) transacted() func(chain.Transacted) {
	switch {
	case s.metrics == nil && s.Traces == nil:
		return nil
	case s.Traces == nil:
		return s.metrics.Transacted
	case s.metrics == nil:
		return s.Traces.Transacted
	}
	return func(t chain.Transacted) {
		s.metrics.Transacted(t)
		s.Traces.Transacted(t)
	}
}

// endStreams ends the stream's connections, the webhook deliveries and the export, concurrently.
func (s *Server) endStreams() {
	var ending sync.WaitGroup
	ending.Go(s.hub.Close)
	ending.Go(s.deliverer.Close)
	ending.Go(s.approvals.Close)
	if s.exporter != nil {
		ending.Go(s.exporter.Close)
	}
	ending.Wait()
	s.webhooks.Close()
	s.keySets.Close()
}

// warmKeySets fetches the key sets of federations once, while requests are served. Where it fails,
// the first workload of each waits for its keys.
func (s *Server) warmKeySets(ctx context.Context) error {
	if err := s.federations.Warm(ctx); err != nil && ctx.Err() == nil {
		s.Log.Warn("key sets of federations are fetched when they are first needed", "error", err)
	}
	return nil
}
