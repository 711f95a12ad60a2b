package mcpproxy

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"attestd/agent/localhttp"
	"attestd/internal/bounded"
)

const (
	maxSessions           = 1000        // of clients at the same time
	maxRequestsInProgress = 1024        // of clients, each with its response
	sessionIdle           = time.Hour   // a session without a request ends after it
	bodyTimeout           = time.Minute // for a client to send a request, or to read
	deleteTimeout         = time.Minute // for the server to end a session
	maxSessionID          = 1024        // bytes
)

// GatewayConfig configures a gateway. All but Port are required.
type GatewayConfig struct {
	Config // of every session, but for Session and Recorder
	Remote *Remote
	Port   string // on which it listens
	// Open returns the recorder of a new session.
	Open func(session string) (Recorder, error)
}

// Gateway is a proxy between MCP clients and a server over streamable HTTP. The messages of each
// client's session (Mcp-Session-Id) are judged and recorded as those of a Proxy. Requests without a
// session share one, but not their IDs.
type Gateway struct {
	GatewayConfig
	ctx       context.Context // ends when the gateway is closed
	stop      context.CancelCauseFunc
	exchanges atomic.Uint64
	places    *semaphore.Weighted // for requests
	held      *semaphore.Weighted // bytes

	mu       sync.Mutex
	closed   bool
	sessions map[string]*gatewaySession   // by Mcp-Session-Id; "" for requests without one
	idle     *bounded.Map[string, string] // of those that ended so: their session in the records
	ending   sync.WaitGroup
	err      error // of sessions that have ended
}

// gatewaySession is a session of a client.
type gatewaySession struct {
	proxy  *Proxy
	finish func(why string) error
	ctx    context.Context // ends with the session
	stop   context.CancelCauseFunc
	users  int       // requests in progress
	used   time.Time // the last one ended
	over   bool      // a new request with its ID begins another one
}

// Reasons why a request ends before its response.
var (
	errStopped      = errors.New("the proxy was stopped before the server answered")
	errSessionEnded = errors.New("the session ended before the server answered")
	errOverdue      = errors.New("no answer came within " + callLife.String())
	errDisconnected = errors.New("the client disconnected before the server answered")
	errIncomplete   = errors.New("the server ended its response before it answered")
)

// NewGateway returns a gateway. The caller MUST call Close.
func NewGateway(c GatewayConfig) *Gateway {
	if c.MaxLine == 0 {
		c.MaxLine = DefaultMaxLine
	}
	if c.Warn == nil {
		c.Warn = func(string) {}
	}
	g := &Gateway{
		GatewayConfig: c, places: semaphore.NewWeighted(maxRequestsInProgress), held: semaphore.NewWeighted(maxHeld),
		sessions: make(map[string]*gatewaySession), idle: bounded.NewMap[string, string](maxSessions),
	}
	g.ctx, g.stop = context.WithCancelCause(context.Background())
	g.ending.Go(g.sweep)
	return g
}

// Handler serves the server's own path to programs of this machine.
func (g *Gateway) Handler() http.Handler {
	return localhttp.Only(g.Port, nil, http.HandlerFunc(g.serve))
}

func (g *Gateway) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if r.URL.EscapedPath() != g.Remote.URL.EscapedPath() || r.URL.RawQuery != "" && r.URL.RawQuery != g.Remote.URL.RawQuery {
		http.Error(w, "attestd mcp serves only "+g.Remote.URL.EscapedPath(), http.StatusNotFound)
		return
	}
	ids := r.Header["Mcp-Session-Id"]
	if len(ids) > 1 || len(ids) == 1 && (ids[0] == "" || len(ids[0]) > maxSessionID || !isPrintable(ids[0])) {
		http.Error(w, "Mcp-Session-Id is malformed", http.StatusBadRequest)
		return
	}
	if r.Method != http.MethodPost && r.Method != http.MethodGet && r.Method != http.MethodDelete {
		w.Header().Set("Allow", "GET, POST, DELETE")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	if !g.places.TryAcquire(1) {
		unavailable(w, "too many requests are in progress")
		return
	}
	defer g.places.Release(1)
	s, err := g.enter(strings.Join(ids, ""))
	if err != nil {
		unavailable(w, err.Error())
		return
	}
	defer g.leave(s)
	x := &exchange{Gateway: g, session: s, id: strings.Join(ids, ""), w: w, r: r, out: http.NewResponseController(w),
		budget: &budget{of: g.held}}
	if x.id == "" {
		x.number = g.exchanges.Add(1)
	}
	defer x.budget.release()
	defer func() { _ = x.out.SetWriteDeadline(time.Time{}) }() // of the connection's next response
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	defer context.AfterFunc(s.ctx, func() { cancel(context.Cause(s.ctx)) })()
	x.ctx = ctx
	switch r.Method {
	case http.MethodPost:
		timed, timeout := context.WithTimeoutCause(ctx, callLife, errOverdue)
		defer timeout()
		x.ctx = timed
		x.post()
	case http.MethodGet:
		x.get()
	default:
		timed, timeout := context.WithTimeoutCause(ctx, deleteTimeout, errors.New("the server did not answer in time"))
		defer timeout()
		x.ctx = timed
		x.delete()
	}
}

func unavailable(w http.ResponseWriter, why string) {
	w.Header().Set("Retry-After", "1")
	http.Error(w, "attestd mcp: "+why, http.StatusServiceUnavailable)
}

// enter returns the session with an ID, which it begins if there is none. The caller MUST call
// leave.
func (g *Gateway) enter(id string) (*gatewaySession, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, errors.New("it is being stopped")
	}
	s := g.sessions[id]
	if s == nil {
		if len(g.sessions) >= maxSessions && !g.evict() {
			return nil, errors.New("too many sessions are open")
		}
		c := g.Config
		former, _ := g.idle.Get(id)
		c.Session = cmp.Or(former, NewSession())
		var err error
		if c.Recorder, err = g.Open(c.Session); err != nil {
			g.warn("a session cannot be recorded: %v", err)
			return nil, errors.New("a session cannot be recorded")
		}
		s = &gatewaySession{proxy: New(c)}
		s.proxy.quiet = true
		s.ctx, s.stop = context.WithCancelCause(g.ctx)
		s.finish = s.proxy.open(s.ctx)
		g.sessions[id] = s
		g.idle.Delete(id)
	}
	s.users++
	return s, nil
}

// leave returns a session after a request.
func (g *Gateway) leave(s *gatewaySession) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s.users--
	s.used = time.Now()
	if s.over && s.users == 0 {
		g.finishSession(s)
	}
}

// end ends a session, and with it the requests in progress.
func (g *Gateway) end(id string, s *gatewaySession, why error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.endLocked(id, s, why)
}

func (g *Gateway) endLocked(id string, s *gatewaySession, why error) {
	if s.over {
		return
	}
	s.over = true
	delete(g.sessions, id)
	s.stop(why)
	if s.users == 0 {
		g.finishSession(s)
	}
}

// finishSession records the end of a session that no request uses any more. g.mu is held.
func (g *Gateway) finishSession(s *gatewaySession) {
	g.ending.Go(func() {
		if err := s.finish(context.Cause(s.ctx).Error()); err != nil {
			g.warn("%v", err)
			g.mu.Lock()
			defer g.mu.Unlock()
			g.err = errors.Join(g.err, err)
		}
	})
}

// sweep ends sessions that have had no request for a while and wait for nothing.
func (g *Gateway) sweep() {
	ticker := time.NewTicker(sweepInterval)
	defer ticker.Stop()
	for {
		select {
		case <-g.ctx.Done():
			return
		case now := <-ticker.C:
			g.mu.Lock()
			for id, s := range g.sessions {
				if id != "" && s.users == 0 && now.Sub(s.used) >= sessionIdle && s.proxy.calls.isIdle() {
					g.endIdle(id, s)
				}
			}
			g.mu.Unlock()
		}
	}
}

// evict ends the session that has been idle for longest. A bounded.Map would also remove sessions
// in use, and end none. g.mu is held.
func (g *Gateway) evict() bool {
	oldest, id := (*gatewaySession)(nil), ""
	for key, s := range g.sessions {
		if key != "" && s.users == 0 && s.proxy.calls.isIdle() && (oldest == nil || s.used.Before(oldest.used)) {
			oldest, id = s, key
		}
	}
	if oldest == nil {
		return false
	}
	g.endIdle(id, oldest)
	return true
}

// endIdle ends a session whose client may go on. Signed records then do so in the session in which
// they were, so that what follows names what came before. g.mu is held.
func (g *Gateway) endIdle(id string, s *gatewaySession) {
	g.endLocked(id, s, errSessionEnded)
	if g.Signed {
		g.idle.Put(id, s.proxy.session)
	}
}

// Close ends all requests and sessions, and returns when their outcomes are recorded.
func (g *Gateway) Close() error {
	g.stop(errStopped)
	g.mu.Lock()
	g.closed = true
	for id, s := range g.sessions {
		g.endLocked(id, s, errStopped)
	}
	g.mu.Unlock()
	_ = g.places.Acquire(context.Background(), maxRequestsInProgress) // all requests have left
	g.places.Release(maxRequestsInProgress)
	g.ending.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

func (g *Gateway) warn(format string, args ...any) { (&Proxy{Config: g.Config}).warn(format, args...) }
