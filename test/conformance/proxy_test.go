package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// fault is what happens to a request.
type fault struct {
	Do         string
	Times      int
	Status     int
	Code, Body string
	Pointer    string
	At         string
	To         json.RawMessage
	RetryAfter string
	Close      bool
	Foreign    bool
	Millis     int
}

// proxy stands between a client and the server, and breaks what the step says.
type proxy struct {
	URL    string
	server string // address of the server behind
	http   http.Client

	mu       sync.Mutex
	faults   []fault
	requests int
	keys     map[string]bool // Idempotency-Key of the requests to POST /v1/attest
	keyless  bool            // one of these had none
}

// front is the address under which clients know a server. It hands each request to the proxy of the
// case under way.
type front struct {
	*httptest.Server
	proxy atomic.Pointer[proxy]
}

func newFront(t *testing.T) *front {
	f := new(front)
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { f.proxy.Load().ServeHTTP(w, r) }))
	t.Cleanup(f.Close)
	return f
}

func newProxy(t *testing.T, front *front, server string) *proxy {
	p := &proxy{server: server, http: http.Client{Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 8}}}
	front.proxy.Store(p)
	t.Cleanup(func() {
		front.CloseClientConnections() // a client may still wait for a slow answer
		p.http.CloseIdleConnections()
	})
	p.URL = front.URL
	return p
}

// begin sets what happens from now on, and forgets what was.
func (p *proxy) begin(faults []fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults, p.requests, p.keys, p.keyless = append([]fault(nil), faults...), 0, map[string]bool{}, false
}

// end returns what went on since begin.
func (p *proxy) end() (requests, keys int, keyless bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = nil
	return p.requests, len(p.keys), p.keyless
}

func (p *proxy) next(r *http.Request, body []byte) fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests++
	var signed struct{ Statement string } // which is its own key
	if r.Method == http.MethodPost && r.URL.Path == "/v1/attest" && (json.Unmarshal(body, &signed) != nil || signed.Statement == "") {
		key := r.Header.Get("Idempotency-Key")
		p.keys[key], p.keyless = true, p.keyless || key == ""
	}
	if len(p.faults) == 0 {
		return fault{}
	}
	now := p.faults[0]
	switch {
	case now.Times > 1:
		p.faults[0].Times--
	case now.Times >= 0:
		p.faults = p.faults[1:]
	}
	return now
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	sent, err := io.ReadAll(r.Body)
	if err != nil {
		cut(w)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(sent))
	now := p.next(r, sent)
	switch now.Do {
	case "cutBefore":
		cut(w)
		return
	case "lie":
		if _, _, err := p.forward(r, sent); err != nil {
			cut(w)
			return
		}
		fallthrough
	case "answer":
		w.Header().Set("Content-Type", "application/json")
		if !now.Foreign {
			w.Header().Set("X-Request-ID", "answered")
		}
		if now.RetryAfter != "" {
			w.Header().Set("Retry-After", now.RetryAfter)
		}
		if now.Close {
			w.Header().Set("Connection", "close")
		}
		w.WriteHeader(now.Status)
		if now.Body == "" {
			// strings always can be
			body, _ := json.Marshal(map[string]string{"error": http.StatusText(now.Status), "code": now.Code, "pointer": now.Pointer})
			now.Body = string(body)
		}
		_, _ = io.WriteString(w, now.Body) // to a client that may be gone
		return
	}
	if r.Header.Get("Upgrade") != "" {
		(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: p.server}) }}).ServeHTTP(w, r)
		return
	}
	answer, body, err := p.forward(r, sent)
	if err == nil && now.Do == "change" {
		body, err = changed(body, now.At, now.To)
		answer.Header.Set("Content-Length", fmt.Sprint(len(body)))
	}
	if err != nil {
		cut(w)
		return
	}
	for name, values := range answer.Header {
		w.Header()[name] = values
	}
	switch now.Do {
	case "cutAfter":
		cut(w)
	case "cutAnswer":
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		w.WriteHeader(answer.StatusCode)
		_, _ = w.Write(body[:len(body)/2])
		panic(http.ErrAbortHandler)
	case "slow":
		select {
		case <-r.Context().Done():
		case <-time.After(time.Duration(now.Millis) * time.Millisecond):
		}
		fallthrough
	default:
		w.WriteHeader(answer.StatusCode)
		_, _ = w.Write(body)
	}
}

// forward carries a request to the server, and reads the whole answer.
func (p *proxy) forward(r *http.Request, sent []byte) (*http.Response, []byte, error) {
	request, err := http.NewRequest(r.Method, "http://"+p.server+r.URL.RequestURI(), bytes.NewReader(sent))
	if err != nil {
		return nil, nil, err
	}
	request.Header = r.Header.Clone()
	request.Host = r.Host // what an agent signs to sign in names the address that it knows
	for name := range request.Header {
		if strings.HasPrefix(name, "X-Forwarded") || name == "Connection" {
			request.Header.Del(name)
		}
	}
	answer, err := p.http.Do(request)
	if err != nil {
		return nil, nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return answer, body, err
}

// cut ends a connection without a word.
func cut(w http.ResponseWriter) {
	if h, ok := w.(http.Hijacker); ok {
		if conn, _, err := h.Hijack(); err == nil {
			conn.Close()
			return
		}
	}
	panic(http.ErrAbortHandler)
}
