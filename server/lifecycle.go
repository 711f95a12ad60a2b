package server

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
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
	lastTimeout       = 5 * time.Second  // for what they have left to be written
)

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
	// writes what the requests have left, after the last one, until ctx is done; nil for nothing
	last func(ctx context.Context)
	log  *slog.Logger

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
		if l.last != nil {
			ending, cancel := context.WithTimeout(work, lastTimeout)
			defer cancel()
			l.last(ending)
		}
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
