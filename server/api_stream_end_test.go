package server_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/server"
	"attestd/server/limit"
)

// ended waits for the end of the connection, whose reason must be the missing credential.
func (l *listener) ended() {
	l.t.Helper()
	must.OK(l.t, l.conn.SetReadDeadline(time.Now().Add(20*time.Second)))
	_, _, err := l.conn.ReadMessage()
	var closed *websocket.CloseError
	if !errors.As(err, &closed) || closed.Code != websocket.ClosePolicyViolation {
		l.t.Errorf("the stream ended with %v, want 1008", err)
	}
}

// A stream ends when the key or the client that opened it is deleted. Streams with other
// credentials, and with none, go on.
func TestStreamEndsWithItsCredential(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	second := acme.with(acme.do(t, "POST /v1/keys", "").status(201).str("key"))
	byKey, byBrowser := second.listen(t), s.anyone().listen(t, "Sec-WebSocket-Protocol: attestd.bearer, "+second.credential)
	byToken := acme.with(acme.oauthToken(t)).listen(t)
	byOther, byNobody := acme.listen(t), s.anyone().listen(t)

	acme.do(t, "DELETE /v1/keys/"+second.credential, "").status(200)
	byKey.ended()
	byBrowser.ended()
	acme.attestMany(t, 1)
	byToken.valid("acme", 0)

	clients := acme.do(t, "GET /v1/oauth/clients", "").status(200).json.(map[string]any)["clients"].([]any)
	acme.do(t, "DELETE /v1/oauth/clients/"+clients[0].(map[string]any)["clientId"].(string), "").status(200)
	byToken.ended()

	acme.attestMany(t, 1)
	for _, l := range []*listener{byOther, byNobody} {
		l.valid("acme", 0)
		l.valid("acme", 1)
	}
}

// An address or a company that has used up its places is answered 503, and clients with a
// credential find places that others cannot take.
func TestStreamPlacesAreReserved(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	testenv.Concurrent(t)
	t.Parallel()
	s := start(t, func(c *server.Config) {
		c.Budgets.Streams = limit.Size{Most: 6, Share: 2, Reserved: 2}
	})
	acme, globex := s.company(t, "acme"), s.company(t, "globex")
	for range 4 { // loopback addresses have no share of their own
		s.anyone().listen(t)
	}
	busy := func(as caller) {
		t.Helper()
		as.do(t, "GET /v1/ws", "", handshake...).status(http.StatusServiceUnavailable).sets("Retry-After: <number>")
	}
	busy(s.anyone())
	l := acme.listen(t)
	globex.listen(t)
	busy(globex)
	acme.attestMany(t, 1)
	l.valid("acme", 0)
}
