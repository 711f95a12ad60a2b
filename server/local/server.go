package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"

	"attestd/store"
)

const (
	maxBody = 64 << 10
	// connections at which operations run; with more, each request gets the answer that the server
	// is busy
	maxConnections = 16
	maxAccepted    = 64 // connections beyond wait until one ends
	headerTimeout  = 5 * time.Second
	idleTimeout    = 5 * time.Second
	drainTimeout   = 5 * time.Second
)

// Server serves the socket of a database. The zero value of its counters is usable.
type Server struct {
	Operations
	Log *slog.Logger

	path     string
	listener net.Listener
	made     fs.FileInfo // of the socket

	open, served, refused, busy atomic.Int64
	reading                     sync.Mutex // of an archive: one at a time
}

// Status is what a server has done.
type Status struct {
	Path    string // of the socket; "" while there is none
	Served  int64  // requests
	Refused int64  // connections of others
	Busy    int64  // requests on too many connections
}

// Status may be called at any time.
func (s *Server) Status() Status {
	return Status{s.path, s.served.Load(), s.refused.Load(), s.busy.Load()}
}

// Listen opens the socket of a database file, which this process has locked. It removes the socket
// of a server that was killed, and nothing else.
func (s *Server) Listen(db string) error {
	path, err := place(db)
	if err != nil {
		return err
	}
	switch info, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s is there and is no socket: remove it", path)
	default:
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	err = reachable(path, func(path string) (err error) {
		s.listener, err = privately(func() (net.Listener, error) { return net.Listen("unix", path) })
		return err
	})
	if err != nil {
		return err
	}
	s.listener.(*net.UnixListener).SetUnlinkOnClose(false) // its name may be one through a folder
	if err := os.Chmod(path, 0o600); err != nil {
		s.Close()
		return err
	}
	s.path = path
	s.made, err = os.Lstat(path)
	return err
}

// Close removes the socket, unless another one is there by now.
func (s *Server) Close() {
	if s.listener != nil {
		_ = s.listener.Close()
		if there, err := os.Lstat(s.path); err == nil && os.SameFile(there, s.made) {
			_ = os.Remove(s.path)
		}
	}
}

// Run serves until ctx is done, and returns when the last request has ended. Without Listen it
// waits.
func (s *Server) Run(ctx context.Context) error {
	if s.listener == nil {
		<-ctx.Done()
		return ctx.Err()
	}
	defer s.Close()
	server := &http.Server{Handler: s.unlessBusy(s.handler()), ReadHeaderTimeout: headerTimeout, ReadTimeout: headerTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: 8 << 10, ErrorLog: slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug)}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(&own{s.listener, s, make(chan struct{}, maxAccepted)}) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	if server.Shutdown(drain) != nil {
		_ = server.Close()
	}
	<-ended
	return ctx.Err()
}

// unlessBusy answers requests on too many connections before anything of them is read, so that
// their callers know that nothing was carried out.
func (s *Server) unlessBusy(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.open.Load() <= maxConnections {
			next.ServeHTTP(w, r)
			return
		}
		s.busy.Add(1)
		w.Header().Set("Connection", "close")
		answer(w, http.StatusServiceUnavailable, failure{ErrBusy.Error(), "busy"})
	})
}

// own accepts connections of the process's own user and of root.
type own struct {
	net.Listener
	s     *Server
	seats chan struct{} // has an element for each open connection
}

func (l *own) Accept() (net.Conn, error) {
	l.seats <- struct{}{}
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			<-l.seats
			return nil, err
		}
		if uid, known := peer(c); known && uid != 0 && uid != os.Geteuid() {
			l.s.refused.Add(1)
			l.s.Log.Warn("a process of another user was refused at the local socket", "uid", uid)
			_ = c.Close()
			continue
		}
		l.s.open.Add(1)
		return &counted{Conn: c, in: l}, nil
	}
}

// counted counts a connection until it is closed.
type counted struct {
	net.Conn
	in     *own
	closed atomic.Bool
}

func (c *counted) Close() error {
	if !c.closed.Swap(true) {
		c.in.s.open.Add(-1)
		<-c.in.seats
	}
	return c.Conn.Close()
}

// handler has the operations alone: no other part of the service can be reached here.
func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /company/list", s.list)
	mux.HandleFunc("POST /company/show", operation(s, func(ctx context.Context, r struct {
		CompanyID string `json:"companyId"`
	}) (Company, error) {
		return s.Show(ctx, r.CompanyID)
	}))
	mux.HandleFunc("POST /company/suspend", operation(s, s.Suspend))
	mux.HandleFunc("POST /company/resume", operation(s, s.Resume))
	mux.HandleFunc("POST /company/quota", operation(s, s.SetQuota))
	mux.HandleFunc("POST /person/invite", operation(s, s.InvitePerson))
	mux.HandleFunc("POST /rotate-key", operation(s, s.RotateKey))
	mux.HandleFunc("POST /archive", operation(s, s.Archive))
	mux.HandleFunc("POST /prune", operation(s, s.Prune))
	mux.HandleFunc("POST /prune/{companyId}", s.beginPrune)
	mux.HandleFunc("POST /state", operation(s, func(ctx context.Context, _ struct{}) (State, error) {
		if s.State == nil {
			return State{}, fmt.Errorf("%w: the server has not begun to serve", store.ErrUnavailable)
		}
		return s.State(ctx), nil
	}))
	return mux
}

// operation decodes a request, runs the operation and encodes its answer.
func operation[Request, Answer any](s *Server, run func(context.Context, Request) (Answer, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var request Request
		if !s.read(w, r, &request) {
			return
		}
		// A change is not given up halfway because the command has gone.
		found, err := run(context.WithoutCancel(r.Context()), request)
		if err != nil {
			s.fail(w, r, err)
			return
		}
		s.Log.Info("local command", "command", r.URL.Path)
		answer(w, http.StatusOK, found)
	}
}

// read decodes the body of a request, and answers one that is none.
func (s *Server) read(w http.ResponseWriter, r *http.Request, into any) bool {
	s.served.Add(1)
	err := json.UnmarshalRead(http.MaxBytesReader(w, r.Body, maxBody), into, json.RejectUnknownMembers(true))
	if err != nil {
		answer(w, http.StatusBadRequest, failure{Error: err.Error()})
	}
	return err == nil
}

func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	if !s.read(w, r, new(struct{})) {
		return
	}
	began := false
	for c, err := range s.List(r.Context()) {
		if err != nil && began {
			panic(http.ErrAbortHandler)
		}
		if err != nil {
			s.fail(w, r, err)
			return
		}
		began = true
		line, err := json.Marshal(c)
		if err == nil {
			_, err = w.Write(append(line, '\n'))
		}
		if err != nil {
			panic(http.ErrAbortHandler)
		}
	}
}

// fail answers with an error and the sentinel that it wraps.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	s.Log.Warn("local command failed", "command", r.URL.Path, "error", err)
	f, status := failure{Error: err.Error()}, http.StatusInternalServerError
	for kind, sentinel := range kinds {
		if errors.Is(err, sentinel) && (f.Kind == "" || sentinel == store.ErrUnknown) {
			f.Kind, status = kind, http.StatusConflict
		}
	}
	answer(w, status, f)
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.MarshalWrite(w, body) // the command is gone
}
