package server

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
)

// json answers with v.
func (c *call) json(status int, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	return c.bytes(status, b.Bytes())
}

// bytes answers with JSON that stands ready. That the client may have gone is its business, not
// ours.
func (c *call) bytes(status int, body []byte) error {
	c.w.Header().Set("Content-Type", "application/json")
	c.w.WriteHeader(status)
	_, _ = c.w.Write(body)
	return nil
}

// response remembers the status for the log, and that an answer was begun.
type response struct {
	http.ResponseWriter
	status int
}

func (w *response) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *response) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap serves http.ResponseController.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Hijack serves the WebSocket upgrade, which looks for it here.
func (w *response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	w.status = http.StatusSwitchingProtocols
	return http.NewResponseController(w.ResponseWriter).Hijack()
}
