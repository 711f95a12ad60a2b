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

// bearerScheme is the subprotocol under which a browser, which cannot set Authorization on a
// WebSocket, presents a credential: it offers this name and then the credential.
const bearerScheme = "attestd.bearer"

// BearerProtocol returns the credential that is offered as a subprotocol. ok says that the request
// offers one at all; the credential is "", which is never valid, when nothing follows the name.
func BearerProtocol(r *http.Request) (credential string, ok bool) {
	for _, line := range r.Header["Sec-Websocket-Protocol"] {
		for p := range strings.SplitSeq(line, ",") {
			p = strings.TrimSpace(p)
			if ok {
				return p, true
			}
			ok = p == bearerScheme
		}
	}
	return "", ok
}

// checkHandshake refuses what is not a WebSocket handshake (RFC 6455 §4.2.1).
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

// upgrader has no limits of its own: the server has looked at the origin, and serve answers its
// errors.
var upgrader = websocket.Upgrader{
	CheckOrigin: func(*http.Request) bool { return true },
	Error:       func(http.ResponseWriter, *http.Request, int, error) {},
	// All writes are prepared messages and control frames, which need no buffer: with a pool, none
	// is ever made.
	WriteBufferPool: noBuffers{},
}

type noBuffers struct{}

func (noBuffers) Get() any { return nil }
func (noBuffers) Put(any)  {}

// upgrade answers the handshake. join is called when it is known to be a good one and before it is
// answered, so that the client misses no record after the answer. Once join has been called there
// is no HTTP left to report an error with: then c.conn stays nil and the error too.
func (c *client) upgrade(w http.ResponseWriter, r *http.Request, header http.Header, join func(*client)) error {
	header = header.Clone()
	if _, ok := BearerProtocol(r); ok {
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
	case c.net != nil: // lost on the way
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

// reason is a handshake error without the library's own preface.
func reason(err error) string {
	s := strings.TrimPrefix(err.Error(), "websocket: ")
	return strings.TrimPrefix(s, "not a websocket handshake: ")
}

// hijacker takes the connection over from net/http for one client.
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
