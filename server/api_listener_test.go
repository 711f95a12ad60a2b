package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"attestd/internal/must"
)

var handshake = []string{"Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AQIDBAUGBwgJCgsMDQ4PEA=="}

// listener is a client of the stream.
type listener struct {
	t    testing.TB
	conn *websocket.Conn
	res  *http.Response
}

// listen opens the stream with the caller's credential, if any.
func (c caller) listen(t testing.TB, headers ...string) *listener {
	t.Helper()
	h := c.request(t, "GET /v1/ws", "", headers...).Header
	conn, res, err := websocket.DefaultDialer.DialContext(t.Context(), "ws"+strings.TrimPrefix(c.url, "http")+"/v1/ws", h)
	must.OK(t, err)
	t.Cleanup(func() { conn.Close() })
	return &listener{t, conn, res}
}

// message is a message of the stream.
type message struct {
	raw    []byte
	record record

	Type          string
	Record        json.RawMessage
	Valid         bool
	MerkleRoot    *string
	FailedAtIndex *int
}

// next waits for a message.
func (l *listener) next() message {
	l.t.Helper()
	must.OK(l.t, l.conn.SetReadDeadline(time.Now().Add(20*time.Second)))
	kind, raw, err := l.conn.ReadMessage()
	must.OK(l.t, err)
	if kind != websocket.TextMessage {
		l.t.Fatalf("a message of kind %d", kind)
	}
	m := message{raw: raw}
	must.OK(l.t, json.Unmarshal(raw, &m))
	m.record = recordIn(l.t, m.Record)
	return m
}

// valid waits for a message about a record of a company that reports a valid chain.
func (l *listener) valid(company string, index int) message {
	l.t.Helper()
	m := l.next()
	if err := like(l.t, `{"type":"record","record":"<anything>","valid":true,"merkleRoot":"<hash>"}`, m.raw); err != nil {
		l.t.Fatalf("%v\n%s", err, m.raw)
	}
	m.about(l.t, company, index)
	return m
}

// invalid waits for a message about a record of a company that reports where the chain fails.
func (l *listener) invalid(company string, index, failsAt int) {
	l.t.Helper()
	m := l.next()
	if err := like(l.t, fmt.Sprintf(`{"type":"record","record":"<anything>","valid":false,"failedAtIndex":%d}`, failsAt), m.raw); err != nil {
		l.t.Fatalf("%v\n%s", err, m.raw)
	}
	m.about(l.t, company, index)
}

func (m message) about(t testing.TB, company string, index int) {
	t.Helper()
	if m.record.Payload.CompanyID != company || m.record.Index != index {
		t.Fatalf("a message about %s record %d, want %s record %d", m.record.Payload.CompanyID, m.record.Index, company, index)
	}
}
