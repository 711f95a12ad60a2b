package server

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
)

// json responds with v in JSON.
func (c *call) json(status int, v any) error {
	var b bytes.Buffer
	if err := encodeJSON(&b, v); err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	return c.bytes(status, b.Bytes())
}

func encodeJSON(b *bytes.Buffer, v any) error {
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// bytes responds with encoded JSON. It ignores errors, which mean that the client is gone.
func (c *call) bytes(status int, body []byte) error {
	c.w.Header()["Content-Type"] = applicationJSON
	c.whole(status, body)
	return nil
}

// response remembers the status and the size of the body for the log, and whether the response was
// begun.
type response struct {
	http.ResponseWriter
	call   *call
	status int
	bytes  int64
	early  bool // it comes before the end of the request
}

func (w *response) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
		if w.call.isEarly() {
			w.early = true
			w.Header().Set("Connection", "close")
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *response) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	n, err := w.ResponseWriter.Write(b)
	w.bytes += int64(n)
	return n, err
}

// Unwrap supports http.ResponseController.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Hijack supports the WebSocket upgrade, which requires it here.
func (w *response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	w.status = http.StatusSwitchingProtocols
	return http.NewResponseController(w.ResponseWriter).Hijack()
}
