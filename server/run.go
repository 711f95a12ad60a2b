package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"attestd/chain"
	"attestd/server/limit"
	"attestd/store"
)

// Timeouts and sizes of the HTTP server. There is no WriteTimeout, because it starts at the
// request's header, and would interrupt the transfer of a long chain or a long verification.
// Instead, limit.Listener sets a deadline for each write.
const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = time.Minute // header and body: 4 MiB needs 560 kbit/s
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
	drainTimeout      = 10 * time.Second // for running requests when the server stops
)

// verifyWorkers is the number of goroutines that check signatures for GET /v1/verify: one for each
// core that Go may use.
func verifyWorkers() int { return runtime.GOMAXPROCS(0) }

// Run serves on ln until ctx is done or a part of the server fails, and returns when everything
// that it started has ended. It returns nil after a stop by ctx. It closes ln but not the store,
// which is no longer used.
func (s *Server) Run(ctx context.Context, ln net.Listener) error {
	s.listening = addressOf(ln.Addr())
	s.listener = limit.Listen(ln, s.Budgets.Connections, s.TrustedProxies, s.Log)
	s.integrity.open(ctx)
	s.calls.count(ctx)
	l := lifecycle{
		handler: s.Handler(),
		streams: s.endStreams,
		log:     s.Log,
		begin:   s.recordStart,
		delay:   s.DrainDelay,
		leave:   func() { s.stopping.Store(true) },
		workers: []worker{
			s.write,
			s.readyCheck.run,
			func(ctx context.Context) error { return watchClock(ctx, clocks(), &s.clockStatus, s.Log) },
			s.compareClocks,
			func(ctx context.Context) error { return s.monitor.Run(ctx, s.hub.Broadcast) },
			s.deliverer.run,
			s.watchRemoteChanges,
			s.Store.Summarize,
			s.tables.run,
			s.integrity.run,
			s.retention.run,
			s.calls.run,
			func(ctx context.Context) error { return watchCheckpoints(ctx, s.Store, s.Log) },
			func(ctx context.Context) error { return wipeTokenKeys(ctx, s.Store, s.Log) },
			s.warmKeySets,
		},
	}
	if s.Local != nil {
		l.workers = append(l.workers, s.Local.Run)
	}
	for _, p := range s.witnessPublishers {
		l.workers = append(l.workers, p.run)
	}
	if s.exporter != nil {
		l.workers = append(l.workers, s.exporter.run)
	}
	if s.metrics != nil {
		s.metrics.Add(s.values()...)
		l.workers = append(l.workers, s.serveMetrics, s.companies.run)
	}
	if s.Backups != nil {
		l.workers = append(l.workers, s.Backups.Run)
	}
	if s.TLS != nil {
		s.TLS.addTo(&l, s.listener, s.recordStart)
	}
	if s.Traces != nil {
		l.workers = append(l.workers, s.Traces.Run)
	}
	return l.run(ctx, s.listener)
}

// write runs the goroutine that writes the database. It stops after the last request.
func (s *Server) write(ctx context.Context) error {
	publish := func(batch []chain.Extension, external bool) {
		s.calls.published(batch)
		s.monitor.Publish(batch, external)
	}
	others := func(number, from, to int64) {
		s.calls.elsewhere(number)
		s.monitor.Grown(number, from, to)
	}
	return s.Store.Run(ctx, store.RunOptions{Transacted: s.transacted(), Publish: publish, Grown: s.grown,
		Appended: func(records int) { s.deliverer.pace.appended(records, time.Now()) }, Others: others,
		Changed: s.changes.note, WentBack: s.hub.WentBack, AcceptClock: s.AcceptClock, Quotas: s.live.Load().Quotas,
		KeyLifetime: s.Retention.RetryKeys, Steady: steadyClock(), Log: s.Log})
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
	ending.Go(s.deliverer.close)
	if s.exporter != nil {
		ending.Go(s.exporter.close)
	}
	ending.Wait()
	s.webhooks.Close()
	s.keySets.Close()
}

// warmKeySets fetches the key sets of federations once, beside requests. Where it fails, the first
// workload of each waits for its keys.
func (s *Server) warmKeySets(ctx context.Context) error {
	if err := s.federations.Warm(ctx); err != nil && ctx.Err() == nil {
		s.Log.Warn("key sets of federations are fetched when they are first needed", "error", err)
	}
	return nil
}

// recordStart records the current settings in the control logs before the first response. If the
// database is not writable, the service runs nevertheless, because reads work; the next start
// records the settings.
func (s *Server) recordStart(ctx context.Context) {
	s.recording.Lock() // so that the newest settings are recorded last
	defer s.recording.Unlock()
	err := s.Store.Settings.RecordStart(ctx, s.trustSettings())
	if err != nil {
		s.Log.Warn("the current settings are not recorded in the control logs yet", "error", err)
	}
}

// trustSettings returns the settings that affect trust, by their names in control records.
func (s *Server) trustSettings() map[string]string {
	var witnesses []string
	for _, w := range s.Witnesses {
		witnesses = append(witnesses, w.Key().String())
	}
	now := s.live.Load()
	switchedOn := map[bool]string{true: "on", false: "off"}
	trust := map[string]string{
		"program":              "attestd/" + s.Version,
		"publicAddress":        s.BaseURL,
		"stream":               s.Stream.String(),
		"registrationToken":    now.Registration.fingerprint(),
		"registration":         now.Registration.Mode.String(),
		"recoverEndpoint":      switchedOn[s.RecoverEndpoint],
		"acceptClock":          switchedOn[s.AcceptClock],
		"allowedOrigins":       strings.Join(now.AllowedOrigins, " "),
		"witnesses":            strings.Join(witnesses, " "),
		"webhooksAllowPrivate": switchedOn[s.WebhooksAllowPrivate], "federationAllowPrivate": switchedOn[s.FederationAllowPrivate],
		"cosignFor":      s.CosignFor,
		"limits":         now.Limits.String(),
		"bounds":         now.Bounds.String(),
		"quotas":         now.Quotas.String(),
		"retention":      s.Retention.String(),
		"trustedProxies": fmt.Sprint(s.TrustedProxies),
	}
	if s.exporter != nil {
		trust["export"] = s.exporter.String()
	}
	if s.TLS != nil && s.TLS.ClientCAs != nil {
		trust["clientCAs"] = s.TLS.ClientCAs.Fingerprint()
	}
	return trust
}

// worker runs until ctx is done. It may then return ctx.Err().
type worker func(ctx context.Context) error

// lifecycle starts the parts of a server together and stops them in order.
type lifecycle struct {
	handler http.Handler
	// runs before the first response, concurrently with the workers
	begin func(context.Context)
	// ends streams and webhook deliveries, and waits for that
	streams func()
	workers []worker
	// called when the server is asked to stop; requests are served for delay after that
	leave func()
	delay time.Duration
	log   *slog.Logger

	tls *tls.Config // nil serves plain HTTP
	// serves plain HTTP on a listener of its own; nil serves none
	plain         *http.Server
	plainListener net.Listener
}

func (l lifecycle) run(ctx context.Context, ln net.Listener) error {
	g, stop := errgroup.WithContext(ctx) // stop is done when ctx is, or when a part has failed
	// The workers have their own context, because they must outlive the requests that need them.
	work, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	failed := make(chan struct{}) // closed when a part has failed
	fails := sync.OnceFunc(func() { close(failed) })
	for _, w := range l.workers {
		g.Go(func() error {
			if err := w(work); work.Err() == nil || !errors.Is(err, context.Canceled) {
				if err != nil {
					fails()
				}
				return err
			}
			return nil
		})
	}
	var open gate
	srv := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !open.enter() {
				panic(http.ErrAbortHandler) // its connection is closed already
			}
			defer open.leave()
			l.handler.ServeHTTP(w, r)
		}),
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		TLSConfig:         l.tls,
		HTTP2:             http2Bounds(),
		// errors of clients; the server's own are logged by handle and warnedListener
		ErrorLog: slog.NewLogLogger(l.log.Handler(), slog.LevelDebug),
	}
	serve := func(run func() error) func() error {
		return func() error {
			if err := run(); stop.Err() == nil {
				return err
			}
			return nil
		}
	}
	g.Go(serve(func() error {
		l.begin(work)
		if l.tls != nil {
			return srv.ServeTLS(warnedListener{ln, l.log}, "", "")
		}
		return srv.Serve(warnedListener{ln, l.log})
	}))
	if l.plain != nil {
		l.plain.ErrorLog = srv.ErrorLog
		g.Go(serve(func() error { return l.plain.Serve(warnedListener{l.plainListener, l.log}) }))
	}
	g.Go(func() error {
		<-stop.Done()
		defer stopWork()
		l.leave()
		if ctx.Err() != nil && l.delay > 0 {
			l.log.Info("not ready any more; requests are served for a while", "drain-delay", l.delay.String())
			select {
			case <-time.After(l.delay):
			case <-failed:
			}
		}
		l.drain(srv, ln)
		open.shut()
		return nil
	})
	return g.Wait()
}

// drain stops accepting, ends streams and webhook deliveries, and waits for running requests. After
// drainTimeout, the remaining ones lose their connection and with it their context.
func (l lifecycle) drain(srv *http.Server, ln net.Listener) {
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	_ = ln.Close() // Serve returns; an error means that ln is closed already
	if l.plain != nil {
		_ = l.plain.Close() // what it answers can be asked again
	}
	l.streams()
	// Any other error of Shutdown is from closing ln again, and occurs after the last request.
	if err := srv.Shutdown(ctx); errors.Is(err, context.DeadlineExceeded) {
		l.log.Warn("requests aborted", "after", drainTimeout.String())
		_ = srv.Close()
	}
}

// warnedListener logs why connections cannot be accepted, mostly because all file descriptors are
// in use. net/http retries forever.
type warnedListener struct {
	net.Listener
	log *slog.Logger
}

func (l warnedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil && !errors.Is(err, net.ErrClosed) {
		l.log.Warn("a connection cannot be accepted", "error", err)
	}
	return c, err
}

// gate counts the running requests. http.Server.Shutdown is not enough before the store is closed:
// it waits neither for hijacked connections nor for a request that arrives on an idle connection
// while it closes that, and Close does not wait at all.
type gate struct {
	mu     sync.Mutex
	closed bool
	inside sync.WaitGroup
}

func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.inside.Add(1)
	return true
}

func (g *gate) leave() { g.inside.Done() }

// shut refuses new requests and waits for the running ones.
func (g *gate) shut() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.inside.Wait()
}
