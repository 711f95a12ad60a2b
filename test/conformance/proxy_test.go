package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"attestd/internal/testenv"
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
	Bytes      int
}

// proxy is between a client and the server, and causes the faults of the step.
type proxy struct {
	URL    string
	server string // address of the server behind
	http   http.Client

	mu       sync.Mutex
	faults   []fault
	requests int
	keys     map[string]bool // Idempotency-Key of the requests to POST /v1/attest
	keyless  bool            // one of these had none
	conns    []net.Conn      // that no handler closes

	sending sync.WaitGroup // what is sent after the answer of a request
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
		for _, conn := range p.conns {
			conn.Close()
		}
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
	p.sending.Wait()
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

// answersEarly reports whether the next request is answered before its end.
func (p *proxy) answersEarly() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.faults) > 0 && p.faults[0].Do == "early"
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if p.answersEarly() {
		early(w, p.next(r, nil))
		return
	}
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
	case "cutAbove":
		if len(sent) > now.Bytes {
			cut(w)
			return
		}
	case "endless":
		w.WriteHeader(now.Status)
		for piece := bytes.Repeat([]byte(" "), 64<<10); err == nil; {
			_, err = w.Write(piece)
		}
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
		_, _ = io.WriteString(w, now.body()) // to a client that may be gone
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
	case "second", "drip":
		p.raw(w, now, answer, body)
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

// body is the answer of a fault.
func (f fault) body() string {
	if f.Body != "" {
		return f.Body
	}
	// strings always can be
	body, _ := json.Marshal(map[string]string{"error": http.StatusText(f.Status), "code": f.Code, "pointer": f.Pointer})
	return string(body)
}

// text is a whole answer as it is sent.
func (f fault) text() string {
	body := f.body()
	return fmt.Sprintf("HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nX-Request-ID: answered\r\nContent-Length: %d\r\n", f.Status, http.StatusText(f.Status), len(body)) +
		"\r\n" + body
}

// early answers while the client sends, and resets the connection.
func early(w http.ResponseWriter, f fault) {
	conn, from, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, strings.Replace(f.text(), "\r\n", "\r\nConnection: close\r\n", 1))
	_ = conn.SetReadDeadline(time.Now().Add(time.Second))
	_, _ = io.CopyN(io.Discard, from, 1<<20)
	// The client reads, or waits until it can send. The reset takes from it what it has not read,
	// so it needs more time where it is slow.
	wait := time.Duration(f.Millis) * time.Millisecond
	if testenv.Raced {
		wait *= 5
	}
	time.Sleep(wait)
	if tcp, is := conn.(*net.TCPConn); is {
		_ = tcp.SetLinger(0)
	}
}

// raw sends the server's answer byte by byte, or another one behind it.
func (p *proxy) raw(w http.ResponseWriter, f fault, answer *http.Response, body []byte) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	p.mu.Lock()
	p.conns = append(p.conns, conn)
	p.mu.Unlock()
	var rest bytes.Buffer
	answer.Header.Set("Content-Length", strconv.Itoa(len(body)))
	_ = answer.Header.Write(&rest) // to a buffer
	rest.WriteString("\r\n")
	rest.Write(body)
	_, _ = fmt.Fprintf(conn, "HTTP/1.1 %d %s\r\n", answer.StatusCode, http.StatusText(answer.StatusCode))
	const pause = 20 * time.Millisecond
	if f.Do == "drip" {
		rest = *bytes.NewBufferString("\r\n" + rest.String())
		_, err = io.WriteString(conn, "X-Slow: ")
		for range time.Duration(f.Millis) * time.Millisecond / pause {
			if err == nil {
				time.Sleep(pause)
				_, err = io.WriteString(conn, "x")
			}
		}
	}
	if f.Do == "second" { // the step goes on until it is sent
		p.sending.Add(1)
		defer p.sending.Done()
	}
	_, _ = conn.Write(rest.Bytes())
	if f.Do == "second" {
		time.Sleep(2 * pause) // it comes by itself
		_, _ = io.WriteString(conn, f.text())
		// Clients that watch their idle connections need a moment to see it.
		time.Sleep(5 * pause)
	}
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
