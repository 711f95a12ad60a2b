package stream

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/gorilla/websocket"
)

// A browser can set neither Authorization nor DPoP on a WebSocket. It offers these names as
// subprotocols, each followed by its value: a credential, and, if that is bound to a key, a DPoP
// proof for the request.
const (
	bearerScheme = "attestd.bearer"
	proofScheme  = "attestd.dpop"
)

// Offer is a credential that is offered as a subprotocol. A text is "", which is never valid, if
// nothing follows its name, or its name comes twice.
type Offer struct {
	Credential string
	Proof      string
	Proves     bool // a proof is offered, be it an empty one
}

// OfferOf returns the credential that a request offers. ok reports whether it offers one.
func OfferOf(r *http.Request) (o Offer, ok bool) {
	var next *string // for what comes behind a name
	for _, line := range r.Header["Sec-Websocket-Protocol"] {
		for p := range strings.SplitSeq(line, ",") {
			p = strings.TrimSpace(p)
			switch {
			case next != nil:
				*next, next = p, nil
			case p == bearerScheme && ok, p == proofScheme && o.Proves:
				return Offer{Proves: o.Proves}, true
			case p == bearerScheme:
				next, ok = &o.Credential, true
			case p == proofScheme:
				next, o.Proves = &o.Proof, true
			}
		}
	}
	return o, ok
}

// checkHandshake refuses requests that are not a WebSocket handshake (RFC 6455 §4.2.1).
func checkHandshake(r *http.Request) error {
	refusal := &Refusal{
		Status:  http.StatusUpgradeRequired,
		Message: "Not a WebSocket handshake: this address takes WebSocket connections only",
		Header:  http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}},
	}
	if !websocket.IsWebSocketUpgrade(r) {
		return refusal
	}
	if r.Header.Get("Sec-Websocket-Version") != "13" {
		refusal.Message = "Not a WebSocket handshake: Sec-WebSocket-Version must be 13"
		refusal.Header.Set("Sec-Websocket-Version", "13")
		return refusal
	}
	return nil
}

// upgrader has no checks: the server has checked the origin, and Serve returns errors.
var upgrader = websocket.Upgrader{
	CheckOrigin: func(*http.Request) bool { return true },
	Error:       func(http.ResponseWriter, *http.Request, int, error) {},
	// All writes are prepared messages and control frames, which need no buffer. With a pool, none
	// is allocated.
	WriteBufferPool: noBuffers{},
}

type noBuffers struct{}

func (noBuffers) Get() any { return nil }
func (noBuffers) Put(any)  {}

// upgrade responds to the handshake. It calls join after validating the handshake and before the
// response, so that the client misses no record after the response. After join was called, errors
// cannot be reported by HTTP: then both c.conn and the error are nil.
func (c *client) upgrade(w http.ResponseWriter, r *http.Request, header http.Header, join func(*client)) error {
	header = header.Clone()
	if _, ok := OfferOf(r); ok {
		if header == nil {
			header = http.Header{}
		}
		header.Set("Sec-Websocket-Protocol", bearerScheme)
	}
	hijack := &hijacker{ResponseWriter: w, client: c, join: join}
	conn, err := upgrader.Upgrade(hijack, r, header)
	switch handshake := (websocket.HandshakeError{}); {
	case err == nil:
		c.conn = conn
		return nil
	case c.net != nil: // the connection was lost
		_ = c.net.Close()
		c.end(websocket.CloseAbnormalClosure, "")
		c.hangUp()
		return nil
	case hijack.err != nil:
		return fmt.Errorf("take over the connection: %w", hijack.err)
	case errors.As(err, &handshake):
		return &Refusal{Status: http.StatusBadRequest, Message: "Not a WebSocket handshake: " + reason(handshake)}
	default:
		return err
	}
}

// reason returns a handshake error without the library's prefix.
func reason(err error) string {
	s := strings.TrimPrefix(err.Error(), "websocket: ")
	return strings.TrimPrefix(s, "not a websocket handshake: ")
}

// hijacker takes over the connection from net/http for one client.
type hijacker struct {
	http.ResponseWriter
	client *client
	join   func(*client)
	err    error
}

func (h *hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		h.err = err
		return nil, nil, err
	}
	h.client.net = newWire(conn)
	h.join(h.client)
	return h.client.net, rw, nil
}
