package attack

import (
	"net/http"

	"github.com/gorilla/websocket"

	"attestd/internal/harness"
)

// follow opens the stream; key may be "".
func follow(addr, key string, header ...string) (*websocket.Conn, int, error) {
	h := http.Header{}
	if key != "" {
		h.Set("Authorization", "Bearer "+key)
	}
	for i := 0; i+1 < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	dialer := websocket.Dialer{HandshakeTimeout: harness.Patience}
	conn, answer, err := dialer.Dial("ws://"+addr+"/v1/ws", h)
	if answer != nil {
		return conn, answer.StatusCode, err
	}
	return conn, 0, err
}
