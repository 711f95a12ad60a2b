package server

import (
	"context"
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

// Times and sizes of the HTTP server. There is no WriteTimeout: it counts from the request's
// header, and would cut a long chain that its reader is taking at a good pace, or a long
// verification before its first byte. Each write has a deadline of its own instead, which
// limit.Listener sets.
const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = time.Minute // header and body: 4 MiB needs 560 kbit/s
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
	drainTimeout      = 10 * time.Second // for requests under way when we stop
)

// verifyWorkers is how many goroutines check signatures for GET /v1/verify: one for each core that
// Go may use.
func verifyWorkers() int { return runtime.GOMAXPROCS(0) }

// Run serves on ln until ctx is done or a part of the server fails, and returns when everything it
// started has ended; nil after a stop by ctx. ln is closed; the store is not, and nothing uses it
// any more.
func (s *Server) Run(ctx context.Context, ln net.Listener) error {
	s.loopback = isLoopback(ln.Addr())
	l := lifecycle{
		handler: s.Handler(),
		streams: s.endStreams,
		log:     s.Log,
		begin:   s.recordStart,
		workers: []worker{
			s.write,
			func(ctx context.Context) error { return watchClock(ctx, clocks(), s.Log) },
			s.compareClocks,
			func(ctx context.Context) error { return s.monitor.Run(ctx, s.hub.Broadcast) },
			s.deliverer.run,
			s.watchRemoteChanges,
			s.Store.Summarize,
			s.tables.run,
			func(ctx context.Context) error { return watchCheckpoints(ctx, s.Store, s.Log) },
		},
	}
	for _, p := range s.witnessPublishers {
		l.workers = append(l.workers, p.run)
	}
	return l.run(ctx, limit.Listen(ln, s.Budgets.Connections, s.TrustedProxies, s.Log))
}

// write runs the one goroutine that writes the database. It is stopped after the last request.
func (s *Server) write(ctx context.Context) error {
	return s.Store.Run(ctx, store.RunOptions{Publish: s.publish, Grown: s.grown, Others: s.monitor.Grown, Changed: s.changes.note, WentBack: s.hub.WentBack, AcceptClock: s.AcceptClock, Steady: steadyClock(), Log: s.Log})
}

// endStreams ends what goes out of itself, the clients of the stream and what is sent to webhooks,
// both at once.
func (s *Server) endStreams() {
	var ending sync.WaitGroup
	ending.Go(s.hub.Close)
	ending.Go(s.deliverer.close)
	ending.Wait()
	s.webhooks.Close()
}

// publish hands what was committed to those who must hear of it in order.
func (s *Server) publish(batch []chain.Extension, external bool) {
	records := 0
	for i := range batch {
		records += len(batch[i].Records)
	}
	s.deliverer.pace.appended(records, time.Now())
	s.monitor.Publish(batch, external)
}

// recordStart has the control logs say under which settings the service runs from now on, before it
// answers anybody. Where nothing can be written it serves all the same, for reads go on; the next
// start makes up for it.
func (s *Server) recordStart(ctx context.Context) {
	err := s.Store.RecordStart(ctx, s.trustSettings())
	if err != nil {
		s.Log.Warn("the control logs do not say yet under which settings the service runs", "error", err)
	}
}

// trustSettings are the settings that bear on trust, as control records name them.
func (s *Server) trustSettings() map[string]string {
	var witnesses []string
	for _, w := range s.Witnesses {
		witnesses = append(witnesses, w.Key().String())
	}
	switchedOn := map[bool]string{true: "on", false: "off"}
	return map[string]string{
		"program":              "attestd/" + s.Version,
		"publicAddress":        s.BaseURL,
		"stream":               s.Stream.String(),
		"registrationToken":    s.Registration.fingerprint(),
		"registration":         s.Registration.Mode.String(),
		"recoverEndpoint":      switchedOn[s.RecoverEndpoint],
		"acceptClock":          switchedOn[s.AcceptClock],
		"allowedOrigins":       strings.Join(s.AllowedOrigins, " "),
		"witnesses":            strings.Join(witnesses, " "),
		"webhooksAllowPrivate": switchedOn[s.WebhooksAllowPrivate],
		"cosignFor":            s.CosignFor,
		"limits":               s.Limits.String(),
		"bounds":               s.Bounds.String(),
		"trustedProxies":       fmt.Sprint(s.TrustedProxies),
	}
}

// worker runs until ctx is done. It may then return ctx.Err().
type worker func(ctx context.Context) error

// lifecycle starts the parts of a server together and stops them in order.
type lifecycle struct {
	handler http.Handler
	// is done before the first request is answered, beside the workers
	begin func(context.Context)
	// ends what goes out of itself, streams and webhooks, and waits for that
	streams func()
	workers []worker
	log     *slog.Logger
}

func (l lifecycle) run(ctx context.Context, ln net.Listener) error {
	g, stop := errgroup.WithContext(ctx) // stop is done when ctx is, or when a part has failed
	// What a request needs must outlive it, so the workers' context is their own.
	work, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	for _, w := range l.workers {
		g.Go(func() error {
			if err := w(work); work.Err() == nil || !errors.Is(err, context.Canceled) {
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
		// of peers' mistakes; our own are logged by handle and warnedListener
		ErrorLog: slog.NewLogLogger(l.log.Handler(), slog.LevelDebug),
	}
	g.Go(func() error {
		l.begin(work)
		if err := srv.Serve(warnedListener{ln, l.log}); stop.Err() == nil {
			return err
		}
		return nil
	})
	g.Go(func() error {
		<-stop.Done()
		defer stopWork()
		l.drain(srv, ln)
		open.shut()
		return nil
	})
	return g.Wait()
}

// drain stops accepting, ends streams and webhooks, and lets requests end; those that have not
// after drainTimeout lose their connection and with it their context.
func (l lifecycle) drain(srv *http.Server, ln net.Listener) {
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	_ = ln.Close() // Serve returns; the error, if any, is that it is closed already
	l.streams()
	// Any other error of Shutdown is that of closing ln once more, and comes after the last
	// request.
	if err := srv.Shutdown(ctx); errors.Is(err, context.DeadlineExceeded) {
		l.log.Warn("requests cut off", "after", drainTimeout.String())
		_ = srv.Close()
	}
}

// warnedListener logs why no connection can be accepted: mostly all descriptors are in use.
// net/http then tries again, for ever.
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

// gate counts the requests that are being handled. http.Server.Shutdown alone is not enough before
// the store is closed: it waits neither for streams nor for a request that comes in on an idle
// connection while it closes that, and Close waits for nobody.
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

// shut lets nobody in any more and waits for those inside.
func (g *gate) shut() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.inside.Wait()
}
