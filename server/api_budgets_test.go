package server_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/server"
	"attestd/server/limit"
)

// underway is a request whose body has arrived in part.
type underway struct {
	t        testing.TB
	rest     string
	body     *io.PipeWriter
	answered chan *reply
}

// begin sends a request except for the last byte of its body, and returns when the server has
// accepted that part.
func (c caller) begin(t testing.TB, call, body string) underway {
	t.Helper()
	req := c.request(t, call, body)
	r, w := io.Pipe()
	req.Body, req.RemoteAddr = r, "127.0.0.1:1"
	u := underway{t, body[len(body)-1:], w, make(chan *reply, 1)}
	go func() { u.answered <- c.serve(t, req) }()
	_, err := io.WriteString(w, body[:len(body)-1])
	must.OK(t, err)
	_, _ = w.Write(nil) // the rest is read when there is room for it
	return u
}

func (u underway) finish() *reply {
	u.t.Helper()
	_, _ = io.WriteString(u.body, u.rest)
	must.OK(u.t, u.body.Close())
	return <-u.answered
}

// attestation returns a body of an attest of a given size.
func attestation(size int) string {
	const head, tail = `{"agentId":"a","actionType":"b","payload":"`, `"}`
	return head + strings.Repeat("x", size-len(head)-len(tail)) + tail
}

// Request bodies in progress have a budget. A request over the budget is not carried out, and its
// answer asks for a retry. Other requests continue, and all do when the bodies are complete.
func TestBodiesHaveABudget(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	testenv.Concurrent(t)
	t.Parallel()
	s := start(t, func(c *server.Config) {
		c.MaxBody = 32 << 10
		c.Budgets.Bodies = limit.Bodies(256<<10, c.MaxBody) // 64 KiB for each
	})
	acme, globex := s.company(t, "acme"), s.company(t, "globex")
	const attest = "POST /v1/attest"
	slow := []underway{acme.begin(t, attest, attestation(30<<10)), acme.begin(t, attest, attestation(30<<10))}
	acme.do(t, attest, attestation(8<<10)).gets(503, `{"error":"…","code":"NOT_DONE","requestId":"…"}`).sets("Retry-After: <number>")
	acme.do(t, "GET /v1/company", "").status(200) // a request without a body needs no room
	globex.do(t, attest, attestation(30<<10)).status(201)
	for _, u := range slow {
		u.finish().status(201)
	}
	acme.do(t, attest, attestation(8<<10)).status(201)
	if n := len(acme.checkChain(t)); n != 3 {
		t.Errorf("%d records, want 3", n)
	}
}

// Bodies without a credential never use the room that is reserved for requests with one.
func TestAnonymousBodiesLeaveRoom(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	s := start(t, func(c *server.Config) {
		c.MaxBody = 32 << 10
		c.Budgets.Bodies = limit.Bodies(128<<10, c.MaxBody) // 64 KiB for unauthenticated callers
	})
	acme := s.company(t, "acme")
	company := `{"companyId":"globex","metadata":{"x":"` + strings.Repeat("x", 15<<10) + `"}}`
	var slow []underway
	for range 4 {
		slow = append(slow, s.anyone().begin(t, "POST /v1/companies", company))
	}
	s.anyone().do(t, "POST /v1/companies", `{"companyId":"late","metadata":{"x":"`+strings.Repeat("x", 4<<10)+`"}}`).status(503)
	acme.do(t, "POST /v1/attest", attestation(30<<10)).status(201)
	created := 0
	for _, u := range slow {
		if u.finish().code == 201 {
			created++
		}
	}
	if created != 1 {
		t.Errorf("%d of 4 slow registrations of one company were carried out", created)
	}
	s.anyone().do(t, "POST /v1/companies", `{"companyId":"late"}`).status(201)
}

// The number of connections is limited. A connection over the limit is answered 503 and closed,
// open ones go on, and each that closes makes room.
func TestConnectionsHaveABound(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	s := start(t, func(c *server.Config) { c.Budgets.Connections = limit.Size{Most: 3, Share: 1} })
	const health = "GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n"
	dial := func() (net.Conn, *bufio.Reader) {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		must.OK(t, err)
		t.Cleanup(func() { conn.Close() })
		return conn, bufio.NewReader(conn)
	}
	ask := func(conn net.Conn, from *bufio.Reader) int {
		t.Helper()
		_, err := io.WriteString(conn, health)
		must.OK(t, err)
		res, err := http.ReadResponse(from, nil)
		must.OK(t, err)
		_, err = io.Copy(io.Discard, res.Body)
		must.OK(t, err)
		return res.StatusCode
	}
	first, answers := dial()
	for range 2 { // loopback addresses have no share of their own
		conn, from := dial()
		if status := ask(conn, from); status != 200 {
			t.Errorf("within the bound: %d", status)
		}
	}
	if status := ask(first, answers); status != 200 {
		t.Errorf("the first: %d", status)
	}
	_, refused := dial() // it sends nothing, so that no reset overtakes the answer
	res, err := http.ReadResponse(refused, nil)
	must.OK(t, err)
	if res.StatusCode != 503 || res.Header.Get("Retry-After") == "" {
		t.Errorf("over the bound: %d %v", res.StatusCode, res.Header)
	}
	if _, err := refused.ReadByte(); err != io.EOF {
		t.Errorf("over the bound the connection ends with %v", err)
	}
	if status := ask(first, answers); status != 200 {
		t.Errorf("the first, afterwards: %d", status)
	}
	_, err = io.WriteString(first, "GET /v1/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
	must.OK(t, err)
	_, err = io.Copy(io.Discard, answers) // until the server has closed it
	must.OK(t, err)
	conn, from := dial()
	if status := ask(conn, from); status != 200 {
		t.Errorf("in its place: %d", status)
	}
}
