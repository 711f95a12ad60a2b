package attack

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"attestd/internal/harness"
	"attestd/internal/sleep"
)

// lateBodies begins requests with a valid credential, and ends them when it has become invalid,
// which must decide. A request without a valid credential must be refused before its body is read.
func lateBodies(ctx context.Context, r *run) error {
	s, _, err := r.Lab.ServeNew(ctx, "--rate-limits", "off")
	if err != nil {
		return err
	}
	defer func() { _ = s.Stop() }()
	c := &harness.Client{Addr: s.Addr}
	defer c.Close()
	own, err := c.Register("acme")
	if err != nil {
		return err
	}
	var made struct{ Key string }
	var issued struct{ Passport string }
	err = errors.Join(
		c.Call(201, harness.Request{Method: "POST", Path: "/v1/keys", Key: own}, &made),
		c.RegisterBot(own),
		c.Call(201, harness.Request{Method: "POST", Path: "/v1/agents/bot/passport", Key: own, Body: `{"ttl":2}`}, &issued))
	if err != nil {
		return err
	}
	attest := harness.Request{Method: "POST", Path: "/v1/attest", Key: made.Key,
		Body: `{"agentId":"a","actionType":"late","payload":1}`}
	verify := harness.Request{Method: "POST", Path: "/v1/passport/verify", Key: own, Body: `{"passport":"` +
		issued.Passport + `"}`}
	unknown := attest
	unknown.Key = "svc_unknown"
	var halves []*half
	defer func() {
		for _, h := range halves {
			h.conn.Close()
		}
	}()
	for _, request := range []harness.Request{attest, verify, unknown} {
		h, err := begin(s.Addr, request)
		if err != nil {
			return err
		}
		halves = append(halves, h)
	}
	if status, text, err := halves[2].answer(); status != http.StatusUnauthorized {
		r.Errorf("who has no credential is answered %d %.200s %v before his body", status, text, err)
	}
	if err := c.Call(200, harness.Request{Method: "DELETE", Path: "/v1/keys/" + made.Key, Key: own}, nil); err != nil {
		return err
	}
	if err := sleep.For(ctx, 2100*time.Millisecond); err != nil {
		return err
	}
	for i, want := range []struct {
		status int
		text   string
	}{{401, `"Unauthorized"`}, {400, `"TOKEN_EXPIRED"`}} {
		status, text, err := halves[i].end()
		if status != want.status || !bytes.Contains(text, []byte(want.text)) {
			r.Errorf("%s whose body ended late is answered %d %.200s %v", halves[i].request.Path, status, text, err)
		}
	}
	for _, h := range halves {
		h.conn.Close()
	}
	r.Count(len(halves), "requests")
	return s.Stop()
}

// half is a request of whose body half was sent.
type half struct {
	request harness.Request
	conn    net.Conn
	rest    []byte
}

func begin(addr string, request harness.Request) (*half, error) {
	conn, err := net.DialTimeout("tcp", addr, guardWait)
	if err != nil {
		return nil, err
	}
	text := request.Bytes()
	at := len(text) - len(request.Body)/2
	if _, err := conn.Write(text[:at]); err != nil {
		conn.Close()
		return nil, fmt.Errorf("%s: %w", request.Path, err)
	}
	return &half{request, conn, text[at:]}, nil
}

// end sends the rest and reads the response.
func (h *half) end() (status int, text []byte, err error) {
	if _, err := h.conn.Write(h.rest); err != nil {
		return 0, nil, err
	}
	return h.answer()
}

func (h *half) answer() (status int, text []byte, err error) {
	if err := h.conn.SetReadDeadline(time.Now().Add(guardWait)); err != nil {
		return 0, nil, err
	}
	answer, err := http.ReadResponse(bufio.NewReader(h.conn), nil)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	text, err = io.ReadAll(answer.Body)
	return answer.StatusCode, text, err
}
